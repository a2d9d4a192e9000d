"""The rules that the study used, one per family of models, as its released notebooks have them.

Sources: the seq2seq, chat, DeepSeek, RoBERTa, Moderation and Perspective notebooks released with Di Bonaventura et al.
(2025), *Hatevolution*, Findings of ACL, 17695-17707 (arXiv 2506.12148), section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.parsers.base import RAW_TEXT, SCORES_JSON, ClassNames, Policy, verdict
from hatevolution.domain import Label

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PUBLISHED", "THRESHOLD", "exceeds"]

_TOXIC: Final = ("toxic", "'toxic'", "Toxic", "'Toxic'")
_RESPECTFUL: Final = ("respectful", "'respectful'", "Respectful", "'Respectful'")
"""The eight answers of the notebooks' ``label_map``; the quotes are part of four of them."""

_LAST_BLANK: Final = 0x3000
"""The ideographic space, the last blank of Unicode (looking through all planes takes 0.15 s at every start)."""
_BLANKS: Final = "".join(filter(str.isspace, map(chr, range(_LAST_BLANK + 1))))
"""What Python's ``str.strip()`` takes away, which the notebooks call; Polars' own set lacks U+001C to U+001F."""

THRESHOLD: Final = 0.5
"""Perspective's TOXICITY is toxic strictly above it (released notebook)."""
_TOXICITY_SCORES: Final = ("TOXICITY", "toxic")
"""Perspective's name of the score, and the one of the classifiers that run in process."""


def _exact(text: pl.Expr) -> pl.Expr:
    return verdict(toxic=text.is_in(_TOXIC), respectful=text.is_in(_RESPECTFUL))


def _contains(_: ClassNames) -> pl.Expr:
    # "toxic" is looked for first, so "not toxic" is toxic: that is how it was published.
    lower = pl.col(RAW_TEXT).str.to_lowercase()
    return verdict(
        toxic=lower.str.contains("toxic", literal=True), respectful=lower.str.contains("respectful", literal=True)
    )


def exceeds(names: Sequence[str], threshold: float) -> pl.Expr:
    """Return the verdict of the first of some scores that an answer has: toxic strictly above the threshold.

    An answer that holds none of them, or no number there, is invalid.
    """
    found = [pl.col(SCORES_JSON).str.json_path_match(_path(name)).cast(pl.Float64, strict=False) for name in names]
    score = pl.coalesce(found)
    return verdict(toxic=score > threshold, respectful=score <= threshold)


def _path(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$['{escaped}']"


def _flagged(_: ClassNames) -> pl.Expr:
    text = pl.col(RAW_TEXT)
    return verdict(toxic=text == "true", respectful=text == "false")


def _class_label(class_names: ClassNames) -> pl.Expr:
    text = pl.col(RAW_TEXT)
    toxic, respectful = (list(class_names.get(label.value, ())) for label in (Label.TOXIC, Label.RESPECTFUL))
    return verdict(toxic=text.is_in(toxic), respectful=text.is_in(respectful))


PUBLISHED: Final = (
    Policy(
        name="paper-exact",
        version=1,
        reads="text",
        summary="the answer is one of eight spellings, exactly (seq2seq models)",
        rule=lambda _: _exact(pl.col(RAW_TEXT)),
    ),
    Policy(
        name="paper-exact-stripped",
        version=1,
        reads="text",
        summary="as paper-exact, after blanks at both ends are taken away (chat models)",
        rule=lambda _: _exact(pl.col(RAW_TEXT).str.strip_chars(_BLANKS)),
    ),
    Policy(
        name="paper-contains",
        version=1,
        reads="text",
        summary="'toxic' anywhere in the answer, else 'respectful' anywhere (DeepSeek); 'not toxic' is toxic",
        rule=_contains,
    ),
    Policy(
        name="paper-threshold",
        version=1,
        reads="classifier",
        summary=f"score TOXICITY (or toxic) strictly above {THRESHOLD} (Perspective)",
        rule=lambda _: exceeds(_TOXICITY_SCORES, THRESHOLD),
    ),
    Policy(
        name="paper-flagged",
        version=1,
        reads="classifier",
        summary="the endpoint's own `flagged` (Moderation)",
        rule=_flagged,
    ),
    Policy(
        name="class-label",
        version=1,
        reads="classifier",
        summary="the class with the highest score, mapped by the model's `labels`; several classes may mean one label",
        rule=_class_label,
    ),
)
