"""Response bodies -> typed values, whatever stands in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BROKEN_OFF", "Unreadable", "decoder", "kept"]

BROKEN_OFF: Final = frozenset({"abort", "error"})
"""Finish reasons that are no answer's: the server is shutting down, or its engine failed, and a part is all that came.
vLLM says them; so do gateways that speak OpenAI's format for others."""

T = TypeVar("T", bound=msgspec.Struct)


class Unreadable(ValueError):
    """A body is not JSON, or holds something other than it should; the text says what and where."""


def decoder(struct: type[T]) -> Callable[[bytes], T]:
    """Return a function that reads a JSON body into a struct, ignoring fields that it doesn't name.

    msgspec reads it; it refuses unpaired surrogates, which an answer may hold, so what it refuses gets a second try
    with the standard library. NaN and infinities are no numbers here.
    """
    fast = msgspec.json.Decoder(struct).decode

    def decode(raw: bytes) -> T:
        try:
            return fast(raw)
        except (msgspec.MsgspecError, RecursionError):
            return _tolerant(raw, struct)

    return decode


def kept(raw: bytes) -> str | bytes:
    """Return a body as it is stored: text where it is UTF-8, the bytes themselves where not."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _tolerant(raw: bytes, struct: type[T]) -> T:
    try:
        return msgspec.convert(json.loads(raw, parse_constant=_no_number), struct, strict=True)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error).replace("`", "'")) from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def plain(raw: bytes) -> Any:
    """Return a body as plain JSON values; None where it is not JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
