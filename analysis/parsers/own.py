r"""A user's own parse policy, from a TOML file.

.. code-block:: toml

    name = "german"              # shown beside every number
    version = 1
    [words]                      # and/or [patterns]; or [threshold] alone, for models that give scores
    toxic = ["giftig", "toxisch"]
    respectful = ["respektvoll"]
    match = "whole"              # exact | whole | word | contains (hatevolution.analysis.parsers.words)
    [language]
    negations = ["nicht", "kein"]
    negating_prefixes = ["un"]
    answer_markers = ["antwort"]
    echoes = ["ordne den text ein"]
    [patterns]                   # regular expressions (Rust syntax) on the raw answer; they go before the words
    toxic = ['^\s*1\b']
    respectful = ['^\s*0\b']
    [threshold]
    scores = ["TOXICITY"]        # the first one that an answer has
    above = 0.7                  # toxic strictly above
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import polars as pl
from msgspec import Meta, Struct

from hatevolution.analysis.parsers.base import RAW_TEXT, Policy, verdict
from hatevolution.analysis.parsers.published import exceeds
from hatevolution.analysis.parsers.words import WordRules, Words, word_verdict
from hatevolution.configs.load import load_toml
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PolicyFile", "load_policy"]


class Language(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What :class:`~hatevolution.analysis.parsers.words.WordRules` needs to know of a language and a prompt."""

    negations: tuple[str, ...] = ()
    negating_prefixes: tuple[str, ...] = ()
    answer_markers: tuple[str, ...] = ()
    echoes: tuple[str, ...] = ()
    reasoning_tags: tuple[str, ...] = ("think", "thinking", "reasoning")


class Patterns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Regular expressions on the raw answer; an answer that matches both lists is ambiguous."""

    toxic: tuple[str, ...] = ()
    respectful: tuple[str, ...] = ()


class Threshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for scores."""

    scores: Annotated[tuple[str, ...], Meta(min_length=1)]
    above: float


class PolicyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may stand in the file."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    version: Annotated[int, Meta(ge=1)] = 1
    summary: str = ""
    words: Words | None = None
    language: Language = Language()
    patterns: Patterns | None = None
    threshold: Threshold | None = None


def load_policy(path: Path) -> Policy:
    """Return the policy that a file describes.

    Raises:
        ConfigError: The file can't be read, has a wrong key, no rule, rules of both kinds, or a bad expression.
    """
    file = load_toml(path, PolicyFile)
    by_text = file.words is not None or file.patterns is not None
    if by_text == (file.threshold is not None):
        raise ConfigError(f"{path}: a parse policy needs [words] or [patterns] (or both), or else [threshold] alone.")
    for pattern in (*file.patterns.toxic, *file.patterns.respectful) if file.patterns else ():
        _check(pattern, path)
    rule = _text_rule(file) if file.threshold is None else exceeds(file.threshold.scores, file.threshold.above)
    return Policy(
        name=file.name,
        version=file.version,
        reads="classifier" if file.threshold else "text",
        summary=file.summary or f"own rules, from {path.name}",
        rule=lambda _: rule,
    )


def _text_rule(file: PolicyFile) -> pl.Expr:
    words = pl.lit("invalid")
    if file.words is not None:
        lowered = file.words if file.words.match == "exact" else _lower(file.words)
        language = file.language
        words = word_verdict(
            WordRules(
                words=lowered,
                negations=language.negations,
                negating_prefixes=language.negating_prefixes,
                answer_markers=language.answer_markers,
                echoes=language.echoes,
                reasoning_tags=language.reasoning_tags,
            )
        )
    if file.patterns is None:
        return words
    toxic, respectful = (_matches(group) for group in (file.patterns.toxic, file.patterns.respectful))
    patterns = verdict(toxic=toxic, respectful=respectful, ambiguous=toxic & respectful)
    return pl.when(toxic | respectful).then(patterns).otherwise(words)


def _lower(words: Words) -> Words:
    toxic, respectful = (tuple(word.lower() for word in group) for group in (words.toxic, words.respectful))
    return Words(toxic=toxic, respectful=respectful, match=words.match)


def _matches(patterns: tuple[str, ...]) -> pl.Expr:
    found: pl.Expr = pl.lit(value=False)
    for pattern in patterns:
        found |= pl.col(RAW_TEXT).str.contains(pattern)
    return found


def _check(pattern: str, path: Path) -> None:
    try:
        pl.DataFrame({RAW_TEXT: [""]}).select(pl.col(RAW_TEXT).str.contains(pattern))
    except pl.exceptions.ComputeError as error:
        reason = str(error).strip().splitlines()[-1].removeprefix("error: ")
        raise ConfigError(f"{path}: {pattern!r} is no regular expression of Rust's regex crate: {reason}.") from None
