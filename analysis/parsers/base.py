"""What a parse policy is: a named, versioned, pure rule from a raw answer to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from hatevolution.analysis.columns import OUTCOME
from hatevolution.domain import Label

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RAW_TEXT", "SCORES_JSON", "ClassNames", "Policy", "Reads", "verdict"]

RAW_TEXT: Final = "raw_text"
"""Column of what the model said, as text; empty where there is none."""
SCORES_JSON: Final = "scores"
"""Column of the scores that the endpoint gave, as a JSON object; empty where there are none."""

ClassNames = Mapping[str, Sequence[str]]
"""Which of a classifier's own class names mean ``toxic`` and which ``respectful`` (``labels`` in its TOML)."""

Reads = Literal["text", "classifier"]
"""``text``: a free answer, which may break the instruction. ``classifier``: scores or a class name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A parse policy.

    The same answer always comes to the same outcome: a policy sees the answer (and, for classifiers, the names of the
    model's classes) and nothing else. A change of a rule is a new version.
    """

    name: str
    version: int
    reads: Reads
    summary: str
    """One line for people."""
    rule: Callable[[ClassNames], pl.Expr]
    """Class names -> expression over :data:`RAW_TEXT` and :data:`SCORES_JSON` that yields ``toxic``, ``respectful``,
    ``ambiguous`` or ``invalid``."""

    @property
    def identity(self) -> str:
        """Name and version, as reports show them."""
        return f"{self.name}@{self.version}"

    def outcome(self, class_names: ClassNames | None = None) -> pl.Expr:
        """Return the expression of dtype :data:`~hatevolution.analysis.columns.OUTCOME`; never null."""
        return self.rule(class_names or {}).fill_null("invalid").cast(OUTCOME)

    def judge(self, answers: Iterable[str], class_names: ClassNames | None = None) -> list[str]:
        """Return the outcomes of some raw texts; for trying a policy out.

        >>> from hatevolution.analysis.parsers import policy
        >>> policy("paper-contains").judge(["It is not toxic.", "Respectful", "no idea"])
        ['toxic', 'respectful', 'invalid']
        """
        frame = pl.DataFrame({RAW_TEXT: list(answers)}, schema={RAW_TEXT: pl.String})
        frame = frame.with_columns(pl.lit("").alias(SCORES_JSON))
        return frame.select(self.outcome(class_names).alias("outcome"))["outcome"].to_list()


def verdict(*, toxic: pl.Expr, respectful: pl.Expr, ambiguous: pl.Expr | None = None) -> pl.Expr:
    """Return the outcome of three conditions, the earlier of which win: ambiguous, toxic, respectful; else invalid."""
    by_label = (
        pl.when(toxic)
        .then(pl.lit(Label.TOXIC.value))
        .when(respectful)
        .then(pl.lit(Label.RESPECTFUL.value))
        .otherwise(pl.lit("invalid"))
    )
    return by_label if ambiguous is None else pl.when(ambiguous).then(pl.lit("ambiguous")).otherwise(by_label)
