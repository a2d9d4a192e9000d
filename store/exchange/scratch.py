"""A store for a moment: what is imported is put together in one, and then merged like any other."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from hatevolution.errors import StoreError
from hatevolution.store.exchange.unfinished import unfinished_folder
from hatevolution.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Scratch", "scratch"]


class Scratch:
    """A store that nobody else knows; complete once :meth:`finish` was called."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection

    def finish(self, what: str) -> Path:
        """Commit, check that every row points at rows that are there, and return the path.

        Raises:
            StoreError: One does not; the text begins with ``what``.
        """
        self.connection.commit()
        broken = self.connection.execute("PRAGMA foreign_key_check").fetchone()
        if broken is not None:
            raise StoreError(
                f"{what} is not complete: a row of {broken[0]} points at a row of {broken[2]} that it lacks."
            )
        self.connection.close()
        return self.path


@contextmanager
def scratch(beside: Path) -> Iterator[Scratch]:
    """Make an empty store in a folder beside another store (where there has to be room), and take it away again."""
    if not beside.parent.is_dir():
        raise StoreError(f"The folder {beside.parent} of the store does not exist; make it first.")
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(unfinished_folder(beside.parent, f".{beside.name}.import-", ""))
        except OSError as error:
            raise StoreError(f"{beside.parent} can't be written to: {error.strerror}.") from None
        path = folder / "import.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection, str(path))
            # Thrown away whatever happens: nothing has to survive a crash.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA cache_size = -262144")
            connection.execute("BEGIN")
            yield Scratch(path, connection)
