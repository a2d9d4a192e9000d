"""The writer's connection."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from hatevolution.errors import StoreError
from hatevolution.store.migrations import applied
from hatevolution.store.reader import BUSY_S, uri

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["connect_writer"]


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
