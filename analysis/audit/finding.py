"""How the answers of a selection are found: SQLite filters; a parse policy is asked once per distinct text.

How a selection by outcome is found without reading every answer into Python: most answers are one of a few texts, so a
text that was judged once is remembered in a temporary table, and from then on SQLite itself passes over the rows that
have it. What remains to be judged are texts that were not seen before. Keys of what was found stand in a temporary
table too (on disk where it grows), so memory does not grow with the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.analysis.audit.records import ANSWER_COLUMNS, ANSWER_FROM, batches, kinds_of, text_of
from hatevolution.analysis.audit.selection import has_text, names_condition

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hatevolution.analysis.audit.readers import Reader
    from hatevolution.analysis.audit.selection import Selection

__all__ = ["Finder"]

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


class Finder:
    """Finds answers in a store that is open for reading, and may have temporary tables.

    Args:
        connection: To the store.
        selection: Which answers.
        readers: The models of the selection, each with its policy.
        sentences_chosen: Whether there is a table ``chosen`` of sentences, outside of which nothing is looked for.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        selection: Selection,
        readers: Mapping[str, Reader],
        *,
        sentences_chosen: bool,
    ) -> None:
        self._connection = connection
        self._selection = selection
        self._readers = readers
        self._sentences_chosen = sentences_chosen

    def fill(self, matches: Callable[..., Sequence[bool]] | None) -> None:
        """Put the keys of the answers into the temporary table ``found``.

        Args:
            matches: Takes models, texts and scores of some answers and tells which to find; None for all.
        """
        execute, (where, values) = self._connection.execute, self._where()
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
        learned = dict.fromkeys((name for name, reader in self._readers.items() if reader.reads_text_alone), 0)
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

    def keep_kinds(self, wanted: set[str]) -> None:
        """Take away from ``found`` what is of none of the kinds."""
        rows = self._connection.execute(
            f"SELECT {ANSWER_COLUMNS}, f.model, f.dataset, f.prediction FROM temp.found AS f "  # noqa: S608 - constants
            f"JOIN predictions AS p ON p.rowid = f.prediction {ANSWER_FROM}"
        )
        drop: list[tuple[int, int, int]] = []
        for batch in batches(rows, heavy=12):
            raw = [text_of(row[12]) for row in batch]
            kinds = kinds_of(self._readers, batch, raw, range(len(batch)))
            drop += [row[-3:] for index, row in enumerate(batch) if not wanted.intersection(kinds[index])]
        self._connection.executemany("DELETE FROM temp.found WHERE model = ? AND dataset = ? AND prediction = ?", drop)

    def _where(self) -> tuple[str, list[Any]]:
        """Return the condition on predictions ``p`` that SQLite can decide."""
        parts: list[tuple[str, list[Any]]] = []
        for column, names in (
            # The plus keeps SQLite from walking the index in place of the range of rows.
            ("+p.model", self._selection.models),
            ("+p.dataset", self._selection.datasets),
            ("+p.status", self._selection.statuses),
        ):
            condition = names_condition(column, names)
            parts += [condition] if condition is not None else []
        if self._sentences_chosen:
            parts.append(("(p.dataset, p.sentence) IN (SELECT dataset, sentence FROM temp.chosen)", []))
        if self._selection.search is not None:
            answer, in_answer = has_text(self._selection.search, "p.raw_text")
            sentence, in_sentence = has_text(self._selection.search, "text")
            sentences = f"SELECT dataset, sentence FROM sentences WHERE {sentence}"  # noqa: S608 - constants
            parts.append((f"({answer} OR (p.dataset, p.sentence) IN ({sentences}))", [in_answer, in_sentence]))
        return " AND ".join(["TRUE", *(part for part, _ in parts)]), [value for _, values in parts for value in values]

    def _common(self, matches: Callable[..., Sequence[bool]], learned: Sequence[str]) -> Passing:
        """Return the condition by which rows with one of the commonest texts are passed over without a look-up.

        That is four times as fast as the look-up, and most rows have one of these texts. A model for which such a text
        matches, or for which it does not decide, is an exception: its rows are looked at.
        """
        rows = self._connection.execute(
            f"SELECT p.raw_text FROM predictions AS p WHERE p.rowid <= {_FIRST_ROWS} AND p.status = 'answered' "  # noqa: S608 - a number
            f"AND length(p.raw_text) <= {_LEARNED_LENGTH} GROUP BY p.raw_text HAVING count(*) > {_FIRST_ROWS // 100} "
            f"ORDER BY count(*) DESC LIMIT {_COMMON}"
        )
        passing = Passing([], [])
        for (text,) in rows:
            verdicts = matches(learned, [text_of(text)] * len(learned), [""] * len(learned))
            passed = {name for name, yes in zip(learned, verdicts, strict=True) if not yes}
            looked_at = [name for name in self._readers if name not in passed]
            if not passed or len(looked_at) > _EXCEPTIONS:
                continue
            unless = f" OR p.model IN ({', '.join('?' * len(looked_at))})" if looked_at else ""
            passing.sql.append(f"AND (p.raw_text IS NOT ?{unless})")
            passing.values.extend([text, *looked_at])
        return passing

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of row numbers: short ones first, from which the common texts are learned."""
        last = self._connection.execute("SELECT coalesce(max(rowid), 0) FROM predictions").fetchone()[0]
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
        self._connection.executemany("INSERT INTO temp.matching VALUES (?)", ((row,) for row in matching))
        self._connection.executemany("INSERT OR IGNORE INTO temp.judged VALUES (?, ?, ?)", remember)
