"""Names, dtypes and codes of every frame of the analysis, declared once.

``OUTCOMES`` are what a sentence can come to for a model once a parse policy has read its answer:

=============  ==========================================================================================
toxic          a valid answer
respectful     a valid answer
invalid        an answer that does not follow the instruction (v = 1 in the paper: a hallucination)
ambiguous      the same, for a reason worth telling: both labels, a negated label, an echo of the prompt
refused        the provider declined (no answer, and no hallucination)
rejected       the sentence can't be sent to this model (no answer, and no hallucination)
missing        the store holds no prediction of this model for the sentence
=============  ==========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.domain import Label, Role, Status
from hatevolution.errors import HatevolutionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANSWERS",
    "GOLD",
    "GROUP_KEYS",
    "LABELS",
    "OUTCOME",
    "OUTCOMES",
    "ROLE",
    "SCORES",
    "SENTENCES",
    "FrameError",
    "checked",
    "code",
]

LABELS: Final = (Label.TOXIC.value, Label.RESPECTFUL.value)
"""The two classes; ``hateful`` and ``non-hateful`` in the paper's tables."""

OUTCOMES: Final = (*LABELS, "invalid", "ambiguous", Status.REFUSED.value, Status.REJECTED.value, "missing")

OUTCOME: Final = pl.Enum(list(OUTCOMES))
GOLD: Final = pl.Enum(list(LABELS))
ROLE: Final = pl.Enum([Role.ORIGINAL.value, Role.NEOLOGISM.value])

GROUP_KEYS: Final = ("year", "type", "role", "functionality", "target")
"""What sentences can be grouped by, where a set has it."""

SENTENCES: Final[Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "dataset": pl.Enum,
    "position": pl.UInt32,  # 0, 1, ... in the set's own order
    "sentence": pl.String,  # the set's own stable id
    "gold": GOLD,  # null in sets without labels
    "year": pl.Int32,
    "pair": pl.String,
    "role": ROLE,
    "type": pl.String,
    "functionality": pl.String,
    "target": pl.String,
}
"""One row per sentence of the store, in order of data set and position."""

ANSWERS: Final[Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "dataset": pl.Enum,
    "model": pl.Enum,
    "position": pl.UInt32,
    "outcome": OUTCOME,
    "text": pl.UInt64,  # equal for equal raw texts; 0 for valid answers and for rows without an answer
}
"""One row per data set, model and sentence, missing ones included, in that order: dense, never with a gap."""

SCORES: Final[Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "model": pl.String,
    "dataset": pl.String,
    "metric": pl.String,
    "group_key": pl.String,  # year, type, role, functionality, target; null: the whole set
    "group": pl.String,
    "value": pl.Float64,  # null: not defined, and then `reason` says why
    "reason": pl.String,
    "n": pl.Int64,
    "scored": pl.Int64,
    "invalid": pl.Int64,  # ambiguous ones included
    "refused": pl.Int64,
    "rejected": pl.Int64,
    "missing": pl.Int64,
    "low": pl.Float64,  # bootstrap interval, where it was asked for
    "high": pl.Float64,
}
"""The tidy result. n = scored + invalid + refused + rejected + missing, counted in sentences, or in pairs for the
metrics of pairs."""


class FrameError(HatevolutionError):
    """A frame has not got the declared columns: a bug of this program, never of its user."""


def code(outcome: str) -> int:
    """Return the physical code of an outcome in a column of dtype :data:`OUTCOME`.

    >>> code("toxic"), code("missing")
    (0, 6)
    """
    return OUTCOMES.index(outcome)


def checked(frame: pl.DataFrame, declared: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """Return the frame with exactly the declared columns, in their order.

    Raises:
        FrameError: A column is missing or has another dtype.
    """
    for name, dtype in declared.items():
        if name not in frame.columns or not _same(frame.schema[name], dtype):
            raise FrameError(f"column {name!r} should be {dtype} and is {frame.schema.get(name)}")
    return frame.select(list(declared))


def _same(found: pl.DataType, declared: pl.DataType | type[pl.DataType]) -> bool:
    return isinstance(found, declared) if isinstance(declared, type) else found == declared
