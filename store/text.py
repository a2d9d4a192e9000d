r"""Text from outside, in and out of SQLite without loss.

SQLite's TEXT holds any valid Unicode, NUL characters included, but no unpaired surrogate; those do occur in answers
(``"\ud800"`` is legal JSON). Such a text is kept as a BLOB of UTF-8 with Python's ``surrogatepass``.
"""

from __future__ import annotations

__all__ = ["decode", "encode", "encode_body", "visible"]


def encode(text: str) -> str | bytes:
    """Return what to bind for a text: itself, or bytes where it holds an unpaired surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode(value: str | bytes) -> str:
    """Return the text that :func:`encode` was given."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def encode_body(body: str | bytes) -> str | bytes:
    """Return what to bind for a response body: text where it is valid UTF-8, else its bytes as they came."""
    if isinstance(body, str):
        return encode(body)
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


def visible(text: str) -> str:
    """Return a text with unpaired surrogates replaced by U+FFFD, for consumers that know valid Unicode only."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
