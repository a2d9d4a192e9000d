"""Text of unknown origin on a page: nothing hidden, nothing obeyed, and cut where it would fill the page.

Escaping for HTML is the template's work (it escapes everything); here characters that would be invisible, or that would
change how their neighbours are shown, become visible escapes of their own.
"""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

__all__ = ["Piece", "Shown", "shown"]

_JOINERS: Final = "\u200c\u200d"
"""Part of the spelling of some languages and of emoji; harmless between two characters that are seen."""


class Piece(NamedTuple):
    """A stretch of text."""

    text: str
    escape: bool
    """Whether it stands for a character that can't be seen."""
    breaks: bool = False
    """Whether a line ends here."""


class Shown(NamedTuple):
    """A text, ready to be shown."""

    pieces: tuple[Piece, ...]
    left_out: int
    """Characters of the original that were cut."""


def shown(text: str, limit: int) -> Shown:
    r"""Split a text into what can be seen and what is shown as an escape.

    Blanks at either end are shown too, since a rule that compares whole answers sees them.

    Args:
        text: Any text: NUL, escape sequences, bidirectional overrides and unpaired surrogates included.
        limit: How many characters of it to show.

    >>> [piece.text for piece in shown("a\x1b[31m\n", 10).pieces]
    ['a', '\\x1b', '[31m', '\\n']
    """
    cut = text[:limit]
    start = len(cut) - len(cut.lstrip(" "))
    end = len(cut.rstrip(" ")) if len(cut) == len(text) else len(cut)
    pieces: list[Piece] = []
    plain: list[str] = []
    for index, char in enumerate(cut):
        if start <= index < end and _seen(cut, index):
            plain.append(char)
            continue
        if plain:
            pieces.append(Piece("".join(plain), escape=False))
            plain = []
        pieces.append(Piece("␣" if char == " " else _escape(char), escape=True, breaks=char == "\n"))
    if plain:
        pieces.append(Piece("".join(plain), escape=False))
    return Shown(tuple(_joined(pieces)), len(text) - len(cut))


def _seen(text: str, index: int) -> bool:
    char = text[index]
    if char.isprintable():
        return True
    if char in _JOINERS and 0 < index < len(text) - 1:
        return all(_carries(text[place]) for place in (index - 1, index + 1))
    return False


def _carries(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char)[0] in "LMS"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Put escapes that follow each other into one piece; a megabyte of NUL is then one element and not a million."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and piece.escape and last.escape and not last.breaks:
            found[-1] = Piece(last.text + piece.text, escape=True, breaks=piece.breaks)
        else:
            found.append(piece)
    return found
