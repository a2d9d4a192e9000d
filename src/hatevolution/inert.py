"""Text of unknown origin on a terminal: one line, nothing hidden."""

from __future__ import annotations

from typing import Final

__all__ = ["one_line"]

_LIMIT: Final = 4000
"""Characters of a message that are shown; a server's error page must not fill the terminal."""


def one_line(text: str, limit: int = _LIMIT) -> str:
    r"""Return a text as one line in which every unprintable character is visible.

    Line ends, NUL, escape sequences, bidirectional overrides and unpaired surrogates become their Python escapes
    (``\n``, ``\x1b``, ``\ud800``); whatever :meth:`str.isprintable` accepts stays as it is.

    Args:
        text: Any text.
        limit: How many characters of it to show; the number of those left out is told.
    """
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:limit])
    left_out = len(text) - limit
    return f"{shown} ... ({left_out} more characters)" if left_out > 0 else shown
