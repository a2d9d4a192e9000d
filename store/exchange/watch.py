"""Long statements: their progress, and Ctrl-C in the middle of them."""

from __future__ import annotations

import signal
import sqlite3
import threading
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
    # A flag and not an exception: one that is raised a moment before or after the handler's own lines would be lost.
    signalled: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, lambda number, _frame: signalled.append(number))
    connection.set_progress_handler(lambda: len(signalled), _STEPS)
    try:
        yield
    except sqlite3.OperationalError:
        if not signalled:
            raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        connection.set_progress_handler(None, 0)
    if signalled:
        raise KeyboardInterrupt
