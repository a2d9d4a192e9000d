"""What people judged: samples and verdicts, read and appended."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hatevolution.errors import StoreError
from hatevolution.store.opened import WritableStore
from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = [
    "LOCK_NAME",
    "Judgement",
    "Key",
    "SampleRecord",
    "add_sample",
    "append_verdict",
    "counting",
    "find_sample",
    "sampled",
]

Judgement = Literal["toxic", "respectful", "invalid", "undecided"]

LOCK_NAME = "verdicts"
"""What the writer's lock says, in place of a run, while a judgement is stored."""


class Key(NamedTuple):
    """The key of an answer."""

    model: str
    dataset: str
    sentence: str


class SampleRecord(NamedTuple):
    """One sample, as the store keeps it."""

    sample: int
    seed: int
    size: int
    filters: dict[str, Any]
    of: int
    """Answers that it was drawn from."""
    made_at: str
    who: str


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def _canonical(filters: Mapping[str, Any]) -> str:
    return json.dumps(filters, sort_keys=True, separators=(",", ":"))


def find_sample(
    connection: sqlite3.Connection, *, seed: int, size: int, filters: Mapping[str, Any]
) -> SampleRecord | None:
    """Return the sample that was drawn with a seed, a size and filters; None where none was yet."""
    if not has_table(connection, "main", "verdicts"):  # a store from before them can still be read
        return None
    row = connection.execute(
        'SELECT sample, seed, size, filters, "of", made_at, who FROM samples '
        "WHERE seed = ? AND size = ? AND filters = ?",
        [seed, size, _canonical(filters)],
    ).fetchone()
    if row is None:
        return None
    sample, seed, size, text, of, made_at, who = row
    return SampleRecord(sample, seed, size, json.loads(text), of, made_at, who)


def sampled(connection: sqlite3.Connection, sample: int) -> list[Key]:
    """Return the answers of a sample, in the order in which they are shown."""
    rows = connection.execute(
        "SELECT model, dataset, sentence FROM sampled WHERE sample = ? ORDER BY position", [sample]
    )
    return [Key(*row) for row in rows]


def counting(connection: sqlite3.Connection, sample: int, who: str | None = None) -> dict[tuple[Key, str], Judgement]:
    """Return the newest judgement of each person for each answer of a sample, keyed by answer and person.

    A judgement counts for every sample that its answer is in: whoever enlarges a sample goes on where they were.
    """
    if not has_table(connection, "main", "verdicts"):  # a store from before them can still be read
        return {}
    rows = connection.execute(
        "SELECT v.model, v.dataset, v.sentence, v.who, v.judgement FROM sampled AS s "
        "JOIN verdicts AS v ON v.model = s.model AND v.dataset = s.dataset AND v.sentence = s.sentence "
        "WHERE s.sample = ? AND (? IS NULL OR v.who = ?) ORDER BY v.judged_at, v.verdict",
        [sample, who, who],
    )
    return {(Key(*row[:3]), row[3]): row[4] for row in rows}


def add_sample(
    path: Path, *, seed: int, size: int, filters: Mapping[str, Any], of: int, who: str, keys: Sequence[Key]
) -> SampleRecord:
    """Keep a sample in the store and return it; holds the writer's lock for that long only.

    Raises:
        StoreError: A run is writing to the store, or it can't be written to.
    """
    record = (seed, size, _canonical(filters), of, _now(), who)
    with WritableStore(path, LOCK_NAME) as store, store.transaction() as connection:
        cursor = connection.execute(
            'INSERT INTO samples (seed, size, filters, "of", made_at, who) VALUES (?, ?, ?, ?, ?, ?)', record
        )
        sample = cursor.lastrowid
        if sample is None:
            raise StoreError(f"The store {path} gave the sample no number.")
        connection.executemany(
            "INSERT INTO sampled (sample, position, model, dataset, sentence) VALUES (?, ?, ?, ?, ?)",
            ((sample, position, *key) for position, key in enumerate(keys)),
        )
    return SampleRecord(sample, seed, size, dict(filters), of, record[4], who)


def append_verdict(path: Path, sample: int, key: Key, judgement: Judgement, who: str) -> None:
    """Add a judgement; holds the writer's lock for that long only.

    Raises:
        StoreError: A run is writing to the store, or it can't be written to.
    """
    with WritableStore(path, LOCK_NAME) as store, store.transaction() as connection:
        connection.execute(
            "INSERT INTO verdicts (sample, model, dataset, sentence, judgement, who, judged_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [sample, *key, judgement, who, _now()],
        )
