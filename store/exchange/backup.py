"""``store backup``: one file with all of a store as it is at one moment, taken while a run writes to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from hatevolution.errors import StoreError
from hatevolution.store.exchange.unfinished import unfinished_file
from hatevolution.store.exchange.verifying import verify_connection
from hatevolution.store.exchange.watch import interruptible, silent
from hatevolution.store.reader import connect, uri

if TYPE_CHECKING:
    from pathlib import Path

    from hatevolution.store.exchange.verifying import Check
    from hatevolution.store.exchange.watch import Tell

__all__ = ["Backup", "backup_store"]

_PAGES: Final = 4_096
"""Pages copied between two looks at the signals; 16 MiB."""
_COUNTED: Final = ("runs", "sentences", "predictions", "responses", "failures")


class Backup(NamedTuple):
    """A backup that was taken and verified."""

    file: Path
    bytes: int
    answers: int
    checks: list[Check]


def backup_store(store: Path, out: Path, *, tell: Tell = silent) -> Backup:
    """Copy a store into one file, verify the copy, and only then give it its name.

    A run that writes to the store is neither blocked nor waited for: the copy is of the moment at which it began. (The
    write-ahead log can't shrink meanwhile.)

    Raises:
        StoreError: ``out`` exists already, can't be written, or the copy did not pass verification.
    """
    if out.exists() or out.is_symlink():
        raise StoreError(f"{out} exists already; a backup never overwrites anything. Choose another --out.")
    if not out.parent.is_dir():
        raise StoreError(f"The folder {out.parent} does not exist; make it first.")
    with closing(connect(store)) as source:
        # Held from here to the end: without it SQLite would start over with each commit of the run.
        source.execute("BEGIN")
        counts = _counts(source)
        try:
            with unfinished_file(out.parent, f".{out.name}.", ".partial") as partial:
                _copy(source, partial, tell)
                partial.chmod(store.stat().st_mode & 0o777)
                checks = _verified(partial, counts, tell)
                _sync(partial)
                _name(partial, out)
        except OSError as error:
            raise StoreError(f"{out.parent} can't be written to: {error.strerror}.") from None
    return Backup(out, out.stat().st_size, counts[_COUNTED.index("predictions")], checks)


def _counts(connection: sqlite3.Connection) -> list[int]:
    return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _COUNTED]  # noqa: S608 - constants only


def _copy(source: sqlite3.Connection, partial: Path, tell: Tell) -> None:
    try:
        with closing(sqlite3.connect(partial, isolation_level=None)) as target:
            source.backup(
                target, pages=_PAGES, progress=lambda _status, left, total: tell("copying", total - left, total)
            )
    except sqlite3.Error as error:
        raise StoreError(f"The backup could not be written: {error}.") from None


def _verified(partial: Path, counts: list[int], tell: Tell) -> list[Check]:
    # Immutable: nobody else knows this file, and no write-ahead log is to be made beside it.
    with closing(sqlite3.connect(f"{uri(partial, 'ro')}&immutable=1", uri=True)) as copy:
        with interruptible(copy):
            if _counts(copy) != counts:
                raise StoreError("The backup does not hold what the store holds; it was thrown away.")
        return list(verify_connection(copy, tell=tell))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(partial: Path, out: Path) -> None:
    """Give the finished file its name, which nobody may have taken meanwhile."""
    try:
        try:
            os.link(partial, out)
        except PermissionError:  # a file system without links
            if out.exists():
                raise FileExistsError from None
            partial.rename(out)
    except FileExistsError:
        raise StoreError(f"{out} exists by now; a backup never overwrites anything. Choose another --out.") from None
    except OSError as error:
        raise StoreError(f"{out} can't be written: {error.strerror}.") from None
    _sync(out.parent)
