"""The files that a store has, and what may stand at its place before it is opened."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from hatevolution.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["JOURNALS", "LOCK", "RESERVE", "beside", "may_be_a_store", "own_files"]

JOURNALS: Final = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside a store in use; they hold answers, or how to find them."""
LOCK: Final = ".lock"
"""Ending of the file that its writer has locked."""
RESERVE: Final = ".reserve"
"""Ending of the file that holds disk space for what is in flight."""

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def beside(store: Path, ending: str) -> Path:
    """Return the path of one of the files beside a store."""
    return store.with_name(store.name + ending)


def own_files(store: Path) -> set[Path]:
    """Return the resolved paths of a store and of everything that belongs to it, whether it is there or not."""
    real = store.resolve()
    return {real, *(beside(real, ending) for ending in (*JOURNALS, LOCK, RESERVE))}


def may_be_a_store(path: Path) -> bool:
    """Return whether there is a file at a path; False where there is nothing.

    Looks at it without opening it: a named pipe would wait for somebody at its other end.

    Raises:
        StoreError: There is something else than a file, or it can't be looked at.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"The store {path} can't be read: {error.strerror}.") from None
    if stat.S_ISREG(mode):
        return True
    kind = next((name for test, name in _KINDS if test(mode)), "no file")
    raise StoreError(f"{path} is {kind}, which can't hold a store; --store names a file.")
