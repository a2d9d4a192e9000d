"""Finding answers in a store: SQLite filters, orders and pages; a parse policy is asked once per distinct text.

:class:`~hatevolution.analysis.audit.finding.Finder` says how that is done.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple, Self

from hatevolution.analysis.audit.finding import Finder
from hatevolution.analysis.audit.readers import outcomes, readers
from hatevolution.analysis.audit.records import (
    ANSWER_COLUMNS,
    ANSWER_FROM,
    AnswerRow,
    batches,
    complete,
)
from hatevolution.analysis.audit.selection import (
    Selection,
    in_text,
    make_sentence_table,
)
from hatevolution.errors import StoreError
from hatevolution.store.reader import connect
from hatevolution.store.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


__all__ = ["CellCount", "StoreView"]


class CellCount(NamedTuple):
    """How many answers of one model about one data set were found."""

    model: str
    dataset: str
    answers: int


class StoreView:
    """A selection of a store's answers. Use as a context manager; everything is read at one point in time.

    Args:
        path: The store; opened for reading alone.
        selection: Which answers.

    Raises:
        StoreError: There is no such store, or it can't be read.
        ConfigError: The selection names something that is not there.
    """

    def __init__(self, path: Path | str, selection: Selection) -> None:
        self.path = path
        self.selection = selection
        self.connection = connect(path)
        try:
            # Temporary tables are writes too; the file itself is opened with mode=ro all the same.
            self.connection.execute("PRAGMA query_only = 0")
            self.connection.isolation_level = None
            self.connection.execute("BEGIN")
            self.connection.create_function("folded_has", 2, _folded_has, deterministic=True)
            self.readers = readers(self.connection, selection.parser, selection.models)
            selection.check(self.connection)
            self.sentences_chosen = make_sentence_table(self.connection, selection)
        except sqlite3.Error as error:
            self.connection.close()
            raise StoreError(f"{path} can't be read: {error}.") from None
        except BaseException:
            self.connection.close()
            raise
        self._found: list[CellCount] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.connection.close()

    # -- finding -----------------------------------------------------------------------------------------------

    def find(self, matches: Callable[..., Sequence[bool]] | None = None) -> list[CellCount]:
        """Find the answers of the selection and return their numbers, in the order in which they are shown.

        Args:
            matches: Takes models, texts and scores of some answers and tells which to find; by default the
                selection's own outcomes decide.
        """
        if self._found is None:
            try:
                finder = Finder(self.connection, self.selection, self.readers, sentences_chosen=self.sentences_chosen)
                finder.fill(matches or self._by_outcome())
                if self.selection.kinds is not None:
                    finder.keep_kinds(set(self.selection.kinds))
                rows = self.connection.execute(
                    "SELECT m.model, d.dataset, f.n FROM (SELECT model, dataset, count(*) AS n FROM temp.found "
                    "GROUP BY model, dataset) AS f JOIN models AS m ON m.position = f.model "
                    "JOIN datasets AS d ON d.position = f.dataset ORDER BY m.position, d.position"
                )
                self._found = [CellCount(*row) for row in rows]
            except sqlite3.Error as error:
                raise StoreError(f"{self.path} can't be read: {error}.") from None
        return self._found

    def count(self) -> int:
        """Return how many answers the selection has."""
        return sum(cell.answers for cell in self.find())

    def _by_outcome(self) -> Callable[..., Sequence[bool]] | None:
        wanted = self.selection.outcomes
        if wanted is None:
            return None
        return lambda *columns: [outcome in wanted for outcome in outcomes(self.readers, *columns)]

    # -- reading what was found -----------------------------------------------------------------------------------

    def rows(self, offset: int = 0, limit: int | None = None) -> Iterator[AnswerRow]:
        """Yield what was found by model, data set and place in the set, in the store's order of each."""
        left = limit
        for cell in self.find():
            if offset >= cell.answers:
                offset -= cell.answers
                continue
            if left is not None and left <= 0:
                return
            for batch in batches(self._cell(cell, offset, left), heavy=12):
                yield from complete(self.readers, batch)
            taken = cell.answers - offset
            left = None if left is None else left - taken
            offset = 0

    def _cell(self, cell: CellCount, offset: int, limit: int | None) -> sqlite3.Cursor:
        return self.connection.execute(
            f"SELECT {ANSWER_COLUMNS} FROM temp.found AS f JOIN predictions AS p ON p.rowid = f.prediction "  # noqa: S608 - constants
            f"{ANSWER_FROM} WHERE f.model = (SELECT position FROM models WHERE model = ?) "
            "AND f.dataset = (SELECT position FROM datasets WHERE dataset = ?) ORDER BY s.position LIMIT ? OFFSET ?",
            [cell.model, cell.dataset, -1 if limit is None else limit, offset],
        )

    def keys(self, *, with_text: bool = False) -> Iterator[tuple[str, str, str]]:
        """Yield the keys of what was found, in no particular order; ``with_text``: only of answers in text."""
        self.find()
        yield from self.connection.execute(
            "SELECT p.model, p.dataset, p.sentence FROM temp.found AS f JOIN predictions AS p "
            "ON p.rowid = f.prediction WHERE p.raw_text IS NOT NULL OR NOT ?",
            [with_text],
        )

    def row(self, model: str, dataset: str, sentence: str) -> AnswerRow | None:
        """Return one answer by its key, whatever the selection says; None where the store has none."""
        return self.rows_by_key([(model, dataset, sentence)]).get((model, dataset, sentence))

    def rows_by_key(self, keys: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], AnswerRow]:
        """Return answers by their keys, whatever the selection says; those that the store has not are left out."""
        query = (
            f"SELECT {ANSWER_COLUMNS} FROM predictions AS p {ANSWER_FROM} "  # noqa: S608 - constants
            "WHERE p.model = ? AND p.dataset = ? AND p.sentence = ?"
        )
        # All at once: to read one answer costs as much as to read hundreds, since every rule is compiled for it.
        rows = [row for key in keys for row in self.connection.execute(query, key)]
        return {(row.model, row.dataset, row.sentence): row for row in complete(self.readers, rows)}


def _folded_has(value: str | bytes | None, search: str | bytes) -> bool:
    return value is not None and decode(search) in in_text(decode(value))
