"""The views of the audit as flat rows with declared columns, for files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hatevolution.analysis.audit.words import marked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hatevolution.analysis.audit.comparing import Disagreement, TwoReadings
    from hatevolution.analysis.audit.kinds import KindCount
    from hatevolution.analysis.audit.pairs import PairRow
    from hatevolution.analysis.audit.records import AnswerRow

__all__ = [
    "ANSWER", "DISAGREEMENT", "KIND", "PAIR", "READINGS", "Columns", "flat_answers", "flat_disagreements", "flat_kinds",
    "flat_pairs", "flat_readings",
]  # fmt: skip

Columns = Mapping[str, type[pl.DataType]]

ANSWER: Final[Columns] = {
    "model": pl.String,
    "dataset": pl.String,
    "sentence": pl.String,
    "text": pl.String,
    "gold": pl.String,
    "year": pl.Int64,
    "pair": pl.String,
    "role": pl.String,
    "type": pl.String,
    "functionality": pl.String,
    "target": pl.String,
    "status": pl.String,
    "outcome": pl.String,
    "kind": pl.String,
    "kinds": pl.String,  # separated by blanks
    "policy": pl.String,
    "raw_text": pl.String,
    "scores": pl.String,  # JSON
    "finish_reason": pl.String,
    "truncated": pl.Boolean,
    "attempts": pl.Int64,
    "completion_tokens": pl.Int64,  # of this answer alone, where they are known
    "request_completion_tokens": pl.Int64,  # of all sentences of the request together
    "served_model": pl.String,
    "received_at": pl.String,
    "run": pl.String,
}
READINGS: Final[Columns] = {
    "first_policy": pl.String,
    "first_outcome": pl.String,
    "second_policy": pl.String,
    "second_outcome": pl.String,
    **ANSWER,
}
DISAGREEMENT: Final[Columns] = {"toxic": pl.Int64, "respectful": pl.Int64, "broken": pl.Int64, **ANSWER}
"""One row per answer; the first three are how many models said what about its sentence."""
PAIR: Final[Columns] = {
    **dict.fromkeys(("model", "dataset", "pair", "type"), pl.String),
    "year": pl.Int64,
    **dict.fromkeys(
        (
            "gold", "change", "original_text", "neologism_text", "original_words", "neologism_words",
            "original_sentence", "neologism_sentence", "original_status", "neologism_status", "original_outcome",
            "neologism_outcome", "original_kinds", "neologism_kinds", "original_raw_text", "neologism_raw_text",
            "original_scores", "neologism_scores", "policy",
        ),
        pl.String,
    ),
}  # fmt: skip
"""``original_words`` and ``neologism_words`` are the words that differ, separated by " | "."""
KIND: Final[Columns] = {
    "model": pl.String,
    "dataset": pl.String,
    "kind": pl.String,
    "version": pl.Int64,
    "primary": pl.Int64,
    "of_kind": pl.Int64,
    "broken": pl.Int64,
    "answered": pl.Int64,
    "example": pl.String,
}


def _answer(row: AnswerRow) -> dict[str, Any]:
    return {**row._asdict(), "kinds": " ".join(row.kinds)}


def flat_answers(rows: Iterable[AnswerRow]) -> Iterator[dict[str, Any]]:
    """Yield rows of :data:`ANSWER`."""
    return map(_answer, rows)


def flat_readings(rows: Iterable[TwoReadings]) -> Iterator[dict[str, Any]]:
    """Yield rows of :data:`READINGS`."""
    for row in rows:
        fields = row._asdict()
        yield {**_answer(fields.pop("answer")), **fields}


def flat_disagreements(rows: Iterable[Disagreement]) -> Iterator[dict[str, Any]]:
    """Yield rows of :data:`DISAGREEMENT`."""
    for row in rows:
        counts = {"toxic": len(row.toxic), "respectful": len(row.respectful), "broken": len(row.broken)}
        for answer in row.answers:
            yield {**counts, **_answer(answer)}


def flat_pairs(rows: Iterable[PairRow]) -> Iterator[dict[str, Any]]:
    """Yield rows of :data:`PAIR`."""
    for row in rows:
        flat = {key: value for key, value in row._asdict().items() if key in PAIR}
        for name, answer, pieces in zip(
            ("original", "neologism"), (row.original, row.neologism), row.pieces, strict=True
        ):
            flat[f"{name}_words"] = marked(pieces)
            flat[f"{name}_status"] = flat[f"{name}_outcome"] = "missing"
            if answer is not None:
                flat["policy"] = answer.policy
                flat[f"{name}_kinds"] = " ".join(answer.kinds)
                for key in ("sentence", "status", "outcome", "raw_text", "scores"):
                    flat[f"{name}_{key}"] = getattr(answer, key)
        yield flat


def flat_kinds(rows: Iterable[KindCount]) -> Iterator[dict[str, Any]]:
    """Yield rows of :data:`KIND`, with the first example of each."""
    for row in rows:
        fields = row._asdict()
        examples = fields.pop("examples")
        yield {**fields, "example": examples[0].raw_text if examples else None}
