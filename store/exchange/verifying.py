"""``store verify``: is everything in a store what it says it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from hatevolution.store.exchange.checks import CHECKS, Found
from hatevolution.store.exchange.watch import interruptible, silent
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hatevolution.store.exchange.watch import Tell

__all__ = ["Check", "verify_connection", "verify_store"]


class Check(NamedTuple):
    """The outcome of one check."""

    name: str
    what: str
    ok: bool
    checked: int
    problems: int
    shown: list[str]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return self._asdict()


def verify_store(path: Path, *, tell: Tell = silent) -> Iterator[Check]:
    """Check a store and yield each check's outcome as it is done; reads only, and sees one moment of a running store.

    Raises:
        StoreError: It is no store, or can't be opened.
    """
    with closing(connect(path)) as connection:
        connection.execute("BEGIN")  # one moment for all checks, whatever a run adds meanwhile
        yield from verify_connection(connection, tell=tell)


def verify_connection(connection: sqlite3.Connection, *, tell: Tell = silent) -> Iterator[Check]:
    """Check the store that a connection reads; see :func:`verify_store`."""
    for name, (what, check) in CHECKS.items():
        tell(f"checking {what}", 0, None)
        try:
            with interruptible(connection):
                found = check(connection, tell)
        except (sqlite3.DatabaseError, UnicodeError, ValueError) as error:
            # A damaged file breaks the statements that look at it; that is what was to be found out.
            found = Found(0, 1, [f"it can't be read: {error}"], [])
        yield Check(name, what, found.problems == 0, *found)
