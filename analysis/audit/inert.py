r"""Foreign text in cells of spreadsheets: harmless, complete, and to be had back exactly.

1. What can't be seen or does harm when printed (control characters, line ends, bidirectional overrides, unpaired
   surrogates, ...) is written as Python's escape (``\n``, ``\x1b``, ``\u202e``, ``\ud800``), and a backslash as two.
2. In CSV alone, a text that a spreadsheet could run as a formula gets an apostrophe in front, and so does one that
   begins with an apostrophe. An .xlsx cell is written as a string and needs none.

:func:`restore_cell` undoes both.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["csv_cell", "restore_cell", "visible_cell"]

_STARTS: Final = ("=", "+", "-", "@", "|", "%", "'", "＝", "＋", "－", "＠")
"""What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection"), or for a mark of text."""

_ESCAPE: Final = re.compile(r"\\(?:(['\"\\abfnrtv])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


def visible_cell(text: str) -> str:
    r"""Return a text with backslashes doubled and everything unprintable as its escape.

    >>> visible_cell("a\nb\x1b[31m \\ ")
    'a\\nb\\x1b[31m \\\\ '
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )


def csv_cell(text: str) -> str:
    """Return a text as a CSV cell that no spreadsheet runs as a formula.

    >>> csv_cell("=1+1"), csv_cell("'quoted'"), csv_cell("plain")
    ("'=1+1", "''quoted'", 'plain')
    """
    shown = visible_cell(text)
    # A blank, a line end or another unseen character before it does not keep every spreadsheet from running it.
    bare = text.lstrip().lstrip("\0\ufeff\u200b").lstrip()
    runs = bare.startswith(_STARTS) or text.startswith(("\t", "\r", "\n"))
    return f"'{shown}" if runs or shown.startswith("'") else shown


def restore_cell(cell: str, *, csv: bool = True) -> str:
    r"""Return the text that a cell of an export was made of.

    >>> restore_cell(csv_cell("=a\0\n")) == "=a\0\n"
    True
    """
    if csv and cell.startswith("'"):
        cell = cell[1:]
    return _ESCAPE.sub(_unescaped, cell)


def _unescaped(match: re.Match[str]) -> str:
    simple, *codes = match.groups()
    return _SIMPLE[simple] if simple else chr(int(next(code for code in codes if code), 16))
