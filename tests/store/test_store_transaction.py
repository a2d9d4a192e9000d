"""The one transaction that everything goes into a store by."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hatevolution.errors import StoreError
from hatevolution.store.connection import transaction
from hatevolution.store.opened import WritableStore

if TYPE_CHECKING:
    from pathlib import Path


def test_all_is_kept_or_nothing(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER UNIQUE)")
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
        for error in (KeyboardInterrupt, ValueError):
            with pytest.raises(error), transaction(connection):
                connection.execute("INSERT INTO t VALUES (2)")
                raise error
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute("INSERT INTO t VALUES (3)")
            connection.execute("INSERT INTO t VALUES (1)")
        assert not connection.in_transaction
        assert connection.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_what_another_program_has_locked_is_not_waited_for_in_a_half_begun_one(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with WritableStore(path, "r") as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.connection.execute("PRAGMA busy_timeout = 0")
        with transaction(other):
            with pytest.raises(sqlite3.OperationalError, match="locked"), transaction(store.connection):
                pass
            with pytest.raises(StoreError, match="can't be written to: database is locked"), store.transaction():
                pass
            assert not store.connection.in_transaction
        with store.transaction() as connection:
            assert connection is store.connection
