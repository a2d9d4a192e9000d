"""The writer's connection."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from hatevolution.errors import StoreError
from hatevolution.store.files import beside, may_be_a_store
from hatevolution.store.migrations import applied, refuse_newer
from hatevolution.store.reader import BUSY_S, uri

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["connect_writer", "refuse_strangers", "transaction"]

_MAGIC = b"SQLite format 3\0"


def refuse_strangers(path: Path) -> None:
    """Stop before a lock is put beside what this version can't write to, and before SQLite touches it.

    Raises:
        StoreError: It is no file, no SQLite file, or a store that a newer version wrote.
    """
    if not may_be_a_store(path):
        return
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise StoreError(f"The store {path} can't be read: {error.strerror}.") from None
    if start and start != _MAGIC:
        raise StoreError(f"The file {path} is not a store (it is no SQLite file); use another --store.")
    # A log that holds anything has to be read too. Without one the file is all there is, and SQLite makes no other.
    log = beside(path, "-wal")
    alone = "" if log.exists() and log.stat().st_size else "&immutable=1"
    with (
        suppress(sqlite3.Error),  # damaged, or changed just now by a writer: the one who has the lock finds out
        closing(sqlite3.connect(uri(path, "ro") + alone, uri=True, timeout=BUSY_S)) as connection,
    ):
        refuse_newer(connection, path)


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open (or create) a store for its one writer: WAL, every commit synced to the disk, foreign keys enforced.

    The caller holds the :class:`~hatevolution.store.lock.WriterLock`.

    Raises:
        StoreError: It can't be created or opened, or is something else than a store.
    """
    try:
        connection = sqlite3.connect(
            uri(path, "rwc"), uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise StoreError(f"The store {path} can't be opened: {error}.") from None
    try:
        refuse_newer(connection, path)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and not applied(connection):
            raise StoreError(f"{path} is a SQLite file but not a store of hatevolution; use another --store.")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreError(f"{path} can't be used with write-ahead logging (journal mode {mode}); use a local disk.")
        # FULL: an answer that was committed survives a power cut too. With group commit it costs next to nothing.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = 1")
        connection.execute("PRAGMA recursive_triggers = 1")
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"The store {path} can't be opened: {error}.") from None
    except StoreError:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of what is written inside, or nothing of it.

    Raises:
        sqlite3.Error: It can't be begun or committed.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
