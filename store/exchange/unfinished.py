"""What is being made beside its final place, and what a killed command left of that.

Whoever makes such a file or folder holds a lock on it, which the operating system lets go of when the process dies,
however it dies. So the next start towards the same place knows what is nobody's any more, and takes it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import TYPE_CHECKING, Final

from hatevolution.store.files import JOURNALS, beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["unfinished_file", "unfinished_folder"]

_RANDOM: Final = "[a-z0-9_]{8}"
"""What :mod:`tempfile` puts between beginning and end of a name."""
_TRIES: Final = 100


@contextmanager
def unfinished_file(folder: Path, begin: str, end: str) -> Iterator[Path]:
    """Make an empty file of a name that nobody has; taken away at the end, unless it was given another name.

    Args:
        folder: Where.
        begin: How its name begins; older files of such names that no process holds are taken away first.
        end: How its name ends.

    Raises:
        OSError: The folder can't be written to.
    """
    _clear(folder, begin, end, stat.S_ISREG)
    with _held(lambda: _made_file(folder, begin, end)) as path:
        yield path


@contextmanager
def unfinished_folder(folder: Path, begin: str, end: str) -> Iterator[Path]:
    """Make an empty folder in the way of :func:`unfinished_file`."""
    _clear(folder, begin, end, stat.S_ISDIR)
    with _held(lambda: Path(mkdtemp(dir=folder, prefix=begin, suffix=end))) as path:
        yield path


def _made_file(folder: Path, begin: str, end: str) -> Path:
    descriptor, name = mkstemp(dir=folder, prefix=begin, suffix=end)
    os.close(descriptor)
    return Path(name)


@contextmanager
def _held(make: Callable[[], Path]) -> Iterator[Path]:
    for _ in range(_TRIES):
        path = make()
        descriptor = _locked(path, fcntl.LOCK_EX)
        if descriptor is not None:
            break  # else somebody took it for left behind, in the moment before it was locked
    else:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    try:
        yield path
    finally:
        _take_away(path)
        os.close(descriptor)


def _locked(path: Path, how: int) -> int | None:
    """Return a descriptor that locks what is at a path; None where it is gone, or another process has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, how)
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _clear(folder: Path, begin: str, end: str, kind: Callable[[int], bool]) -> None:
    pattern = re.compile(re.escape(begin) + _RANDOM + re.escape(end))
    for path in folder.iterdir():
        if pattern.fullmatch(path.name) is None:
            continue
        descriptor = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            if kind(os.fstat(descriptor).st_mode):
                _take_away(path)
            os.close(descriptor)


def _take_away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    for ending in ("", "-journal", *JOURNALS):  # it may be a database, with what SQLite keeps beside one
        with suppress(OSError):
            beside(path, ending).unlink(missing_ok=True)
