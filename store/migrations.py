"""Schema changes, in order, recorded by name in the store (sqlite-utils' migrations). Only ever added to."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hatevolution.errors import StoreError
from hatevolution.store.batch_schema import BATCHES
from hatevolution.store.schema import INITIAL
from hatevolution.store.second_schema import SECOND_ANSWERS
from hatevolution.store.tally_schema import TALLIES
from hatevolution.store.verdict_schema import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlite_utils import Database

__all__ = ["ADDITIVE", "APPLICATION_ID", "MIGRATIONS", "applied", "migrate", "refuse_newer"]

APPLICATION_ID = 0x48617465
"""Marks a SQLite file as a store ("Hate"); ``PRAGMA application_id``."""

_SET = "hatevolution"


def _statements(script: str) -> Iterator[str]:
    """Split a script at its statements' ends, triggers kept whole."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _m001_initial(db: Database) -> None:
    # One by one: `executescript` would commit first, and a half-made schema could survive a crash.
    for statement in _statements(INITIAL):
        db.execute(statement)


def _m002_verdicts(db: Database) -> None:
    for statement in _statements(VERDICTS):
        db.execute(statement)


def _m003_second_answers(db: Database) -> None:
    for statement in _statements(SECOND_ANSWERS):
        db.execute(statement)


def _m004_batches(db: Database) -> None:
    for statement in _statements(BATCHES):
        db.execute(statement)


def _m005_tallies(db: Database) -> None:
    for statement in _statements(TALLIES):
        db.execute(statement)


MIGRATIONS: dict[str, Callable[[Database], None]] = {
    "m001_initial": _m001_initial,
    "m002_verdicts": _m002_verdicts,
    "m003_second_answers": _m003_second_answers,
    "m004_batches": _m004_batches,
    "m005_tallies": _m005_tallies,
}

ADDITIVE = frozenset({"m002_verdicts", "m003_second_answers", "m004_batches", "m005_tallies"})
"""Migrations that only add tables of their own: a store that has not had them yet can be read as it is."""


def applied(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the migrations that a store has had, oldest first; empty where it is no store."""
    try:
        rows = connection.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY rowid", [_SET]
        ).fetchall()
    except sqlite3.OperationalError:
        return []
    return [name for (name,) in rows]


def refuse_newer(connection: sqlite3.Connection, path: Path | str) -> None:
    """Stop where a store is not for this version of the program; writes nothing.

    Raises:
        StoreError: A newer version wrote it: it has had a migration that is not known here, or a ``user_version``,
            which this version leaves at 0.
    """
    done = applied(connection)
    newer = [f"it has had {name}" for name in done if name not in MIGRATIONS]
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    if number and (done or owner == APPLICATION_ID):
        newer.append(f"its user_version is {number}")
    if newer:
        raise StoreError(
            f"{path} was written by a newer version of hatevolution ({newer[-1]}); update this installation to use it."
        )


@contextmanager
def _without(*names: str) -> Iterator[None]:
    """Let imports inside do without optional packages.

    sqlite-utils imports pandas and numpy wherever they are installed, for functions that are not used here: more than
    half a second of the start of every new store.
    """
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def migrate(connection: sqlite3.Connection, path: str) -> list[str]:
    """Bring a store's schema up to date and return the names of the migrations that ran.

    Raises:
        StoreError: The store was written by a newer version of this program.
    """
    refuse_newer(connection, path)
    done = applied(connection)
    pending = [name for name in MIGRATIONS if name not in done]
    if pending:
        # Imported only here: a store that is up to date needs nothing of it, and start-up stays fast.
        with _without("numpy", "pandas"):
            from sqlite_utils import Database, Migrations

        migrations = Migrations(_SET)
        for name, function in MIGRATIONS.items():
            migrations(name=name)(function)
        migrations.apply(Database(connection))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return pending
