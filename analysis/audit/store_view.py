"""Finding answers in a store: SQLite filters, orders and pages; a parse policy is asked once per distinct text.

How a selection by outcome is found without reading every answer into Python: most answers are one of a few texts, so a
text that was judged once is remembered in a temporary table, and from then on SQLite itself passes over the rows that
have it. What remains to be judged are texts that were not seen before. Keys of what was found stand in a temporary
table too (on disk where it grows), so memory does not grow with the store.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hatevolution.analysis.audit.readers import outcomes, readers
from hatevolution.analysis.audit.records import (
    ANSWER_COLUMNS,
    ANSWER_FROM,
    AnswerRow,
    batches,
    complete,
    kinds_of,
    text_of,
)
from hatevolution.analysis.audit.selection import (
    Selection,
    has_text,
    in_text,
    make_sentence_table,
    names_condition,
)
from hatevolution.errors import StoreError
from hatevolution.store.reader import connect
from hatevolution.store.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


__all__ = ["CellCount", "StoreView"]

_FIRST_ROWS: Final = 2_000
_MOST_ROWS: Final = 200_000
_LEARNED: Final = 5_000
"""Most texts that are remembered per model: past that, nearly every answer is new and remembering helps nobody."""
_LEARNED_LENGTH: Final = 200


_COMMON: Final = 8
_EXCEPTIONS: Final = 100


class Passing(NamedTuple):
    """Conditions on predictions ``p``, and the values in them."""

    sql: list[str]
    values: list[Any]


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
                self._fill(matches or self._by_outcome())
                if self.selection.kinds is not None:
                    self._keep_kinds(set(self.selection.kinds))
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

    def _where(self) -> tuple[str, list[Any]]:
        """Return the condition on predictions ``p`` that SQLite can decide."""
        parts: list[tuple[str, list[Any]]] = []
        for column, names in (
            # The plus keeps SQLite from walking the index in place of the range of rows.
            ("+p.model", self.selection.models),
            ("+p.dataset", self.selection.datasets),
            ("+p.status", self.selection.statuses),
        ):
            condition = names_condition(column, names)
            parts += [condition] if condition is not None else []
        if self.sentences_chosen:
            parts.append(("(p.dataset, p.sentence) IN (SELECT dataset, sentence FROM temp.chosen)", []))
        if self.selection.search is not None:
            answer, in_answer = has_text(self.selection.search, "p.raw_text")
            sentence, in_sentence = has_text(self.selection.search, "text")
            sentences = f"SELECT dataset, sentence FROM sentences WHERE {sentence}"  # noqa: S608 - constants
            parts.append((f"({answer} OR (p.dataset, p.sentence) IN ({sentences}))", [in_answer, in_sentence]))
        return " AND ".join(["TRUE", *(part for part, _ in parts)]), [value for _, values in parts for value in values]

    def _fill(self, matches: Callable[..., Sequence[bool]] | None) -> None:
        execute, (where, values) = self.connection.execute, self._where()
        execute(
            "CREATE TEMP TABLE found (model INTEGER, dataset INTEGER, prediction INTEGER, "
            "PRIMARY KEY (model, dataset, prediction)) WITHOUT ROWID"
        )
        insert = "INSERT INTO temp.found SELECT m.position, d.position, p.rowid FROM"
        place = "CROSS JOIN models AS m ON m.model = p.model CROSS JOIN datasets AS d ON d.dataset = p.dataset"
        if matches is None:
            execute(f"{insert} predictions AS p {place} WHERE {where}", values)
            return
        execute(
            # STRICT: elsewhere ANY means numeric affinity, and "1.0" would be taken for "1".
            "CREATE TEMP TABLE judged (model TEXT, raw_text ANY, matches INTEGER, "
            "PRIMARY KEY (model, raw_text)) STRICT, WITHOUT ROWID"
        )
        execute("CREATE TEMP TABLE matching (prediction INTEGER PRIMARY KEY)")
        learned = dict.fromkeys((name for name, reader in self.readers.items() if reader.reads_text_alone), 0)
        common = Passing([], [])
        for first, last in self._ranges():
            if first > 1 and not common.sql:
                common = self._common(matches, list(learned))
            rows = execute(
                "SELECT p.rowid, j.matches, p.model, CASE WHEN j.matches THEN NULL ELSE p.raw_text END, p.scores "  # noqa: S608 - constants and numbers
                "FROM predictions AS p LEFT JOIN temp.judged AS j ON j.model = p.model AND j.raw_text = p.raw_text "
                f"WHERE j.matches IS NOT 0 AND p.rowid BETWEEN {first} AND {last} "
                f"AND p.status = 'answered' {' '.join(common.sql)} AND {where}",
                [*common.values, *values],
            )
            for batch in batches(rows, heavy=3, size=_MOST_ROWS):
                self._judge(batch, matches, learned)
        execute(f"{insert} temp.matching AS n CROSS JOIN predictions AS p ON p.rowid = n.prediction {place}")

    def _common(self, matches: Callable[..., Sequence[bool]], learned: Sequence[str]) -> Passing:
        """Return the condition by which rows with one of the commonest texts are passed over without a look-up.

        That is four times as fast as the look-up, and most rows have one of these texts. A model for which such a text
        matches, or for which it does not decide, is an exception: its rows are looked at.
        """
        rows = self.connection.execute(
            f"SELECT p.raw_text FROM predictions AS p WHERE p.rowid <= {_FIRST_ROWS} AND p.status = 'answered' "  # noqa: S608 - a number
            f"AND length(p.raw_text) <= {_LEARNED_LENGTH} GROUP BY p.raw_text HAVING count(*) > {_FIRST_ROWS // 100} "
            f"ORDER BY count(*) DESC LIMIT {_COMMON}"
        )
        passing = Passing([], [])
        for (text,) in rows:
            verdicts = matches(learned, [text_of(text)] * len(learned), [""] * len(learned))
            passed = {name for name, yes in zip(learned, verdicts, strict=True) if not yes}
            looked_at = [name for name in self.readers if name not in passed]
            if not passed or len(looked_at) > _EXCEPTIONS:
                continue
            unless = f" OR p.model IN ({', '.join('?' * len(looked_at))})" if looked_at else ""
            passing.sql.append(f"AND (p.raw_text IS NOT ?{unless})")
            passing.values.extend([text, *looked_at])
        return passing

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of row numbers: short ones first, from which the common texts are learned."""
        last = self.connection.execute("SELECT coalesce(max(rowid), 0) FROM predictions").fetchone()[0]
        first, rows = 1, _FIRST_ROWS
        while first <= last:
            yield first, min(first + rows - 1, last)
            first, rows = first + rows, min(rows * 4, _MOST_ROWS)

    def _judge(
        self, batch: Sequence[tuple[Any, ...]], matches: Callable[..., Sequence[bool]], learned: dict[str, int]
    ) -> None:
        matching = [row[0] for row in batch if row[1]]
        distinct: dict[tuple[str, Any, Any], list[int]] = {}
        for row, known, model, raw, scores in batch:
            if not known:
                distinct.setdefault((model, raw, None if model in learned else scores), []).append(row)
        keys = list(distinct)
        found = matches([key[0] for key in keys], [text_of(key[1]) for key in keys], [key[2] or "" for key in keys])
        remember = []
        for (model, raw, _), rows, yes in zip(keys, distinct.values(), found, strict=True):
            if yes:
                matching += rows
            if raw is not None and len(raw) <= _LEARNED_LENGTH and learned.get(model, _LEARNED) < _LEARNED:
                learned[model] += 1
                remember.append((model, raw, yes))
        self.connection.executemany("INSERT INTO temp.matching VALUES (?)", ((row,) for row in matching))
        self.connection.executemany("INSERT OR IGNORE INTO temp.judged VALUES (?, ?, ?)", remember)

    def _keep_kinds(self, wanted: set[str]) -> None:
        """Take away what is of none of the kinds."""
        rows = self.connection.execute(
            f"SELECT {ANSWER_COLUMNS}, f.model, f.dataset, f.prediction FROM temp.found AS f "  # noqa: S608 - constants
            f"JOIN predictions AS p ON p.rowid = f.prediction {ANSWER_FROM}"
        )
        drop: list[tuple[int, int, int]] = []
        for batch in batches(rows, heavy=12):
            raw = [text_of(row[12]) for row in batch]
            kinds = kinds_of(self.readers, batch, raw, range(len(batch)))
            drop += [row[-3:] for index, row in enumerate(batch) if not wanted.intersection(kinds[index])]
        self.connection.executemany("DELETE FROM temp.found WHERE model = ? AND dataset = ? AND prediction = ?", drop)

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
