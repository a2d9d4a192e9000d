"""Batches in a store: what was handed to a provider, how far that came, and which sentences are in it.

Every step is committed before the next one begins, so that a process which dies between any two of them leaves a row
that says what may have happened. Rows are written by whoever holds the store's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hatevolution.store.rows import insert_rows
from hatevolution.store.text import decode, encode, visible

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "BatchLine",
    "BatchRow",
    "add_batch",
    "batch_datasets",
    "batch_lines",
    "batch_named",
    "batches",
    "close_batch",
    "in_open_batches",
    "invalid_sentences",
    "mark_lines",
    "note_batch",
    "settle_line",
]

# Everything put into the statements below is a constant of this program.
# ruff: noqa: S608


class BatchRow(NamedTuple):
    """A batch; see :mod:`hatevolution.store.batch_schema` for what each column means."""

    batch: int
    name: str
    model: str
    run: str
    place: str
    base_url: str
    endpoint: str
    requests: int
    input_bytes: int
    input_sha256: str
    made_at: str
    upload_tried_at: str | None = None
    file_id: str | None = None
    create_tried_at: str | None = None
    provider_id: str | None = None
    submitted_at: str | None = None
    provider_status: str | None = None
    done: int | None = None
    failed: int | None = None
    expires_at: str | None = None
    checked_at: str | None = None
    closed_at: str | None = None
    outcome: str | None = None
    note: str | None = None

    @property
    def offline(self) -> bool:
        """Whether no provider is involved."""
        return self.place == "offline"

    @property
    def file_name(self) -> str:
        """What the input file is called."""
        return f"hatevolution-{self.name}.jsonl"


class BatchLine(NamedTuple):
    """A sentence of a batch, with its text."""

    line: int
    dataset: str
    sentence: str
    text: str
    outcome: str | None


_COLUMNS = ", ".join(BatchRow._fields)
_CHANGED = frozenset(BatchRow._fields[11:21])


def _row(values: Sequence[Any]) -> BatchRow:
    row = BatchRow(*values)
    return row if row.note is None else row._replace(note=decode(row.note))


def batches(connection: sqlite3.Connection, *, open_only: bool = False) -> list[BatchRow]:
    """Return the batches of a store, oldest first."""
    where = "WHERE closed_at IS NULL " if open_only else ""
    return [_row(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM batches {where}ORDER BY batch")]


def batch_named(connection: sqlite3.Connection, name: str) -> BatchRow | None:
    """Return the batch of a name, or of the provider's id; None where there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM batches WHERE name = ?1 OR provider_id = ?1", [name]).fetchone()
    return None if row is None else _row(row)


def batch_datasets(connection: sqlite3.Connection, batch: int) -> dict[str, int]:
    """Return how many sentences of each data set are in a batch."""
    rows = connection.execute(
        "SELECT dataset, count(*) FROM batch_lines WHERE batch = ? GROUP BY dataset ORDER BY min(line)", [batch]
    )
    return {str(dataset): int(count) for dataset, count in rows}


def batch_lines(connection: sqlite3.Connection, batch: int) -> Iterator[BatchLine]:
    """Yield the sentences of a batch in the order of its file."""
    rows = connection.execute(
        "SELECT l.line, l.dataset, l.sentence, s.text, l.outcome FROM batch_lines AS l "
        "JOIN sentences AS s ON s.dataset = l.dataset AND s.sentence = l.sentence WHERE l.batch = ? ORDER BY l.line",
        [batch],
    )
    for line, dataset, sentence, text, outcome in rows:
        yield BatchLine(line, dataset, sentence, decode(text), outcome)


_IN_OPEN = """
SELECT count(*) FROM batch_lines AS l
JOIN sentences AS s ON s.dataset = l.dataset AND s.sentence = l.sentence
WHERE l.model = :model AND l.dataset = :dataset AND l.outcome IS NULL AND s.position < :limit
  AND NOT EXISTS (
    SELECT 1 FROM predictions AS p WHERE p.model = l.model AND p.dataset = l.dataset AND p.sentence = l.sentence
  )
"""


def in_open_batches(connection: sqlite3.Connection, model: str, dataset: str, limit: int | None) -> int:
    """Return how many sentences of a set (of its first ``limit``) have no answer yet and are in an open batch."""
    values = {"model": model, "dataset": dataset, "limit": 2**62 if limit is None else limit}
    return int(connection.execute(_IN_OPEN, values).fetchone()[0])


def invalid_sentences(connection: sqlite3.Connection, model: str) -> set[tuple[str, str]]:
    """Return (data set, sentence) of those that a provider's validation turned down."""
    rows = connection.execute(
        "SELECT dataset, sentence FROM batch_lines WHERE model = ? AND outcome = 'invalid'", [model]
    )
    return {(str(dataset), str(sentence)) for dataset, sentence in rows}


# -- writing; the caller holds the transaction -----------------------------------------------------------------------


def add_batch(connection: sqlite3.Connection, row: BatchRow, keys: Iterable[tuple[str, str]]) -> BatchRow:
    """Write down what is about to be submitted, and return it with its number.

    Args:
        connection: The writer's.
        row: The batch; its number is not looked at.
        keys: (data set, sentence) of each line.
    """
    first = BatchRow._fields.index("upload_tried_at")
    columns = ", ".join(BatchRow._fields[1:first])
    marks = ", ".join("?" * (first - 1))
    number = connection.execute(f"INSERT INTO batches ({columns}) VALUES ({marks})", row[1:first]).lastrowid
    assert number is not None  # noqa: S101 - an insertion has one
    lines = [(number, line, row.model, dataset, sentence) for line, (dataset, sentence) in enumerate(keys)]
    insert_rows(connection, "batch_lines", "batch, line, model, dataset, sentence", "", lines)
    return row._replace(batch=number)


def note_batch(connection: sqlite3.Connection, row: BatchRow, **fields: str | int | None) -> BatchRow:
    """Write down how far a batch came, and return it so."""
    unknown = fields.keys() - _CHANGED
    if unknown:
        raise ValueError(f"not a column that changes: {', '.join(sorted(unknown))}")
    assignments = ", ".join(f"{name} = :{name}" for name in fields)
    connection.execute(f"UPDATE batches SET {assignments} WHERE batch = :batch", {**fields, "batch": row.batch})
    return row._replace(**fields)  # type: ignore[arg-type]


def settle_line(connection: sqlite3.Connection, row: BatchRow, line: int, outcome: str, result_id: str | None) -> None:
    """Write down what came of a line."""
    connection.execute(
        "UPDATE batch_lines SET outcome = ?, result_id = coalesce(?, result_id) WHERE batch = ? AND line = ?",
        [outcome, None if result_id is None else visible(result_id[:200]), row.batch, line],
    )


def mark_lines(connection: sqlite3.Connection, row: BatchRow, outcome: str) -> int:
    """Give an outcome to all lines that have none; return how many those were."""
    return connection.execute(
        "UPDATE batch_lines SET outcome = ? WHERE batch = ? AND outcome IS NULL", [outcome, row.batch]
    ).rowcount


def close_batch(connection: sqlite3.Connection, row: BatchRow, outcome: str, at: str, note: str | None) -> BatchRow:
    """End a batch: nothing more is expected of it. All of its lines have their outcome."""
    connection.execute(
        "UPDATE batches SET closed_at = ?, outcome = ?, note = ? WHERE batch = ?",
        [at, outcome, None if note is None else encode(note), row.batch],
    )
    return row._replace(closed_at=at, outcome=outcome, note=note)
