"""Samples and verdicts of people, brought along by a merge."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from hatevolution.store.tables import KEY, agree, has_table, names

if TYPE_CHECKING:
    import sqlite3

__all__ = ["merge_verdicts"]

# Everything put into these texts is a constant of this program.
# ruff: noqa: S608

_FIELDS: Final = 'seed, size, filters, "of", made_at, who'
_JOIN_KEY: Final = " AND ".join(f"q.{name} = v.{name}" for name in KEY)
_SAME_VERDICT: Final = (
    f"{' AND '.join(f'd.{name} = v.{name}' for name in KEY)} AND d.who = v.who AND d.judgement = v.judgement "
    "AND d.judged_at = v.judged_at"
)
# A verdict is on an answer: it comes along as a verdict where the destination's answer says the same.
_OF_SAME: Final = (
    f"FROM src.verdicts AS v JOIN src.predictions AS p ON {_JOIN_KEY.replace('q.', 'p.')} "
    f"JOIN main.predictions AS q ON {_JOIN_KEY}"
)
_VERDICTS: Final = (
    f"INSERT INTO main.verdicts (sample, {names(KEY)}, judgement, who, judged_at) "
    f"SELECT m.new, {names(KEY, 'v')}, v.judgement, v.who, v.judged_at {_OF_SAME} "
    f"JOIN temp.moved_samples AS m ON m.old = v.sample WHERE {agree('p', 'q')} "
    f"AND NOT EXISTS (SELECT 1 FROM main.verdicts AS d WHERE {_SAME_VERDICT}) ORDER BY v.verdict"
)
_APART: Final = (
    f"INSERT INTO main.second_verdicts ({names(KEY)}, run, judgement, who, judged_at, source) "
    f"SELECT {names(KEY, 'v')}, p.run, v.judgement, v.who, v.judged_at, ? {_OF_SAME} "
    f"WHERE NOT ({agree('p', 'q')}) "
    f"AND NOT EXISTS (SELECT 1 FROM main.second_verdicts AS d WHERE {_SAME_VERDICT}) ORDER BY v.verdict"
)
_APART_ALREADY: Final = (
    f"INSERT INTO main.second_verdicts ({names(KEY)}, run, judgement, who, judged_at, source) "
    f"SELECT {names(KEY, 'v')}, v.run, v.judgement, v.who, v.judged_at, v.source FROM src.second_verdicts AS v "
    f"WHERE NOT EXISTS (SELECT 1 FROM main.second_verdicts AS d WHERE {_SAME_VERDICT}) ORDER BY v.second_verdict"
)


def merge_verdicts(connection: sqlite3.Connection, source: str) -> tuple[int, int]:
    """Bring the samples and verdicts of ``src`` along; return how many verdicts are new, and how many are kept apart.

    The caller holds the transaction, and the answers are in already.
    """
    if not has_table(connection, "src", "verdicts"):
        return 0, 0
    for number, *fields in connection.execute(f"SELECT sample, {_FIELDS} FROM src.samples ORDER BY sample").fetchall():
        connection.execute(
            "INSERT INTO temp.moved_samples VALUES (?, ?)", [number, _sample(connection, number, fields)]
        )
    come = connection.execute(_VERDICTS).rowcount
    apart = connection.execute(_APART, [source]).rowcount
    if has_table(connection, "src", "second_verdicts"):
        apart += connection.execute(_APART_ALREADY).rowcount
    return come, apart


def _sample(connection: sqlite3.Connection, number: int, fields: list[object]) -> int:
    """Return the destination's number of a sample of the source, which is added where it is new."""
    rows = _rows(connection, "src", number)
    seed, size, filters, *rest = fields
    known = _number(connection, seed, size, filters)
    if known is not None and _rows(connection, "main", known) != rows:
        # Drawn with the same words from other answers: both lists stay, this one under filters that say what it is.
        digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
        filters = json.dumps({**json.loads(str(filters)), "merged": digest[:16]}, sort_keys=True, separators=(",", ":"))
        known = _number(connection, seed, size, filters)
    if known is not None:
        return known
    cursor = connection.execute(
        f"INSERT INTO main.samples ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?)", [seed, size, filters, *rest]
    )
    new = cursor.lastrowid or 0
    connection.execute(
        f"INSERT INTO main.sampled (sample, position, {names(KEY)}) SELECT ?, position, {names(KEY)} "
        "FROM src.sampled WHERE sample = ?",
        [new, number],
    )
    return new


def _number(connection: sqlite3.Connection, seed: object, size: object, filters: object) -> int | None:
    row = connection.execute(
        "SELECT sample FROM main.samples WHERE seed = ? AND size = ? AND filters = ?", [seed, size, filters]
    ).fetchone()
    return None if row is None else int(row[0])


def _rows(connection: sqlite3.Connection, schema: str, sample: int) -> list[tuple[object, ...]]:
    statement = f"SELECT position, {names(KEY)} FROM {schema}.sampled WHERE sample = ? ORDER BY position"
    return connection.execute(statement, [sample]).fetchall()
