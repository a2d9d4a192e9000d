"""Kinds of broken answers: named, versioned, vectorised rules. An answer may be of several kinds.

The order of :data:`KINDS` is the order of precedence: the first kind that an answer is of is its primary one, by which
it is counted once. ``other`` is the answer that is of no other kind, so every broken answer has a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from hatevolution.analysis.audit import wordlists as words

__all__ = ["KINDS", "KIND_NAMES", "RULE_INPUTS", "Kind", "with_kinds"]

RULE_INPUTS: Final = {
    "raw_text": pl.String,  # what the model said; empty where it said nothing
    "text": pl.String,  # the sentence it was asked about
    "instruction": pl.String,  # the first line of the model's prompt; null where it has none
    "finish_reason": pl.String,
    "classifier": pl.Boolean,  # the model gives scores or class names, so it has no instruction to break
}
"""Columns that the rules read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way of breaking the instruction."""

    name: str
    version: int
    """Raised whenever the rule finds other answers than before."""
    description: str
    """One line for people."""
    rule: pl.Expr
    """Over :data:`RULE_INPUTS`; null counts as false."""

    @property
    def identity(self) -> str:
        """Name and version, as reports show them."""
        return f"{self.name}@{self.version}"


def _holds(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    # Not `contains` or `find`: even of a literal they make a regular expression, which a long sentence is too big for.
    return text.str.splitn(part, 2).struct.field("field_1").is_not_null()


_RAW: Final = pl.col("raw_text")
_LOWER: Final = _RAW.str.to_lowercase()
_BARE: Final = _LOWER.str.replace_all(r"^[^\pL\pN]+|[^\pL\pN]+$", "")
"""The answer without the marks around it."""
_WORDS: Final = _LOWER.str.extract_all(r"[\pL\pN][\pL\pN\pM'’-]*")
_WORD_COUNT: Final = _WORDS.list.len()
_LETTERS: Final = _RAW.str.count_matches(r"\pL")

_TOXIC: Final = _LOWER.str.contains(r"\btoxic\b")
_RESPECTFUL: Final = _LOWER.str.contains(r"\brespectful\b")
_SENTENCE: Final = pl.col("text").str.strip_chars().str.to_lowercase()
_SENTENCE_LEAST: Final = 12
"""Characters below which a sentence may stand in an answer by chance."""

_EMPTY: Final = _RAW.str.contains(r"^[\s\pC\u{2800}\u{3164}]*$")
_PUNCTUATION: Final = ~_EMPTY & ~_RAW.str.contains(r"[\pL\pN]")
_INSTRUCTION: Final = pl.col("instruction").str.strip_chars().str.to_lowercase()
_ECHO: Final = _LOWER.str.contains(r"(?:^|\n)[^\pL\pN\n]*(?:classify the input text|answer with only one word)") | (
    (_INSTRUCTION.str.len_chars() > 0) & _holds(_LOWER, _INSTRUCTION)
)
_MADE_UP: Final = _LOWER.str.contains(r"\n[^\pL\pN\n]*(?:input text|input|text|sentence|question|q)\s*\d*\s*:")
_ECHO_SENTENCE: Final = (_SENTENCE.str.len_chars() >= _SENTENCE_LEAST) & _holds(_LOWER, _SENTENCE)
_NEGATED: Final = _LOWER.str.contains(
    r"\b(?:not|no|never|neither|isn['’]?t|aren['’]?t|doesn['’]?t|don['’]?t|hardly)\s+(?:[\pL]+\s+){0,2}(?:toxic|respectful)\b"
) | _LOWER.str.contains(r"\b(?:non|un|dis|anti|in)[-‐‑ ]?(?:toxic|respectful)\b")
_REFUSAL: Final = _LOWER.str.contains(words.any_phrase(words.REFUSALS))
_REASONING: Final = _LOWER.str.contains(
    r"</?(?:think|thinking|reasoning)>|^\s*(?:let's think|okay, (?:so|let)|step 1\b)"
)
_CODE: Final = _RAW.str.contains(r"^\s*(?:\{|\[\s*[\[\{\x22']|```|<[A-Za-z!/?])")
_MARKED: Final = _BARE.str.replace(
    r"^(?:(?:the|my|final)\s+)*(?:answer|label|classification|output)\s*(?:is)?\W+", ""
).is_in(["toxic", "respectful"])
_OTHER_WORDS: Final = _LOWER.str.contains(words.any_phrase(words.OTHER_LABELS))
_OTHER_LANGUAGE: Final = _LOWER.str.contains(words.any_phrase(words.TRANSLATIONS)) | (
    (_LETTERS >= 2) & (_RAW.str.count_matches(r"\p{Latin}") * 2 < _LETTERS)
)
_CHOICE: Final = _BARE.str.contains(
    r"^(?:option |choice |class |label )?(?:[a-d]|[0-9]{1,3}(?:\.[0-9]+)?|yes|no|true|false|none|n/a)$"
)
_REPETITION: Final = (_WORD_COUNT >= 6) & (_WORDS.list.n_unique() * 3 <= _WORD_COUNT)
_TRUNCATED: Final = pl.col("finish_reason").is_in(["length", "max_tokens", "MAX_TOKENS"])
_IN_SENTENCE: Final = (_TOXIC ^ _RESPECTFUL) & ~_NEGATED
_CONTINUATION: Final = (
    (_WORD_COUNT >= 4) & ~_TOXIC & ~_RESPECTFUL & ~_REFUSAL & ~_ECHO & ~_CODE & ~_NEGATED & ~_ECHO_SENTENCE
)

_NAMED: Final[tuple[Kind, ...]] = tuple(
    Kind(name=name, version=1, description=description, rule=rule)
    for name, description, rule in (
        ("unmapped", "a class or scores that a classifier's labels do not map", pl.col("classifier")),
        ("empty", "nothing, or nothing visible", _EMPTY),
        ("punctuation", "marks without a letter or digit", _PUNCTUATION),
        ("refusal", "declines in words (I can't ..., As an AI ...)", _REFUSAL),
        ("echo", "repeats the instruction of the prompt", _ECHO),
        ("echo-sentence", "repeats the sentence it was asked about", _ECHO_SENTENCE),
        ("made-up-example", "goes on with a further example (Input text: ...)", _MADE_UP),
        ("both-labels", "names both labels", _TOXIC & _RESPECTFUL),
        ("negated-label", "turns a label round (not toxic, non-toxic, disrespectful)", _NEGATED),
        ("label-marked", "one label and nothing else but case, marks or 'Answer:'", _MARKED),
        ("label-in-sentence", "one label among other words", _IN_SENTENCE & ~_MARKED),
        ("other-language", "a label in another language, or mostly in another script", _OTHER_LANGUAGE),
        ("other-words", "other words for a label (hateful, offensive, neutral, ...)", _OTHER_WORDS),
        ("choice", "a number, a letter, yes or no", _CHOICE),
        ("reasoning", "reasons aloud instead of answering, or before it", _REASONING),
        ("code", "JSON, HTML, Markdown code or a list", _CODE),
        ("repetition", "says the same few words again and again", _REPETITION),
        ("continuation", "goes on as a text would: four words or more without a label", _CONTINUATION),
        ("truncated", "cut off by the limit of tokens", _TRUNCATED),
    )
)  # fmt: skip
_OTHER: Final = "other"
KINDS: Final = (
    *_NAMED,
    Kind(
        name=_OTHER,
        version=1,
        description="of no other kind",
        rule=~pl.any_horizontal([kind.rule.fill_null(value=False) for kind in _NAMED]),
    ),
)
"""In order of precedence."""

KIND_NAMES: Final = tuple(kind.name for kind in KINDS)


def with_kinds(broken: pl.DataFrame) -> pl.DataFrame:
    """Return the kinds of some broken answers.

    Args:
        broken: Columns :data:`RULE_INPUTS`, one row per answer; rechunked, since each chunk compiles every rule anew.

    Returns:
        The frame with ``kinds`` (list of names in order of precedence, never empty) and ``kind``, the first of them.
    """
    flags = broken.rechunk().select(kind.rule.fill_null(value=False).alias(kind.name) for kind in _NAMED)
    found = flags.select(
        pl.concat_list([pl.when(pl.col(kind.name)).then(pl.lit(kind.name)) for kind in _NAMED])
        .list.drop_nulls()
        .alias("kinds")
    ).with_columns(
        pl.when(pl.col("kinds").list.len() == 0).then(pl.lit([_OTHER])).otherwise(pl.col("kinds")).alias("kinds")
    )
    return broken.hstack(found.with_columns(pl.col("kinds").list.first().alias("kind")))
