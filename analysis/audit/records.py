"""One answer with everything that stands beside it, as views, exports and pages show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from hatevolution.analysis.audit.readers import BROKEN, Reader, outcomes
from hatevolution.analysis.audit.rules import RULE_INPUTS, with_kinds
from hatevolution.store.text import decode, visible

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ANSWER_COLUMNS", "ANSWER_FROM", "AnswerRow", "batches", "complete", "kinds_of"]


class AnswerRow(NamedTuple):
    """One answer."""

    model: str
    dataset: str
    sentence: str
    text: str
    gold: str | None
    year: int | None
    pair: str | None
    role: str | None
    type: str | None
    functionality: str | None
    target: str | None
    status: str
    outcome: str
    """What the policy makes of it; the status itself where it is no answer."""
    kind: str | None
    """Primary kind of a broken answer."""
    kinds: tuple[str, ...]
    policy: str
    """Name and version of the policy."""
    raw_text: str | None
    """Exactly what came."""
    scores: str | None
    finish_reason: str | None
    truncated: bool
    """Whether the input was cut to fit the model."""
    attempts: int
    completion_tokens: int | None
    """Of this answer; None where the endpoint counts whole requests and this one carried several sentences."""
    request_completion_tokens: int | None
    """Of the whole request, all its sentences together."""
    served_model: str | None
    received_at: str | None
    run: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name; scores as an object."""
        return {**self._asdict(), "scores": None if self.scores is None else json.loads(self.scores)}


ANSWER_COLUMNS: Final = (
    "p.model, p.dataset, p.sentence, s.text, s.gold, s.year, s.pair, s.role, s.type, s.functionality, s.target, "
    "p.status, p.raw_text, p.scores, p.finish_reason, p.truncated, p.attempts, "
    "p.completion_tokens, r.completion_tokens, r.served_model, r.received_at, p.run"
)
ANSWER_FROM: Final = (
    "JOIN sentences AS s ON s.dataset = p.dataset AND s.sentence = p.sentence "
    "LEFT JOIN responses AS r ON r.response = p.response"
)
"""To be put behind a table ``p`` of predictions."""

_BATCH_ROWS: Final = 5_000
_BATCH_BYTES: Final = 16 * 2**20
"""Answers of a megabyte exist: a batch ends at this many bytes of them, whatever its number of rows."""


def batches(
    rows: sqlite3.Cursor, *, heavy: int | None = None, size: int = _BATCH_ROWS
) -> Iterator[list[tuple[Any, ...]]]:
    """Split the rows of a query into batches of bounded number and size.

    Args:
        rows: The query.
        heavy: Place of the column that may be huge; None where there is none.
        size: Most rows of a batch.
    """
    batch: list[tuple[Any, ...]] = []
    weight = 0
    for row in rows:
        batch.append(row)
        if heavy is not None and row[heavy] is not None:
            weight += len(row[heavy])
        if len(batch) >= size or weight >= _BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def text_of(value: str | bytes | None) -> str:
    """Return a stored text as Polars can hold it; empty for none."""
    return "" if value is None else visible(decode(value))


def complete(known: Mapping[str, Reader], rows: Sequence[tuple[Any, ...]]) -> list[AnswerRow]:
    """Return the answers of rows of :data:`ANSWER_COLUMNS`, each read by its model's policy."""
    raw = [text_of(row[12]) for row in rows]
    parsed = outcomes(known, [row[0] for row in rows], raw, [row[13] or "" for row in rows])
    judged = [row[11] if row[11] != "answered" else outcome for row, outcome in zip(rows, parsed, strict=True)]
    kinds = kinds_of(known, rows, raw, [index for index, outcome in enumerate(judged) if outcome in BROKEN])
    return [
        _row(row, judged[index], kinds.get(index, ()), known[row[0]].policy.identity) for index, row in enumerate(rows)
    ]


def _row(row: Sequence[Any], outcome: str, kinds: tuple[str, ...], policy: str) -> AnswerRow:
    exact = [None if row[index] is None else decode(row[index]) for index in (3, 10, 12)]
    return AnswerRow._make(
        (*row[:3], exact[0], *row[4:10], exact[1], row[11], outcome, kinds[0] if kinds else None, kinds, policy,
         exact[2], *row[13:15], bool(row[15]), *row[16:])
    )  # fmt: skip


def kinds_of(
    known: Mapping[str, Reader], rows: Sequence[tuple[Any, ...]], raw: Sequence[str], broken: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """Return the kinds of some of the rows, by their place."""
    if not broken:
        return {}
    frame = pl.DataFrame(
        {
            "raw_text": [raw[index] for index in broken],
            "text": [text_of(rows[index][3]) for index in broken],
            "instruction": [known[rows[index][0]].instruction for index in broken],
            "finish_reason": [rows[index][14] for index in broken],
            "classifier": [known[rows[index][0]].classifier for index in broken],
        },
        schema=RULE_INPUTS,
    )
    return {index: tuple(found) for index, found in zip(broken, with_kinds(frame)["kinds"], strict=True)}
