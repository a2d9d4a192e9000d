"""Reading a store: read-only connections, and what there is to know without an analysis."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from hatevolution.errors import StoreError
from hatevolution.store.files import may_be_a_store
from hatevolution.store.migrations import ADDITIVE, MIGRATIONS, applied, refuse_newer

__all__ = ["BUSY_S", "connect", "holds_anything", "uri"]

BUSY_S = 60.0
"""How long SQLite waits for a lock of another program before it gives up, in seconds."""


def uri(path: Path, mode: str) -> str:
    """Return SQLite's URI for a file; ``mode`` is ``ro``, ``rw`` or ``rwc``."""
    return f"file:{quote(str(path))}?mode={mode}"


def holds_anything(path: Path) -> bool:
    """Return whether there is anything at a path; a database without a table is a store whose making was cut off.

    Raises:
        StoreError: There is something else than a file.
    """
    if not may_be_a_store(path):
        return False
    try:
        with closing(sqlite3.connect(uri(path, "ro"), uri=True, timeout=BUSY_S)) as connection:
            return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return True  # whoever opens it says what is wrong with it


def connect(path: Path | str) -> sqlite3.Connection:
    """Open a store for reading alone; never blocks the writer and is never blocked by it.

    Raises:
        StoreError: There is no such file, it can't be read, it is no store, or its schema is not this version's.
    """
    path = Path(path)
    if not may_be_a_store(path):
        raise StoreError(f"There is no store at {path}; `hatevolution run CONFIG --store {path}` makes one.")
    try:
        connection = sqlite3.connect(uri(path, "ro"), uri=True, timeout=BUSY_S, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreError(f"{path} can't be read as a store: {error}.") from None
    try:
        connection.execute("PRAGMA query_only = 1")
        _refuse_others(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path} can't be read as a store: {error}.") from None
    except StoreError:
        connection.close()
        raise
    return connection


def _refuse_others(connection: sqlite3.Connection, path: Path) -> None:
    """Stop where a database is no store, or not one that this version can read."""
    refuse_newer(connection, path)
    done = applied(connection)
    if not done:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        what = "not a store of hatevolution" if tables else "empty: the making of a store was cut off"
        raise StoreError(f"{path} is a SQLite file but {what}.")
    missing = [name for name in MIGRATIONS if name not in done and name not in ADDITIVE]
    if missing:
        raise StoreError(
            f"{path} was written by an older version of hatevolution; start `hatevolution run` on it once, which "
            f"applies {missing[0]}."
        )
