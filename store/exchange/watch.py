"""Long statements: their progress, and Ctrl-C in the middle of them."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Tell", "interruptible", "silent"]

_STEPS = 200_000
"""Steps of SQLite's machine between two looks at the signals; some milliseconds."""


class Tell(Protocol):
    """Takes how far a long piece of work is."""

    def __call__(self, what: str, done: int, total: int | None, /) -> None:
        """Say what is being done, and how many of how many units of it are done (total None: unknown)."""


def silent(what: str, done: int, total: int | None) -> None:
    """Tell nobody."""


@contextmanager
def interruptible(connection: sqlite3.Connection) -> Iterator[None]:
    """Let Ctrl-C end a statement that runs for minutes; without this it would be seen only at its end.

    Python's signal handlers run between its own instructions, so SQLite is made to call some every few milliseconds.
    """
    raised: list[BaseException] = []

    def look() -> int:
        try:
            for _ in range(2):  # gives a waiting signal a place to be raised
                pass
        except BaseException as error:
            raised.append(error)
            return 1
        return 0

    connection.set_progress_handler(look, _STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if raised:
            raise raised[0] from None
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise KeyboardInterrupt from None
        raise
    finally:
        connection.set_progress_handler(None, 0)
