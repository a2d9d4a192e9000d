r"""Rules made of label words: the built-in ``strict`` and ``lenient``, and what a user's own TOML may say.

How an answer is read, with ``words.match``:

- ``exact``: the answer is one of the words, letter by letter.
- ``whole``: what is left is one of the words once reasoning blocks, case, a leading ``Answer:``, and the marks around
  it (quotes, Markdown, full stops) are taken away.
- ``word``: the answer holds one of the words as a word of its own, after the same cleaning; the text after the last
  ``Answer:`` counts, an echo of the prompt before it does not, and neither does a further example that the model made
  up after its answer.
- ``contains``: the lower-case answer holds one of the words anywhere, cleaned in no way.

An answer that names both labels, or negates one (``not toxic``, ``non-toxic``), is ambiguous under ``whole`` and
``word``; one that only echoes the prompt is so too.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import polars as pl
from msgspec import Meta, Struct, field

from hatevolution.analysis.parsers.base import RAW_TEXT, Policy, verdict

__all__ = ["LENIENT", "STRICT", "Match", "WordRules", "Words", "word_verdict"]

Match = Literal["exact", "whole", "word", "contains"]
_WordList = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]

_MARKS: Final = r"[^\pL\pN?]"
"""Quotes, Markdown, brackets, full stops, blanks. Not the question mark: "toxic?" is no answer."""


class Words(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The label words, lower case except under ``exact``."""

    toxic: _WordList
    respectful: _WordList
    match: Match = "whole"


class WordRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about reading label words that depends on a language or a prompt."""

    words: Words
    negations: tuple[str, ...] = ()
    """Words that turn a label round when they stand up to two words before it."""
    negating_prefixes: tuple[str, ...] = ()
    """Prefixes that do so (``non`` as in nontoxic, non-toxic)."""
    answer_markers: tuple[str, ...] = ()
    """Words that, followed by a colon or an equals sign, introduce the answer."""
    echoes: tuple[str, ...] = ()
    """Beginnings of the prompt's lines, by which an echo of it is known."""
    reasoning_tags: tuple[str, ...] = field(default_factory=lambda: ("think", "thinking", "reasoning"))
    """Names of tags around reasoning that is not part of the answer."""


ENGLISH: Final = {
    "negations": (
        "not", "no", "non", "never", "neither", "nor", "cannot", "hardly", "without", "isn't", "isn’t", "isnt",
        "aren't", "aren’t", "wasn't", "wasn’t", "doesn't", "doesn’t", "don't", "don’t", "can't", "can’t",
    ),
    "negating_prefixes": ("non", "un", "dis", "anti"),
    "answer_markers": ("answer", "label", "classification", "output", "verdict"),
    "echoes": ("classify the input text", "input text"),
}  # fmt: skip


def word_verdict(rules: WordRules) -> pl.Expr:
    """Return the verdict of some word rules over :data:`RAW_TEXT`."""
    raw, words = pl.col(RAW_TEXT), rules.words
    if words.match == "exact":
        return verdict(toxic=raw.is_in(words.toxic), respectful=raw.is_in(words.respectful))
    if words.match == "contains":
        lower = raw.str.to_lowercase()
        toxic, respectful = (
            lower.str.contains_any([word.lower() for word in group]) for group in (words.toxic, words.respectful)
        )
        return verdict(toxic=toxic, respectful=respectful, ambiguous=toxic & respectful)
    said = _without_reasoning(raw, rules.reasoning_tags).str.to_lowercase()
    if words.match == "whole":
        bare = _bare(_without_leading_marker(said, rules.answer_markers))
        toxic, respectful = (bare.is_in(group) for group in (words.toxic, words.respectful))
        return verdict(toxic=toxic, respectful=respectful, ambiguous=~(toxic | respectful) & _unclear(said, rules))
    said, echo = _answer_part(said, rules)
    toxic, respectful = (said.str.contains(_whole_word(group)) for group in (words.toxic, words.respectful))
    return verdict(toxic=toxic, respectful=respectful, ambiguous=echo | _unclear(said, rules))


def _without_reasoning(text: pl.Expr, tags: tuple[str, ...]) -> pl.Expr:
    if not tags:
        return text
    tag = f"(?:{_either(tags)})"
    for pattern in (
        rf"(?is)<{tag}>.*?</{tag}>",
        rf"(?is)^.*</{tag}>",  # the opening tag stood in the prompt
        rf"(?is)<{tag}>.*$",  # cut off while reasoning: there is no answer
    ):
        text = text.str.replace_all(pattern, " ")
    return text


def _bare(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(rf"^{_MARKS}+|{_MARKS}+$", "")


def _marker(markers: tuple[str, ...]) -> str:
    return rf"\b(?:{_either(markers)}){_MARKS}*[:=]"


def _without_leading_marker(text: pl.Expr, markers: tuple[str, ...]) -> pl.Expr:
    if not markers:
        return text
    return text.str.replace(rf"^{_MARKS}*(?:(?:the|my|final)\s+)*{_marker(markers)}", "")


def _answer_part(text: pl.Expr, rules: WordRules) -> tuple[pl.Expr, pl.Expr]:
    """Return the part of a text that counts as its answer, and whether the text is an echo without an answer."""
    echo: pl.Expr = pl.lit(value=False)
    if rules.echoes:
        line = rf"{_MARKS}*(?:{_either(rules.echoes)})"
        begins = text.str.contains(rf"^{line}")
        if rules.answer_markers:
            first = rf"(?s)^.*?{_marker(rules.answer_markers)}"
            answered = text.str.contains(first)
            text = pl.when(begins & answered).then(text.str.replace(first, "")).otherwise(text)
            echo = begins & ~answered
        else:
            echo = begins
        # A base model that goes on after its answer makes up the next example; its label is not the answer.
        text = text.str.replace(rf"(?s)(\S\s*?\n)\s*{line}.*$", "${1}")
    if rules.answer_markers:
        text = text.str.replace(rf"(?s)^.*{_marker(rules.answer_markers)}", "")
    return text, echo


def _unclear(text: pl.Expr, rules: WordRules) -> pl.Expr:
    toxic, respectful = _whole_word(rules.words.toxic), _whole_word(rules.words.respectful)
    unclear = text.str.contains(toxic) & text.str.contains(respectful)
    labels = f"(?:{_either((*rules.words.toxic, *rules.words.respectful))})"
    if rules.negations:
        unclear |= text.str.contains(
            rf"\b(?:{_either(rules.negations)})\b[^\pL\pN]+(?:[\pL\pN]+[^\pL\pN]+){{0,2}}{labels}\b"
        )
    if rules.negating_prefixes:
        unclear |= text.str.contains(rf"\b(?:{_either(rules.negating_prefixes)})[-‐‑]?{labels}\b")
    return unclear


def _whole_word(words: tuple[str, ...]) -> str:
    return rf"\b(?:{_either(words)})\b"


def _either(words: tuple[str, ...]) -> str:
    return "|".join(_escaped(word.lower()) for word in words)


def _escaped(word: str) -> str:
    # Python's re.escape also escapes letters that Rust's regex has no escape for; only the marks need one.
    return re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", word)


_WORDS: Final = {"toxic": ("toxic",), "respectful": ("respectful",)}

STRICT: Final = Policy(
    name="strict",
    version=1,
    reads="text",
    summary="one label word and nothing else, whatever its case, quotes, Markdown, full stop or leading 'Answer:'",
    rule=lambda _: word_verdict(WordRules(words=Words(**_WORDS, match="whole"), **ENGLISH)),
)

LENIENT: Final = Policy(
    name="lenient",
    version=1,
    reads="text",
    summary="one of the label words anywhere in the answer; both, a negated one or an echo of the prompt is ambiguous",
    rule=lambda _: word_verdict(WordRules(words=Words(**_WORDS, match="word"), **ENGLISH)),
)
