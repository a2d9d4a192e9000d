"""Which words of two sentences differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final, NamedTuple

__all__ = ["Piece", "differing_words", "marked"]

_TOKEN: Final = re.compile(r"\s+|\w+(?:['’-]\w+)*|[^\w\s]")
_MOST: Final = 600
"""Words between common beginning and end up to which they are aligned; comparing takes the square of it."""


class Piece(NamedTuple):
    """A stretch of a sentence."""

    text: str
    differs: bool


def differing_words(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Split two sentences into stretches that both have and stretches that one alone has; nothing is lost.

    >>> differing_words("a big dog", "a smol dog")[1]
    [Piece(text='a ', differs=False), Piece(text='smol', differs=True), Piece(text=' dog', differs=False)]
    """
    left, right = _TOKEN.findall(first), _TOKEN.findall(second)
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    middle_left, middle_right = left[start : len(left) - end], right[start : len(right) - end]
    if max(len(middle_left), len(middle_right)) > _MOST:
        codes = [("replace", 0, len(middle_left), 0, len(middle_right))]
    else:
        codes = list(SequenceMatcher(None, middle_left, middle_right, autojunk=False).get_opcodes())
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for pieces, tokens, middle, at in ((sides[0], left, middle_left, 1), (sides[1], right, middle_right, 3)):
        _add(pieces, tokens[:start], differs=False)
        for code in codes:
            _add(pieces, middle[int(code[at]) : int(code[at + 1])], differs=code[0] != "equal")
        _add(pieces, tokens[len(tokens) - end :], differs=False)
    return sides


def _add(pieces: list[Piece], tokens: list[str], *, differs: bool) -> None:
    text = "".join(tokens)
    if not text:
        return
    if pieces and pieces[-1].differs == differs:
        pieces[-1] = Piece(pieces[-1].text + text, differs)
    else:
        pieces.append(Piece(text, differs))


def marked(pieces: list[Piece]) -> str:
    """Return the stretches that differ, one after the other, separated by " | "."""
    return " | ".join(piece.text for piece in pieces if piece.differs)
