"""Text that came from outside, made harmless for the place where it is shown."""

from __future__ import annotations

import re
from typing import Final

from hatevolution.inert import one_line

__all__ = ["csv_text", "latex_text", "markdown_text"]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A cell that begins so is run as a formula by spreadsheets (OWASP, "CSV Injection")."""

_NUMBER: Final = re.compile(r"-?\d*\.?\d+")

_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "✓": r"\checkmark{}",
        "✗": r"$\times$",
        "–": "--",
        "→": r"$\rightarrow$",
    }
)

_MARKDOWN: Final = str.maketrans({mark: f"\\{mark}" for mark in r"\`*_[]#!|<>~$"})


def csv_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula; numbers stay numbers.

    >>> csv_text("=1+1"), csv_text("-0.2662")
    ("'=1+1", '-0.2662')
    """
    shown = one_line(text)
    if shown.lstrip().startswith(_FORMULA_STARTS) and shown != "-" and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown


def latex_text(text: str) -> str:
    r"""Return a text in which no character is a command.

    >>> latex_text(r"\input{x} 5 %")
    '\\textbackslash{}input\\{x\\} 5 \\%'
    """
    return one_line(text).translate(_LATEX)


def markdown_text(text: str) -> str:
    r"""Return a text in which no character is markup or HTML.

    >>> markdown_text("a|b <b>")
    'a\\|b \\<b\\>'
    """
    return one_line(text).translate(_MARKDOWN)
