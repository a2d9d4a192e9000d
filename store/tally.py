"""Counting answers and their cost: each row once, by whoever writes, and the few rows after that by whoever reads.

Ten million answers take a minute to count and are counted every few minutes in a night's run, so the sums are kept
(:mod:`hatevolution.store.tally_schema`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    import sqlite3

__all__ = ["CHUNK", "Tallies", "Tally", "advance", "recount", "stored", "tallies"]

CHUNK: Final = 50_000
"""Rows counted by one statement: they are sorted by model and set in memory."""


class Tally(NamedTuple):
    """The answers of one model to one data set, and what the responses that they came in took."""

    answered: int = 0
    refused: int = 0
    rejected: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def rows(self) -> int:
        """All answers."""
        return self.answered + self.refused + self.rejected


Tallies = dict[tuple[str, str], Tally]
"""(model, data set) -> its tally."""

_NAMES: Final = ", ".join(Tally._fields)
# In the order of rowids, in which answers and responses stand side by side: by the index on the key, each model's pass
# would read all pages of both tables.
_COUNT: Final = """
SELECT p.model, p.dataset, count(*) FILTER (WHERE p.status = 'answered'), count(*) FILTER (WHERE p.status = 'refused'),
       count(*) FILTER (WHERE p.status = 'rejected'), count(r.response), coalesce(sum(r.prompt_tokens), 0),
       coalesce(sum(r.completion_tokens), 0), coalesce(sum(r.cost_usd), 0.0)
FROM predictions AS p NOT INDEXED LEFT JOIN responses AS r ON p.response_index = 0 AND r.response = p.response
WHERE p.rowid > ? AND p.rowid <= ? GROUP BY p.model, p.dataset
"""
_STORED: Final = f"SELECT through, model, dataset, {_NAMES} FROM tallied LEFT JOIN tallies"  # noqa: S608 - constants only
_ADD: Final = (
    f"INSERT INTO tallies (model, dataset, {_NAMES}) VALUES (?, ?, {', '.join('?' * len(Tally._fields))}) "  # noqa: S608
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in Tally._fields)}"
)


def recount(connection: sqlite3.Connection, after: int, through: int, found: Tallies | None = None) -> Tallies:
    """Count the answers with rowids in (after, through], in addition to ``found``."""
    found = {} if found is None else found
    while after < through:
        last = min(after + CHUNK, through)
        for model, dataset, *numbers in connection.execute(_COUNT, [after, last]):
            known = found.get((model, dataset), Tally())
            found[model, dataset] = Tally(*(old + new for old, new in zip(known, numbers, strict=True)))
        after = last
    return found


def tallies(connection: sqlite3.Connection) -> Tallies:
    """Return the tally of each model and data set that has answers: what is kept, and what came since."""
    through, found = stored(connection)
    return recount(connection, through, _last(connection), found)


def stored(connection: sqlite3.Connection) -> tuple[int, Tallies]:
    """Return the rowid up to which answers are counted in the store, and what was counted."""
    through, found = 0, Tallies()
    if has_table(connection, "main", "tallied"):
        # One statement: both from the same moment.
        for through, model, dataset, *numbers in connection.execute(_STORED):  # noqa: B007 - the same in all rows
            if model is not None:
                found[model, dataset] = Tally(*numbers)
    return through, found


def advance(connection: sqlite3.Connection, rows: int = CHUNK) -> bool:
    """Count up to so many answers more, and keep it; return whether there are answers left to count.

    The caller holds a transaction of the store's one writer.
    """
    after = int(connection.execute("SELECT through FROM tallied").fetchone()[0])
    last = _last(connection)
    through = min(after + rows, last)
    if after < through:
        counted = recount(connection, after, through)
        connection.executemany(_ADD, [(*key, *tally) for key, tally in counted.items()])
        connection.execute("UPDATE tallied SET through = ?", [through])
    return through < last


def _last(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(rowid), 0) FROM predictions").fetchone()[0])
