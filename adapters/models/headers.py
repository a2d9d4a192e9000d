"""Response headers, and what they say about waiting: ``Retry-After``, ``retry-after-ms``, ``x-ratelimit-*``."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime

from hatevolution.domain import RateWindow

__all__ = ["ResponseHeaders", "parse_duration", "rate_window", "retry_after_s", "server_time"]

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(ns|us|µs|μs|ms|s|m|h)")


class ResponseHeaders(Mapping[str, str]):
    """Headers by names whose case does not matter; of a name that stands there twice, the first.

    They are looked through when they are asked for: of most answers one is wanted, or none.

    Args:
        lines: As they came; those that are no headers (a status line, the empty one at the end) are none.
    """

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def __getitem__(self, name: str) -> str:
        wanted = name.lower().encode("utf-8", "surrogatepass") + b":"
        size = len(wanted)
        for line in self._lines:
            if line[:size].lower() == wanted:
                return line[size:].strip().decode("utf-8", "surrogateescape")
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        names = (line.partition(b":")[0].decode("utf-8", "surrogateescape") for line in self._lines if b":" in line)
        return iter(dict.fromkeys(name.lower() for name in names))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration as Go writes it (``6m0s``, ``12ms``, ``1h2m3.5s``); None if it is none.

    Source: https://pkg.go.dev/time#ParseDuration. OpenAI's reset headers use it.
    """
    text = text.strip()
    if text == "0":
        return 0.0
    total, position = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != position:
            return None
        total += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    return total if position and position == len(text) else None


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def server_time(headers: Mapping[str, str], now: float | None = None) -> float:
    """Return the time by the server's clock (its ``Date`` header), else by ours, in seconds since 1970."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return time.time() if now is None else now


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a response asks to wait; None where it does not say.

    ``retry-after-ms`` goes before ``Retry-After``, which is a number of seconds, an HTTP date (RFC 9110, 10.2.3) or, as
    some gateways write it, a Go duration. A date counts from the response's own ``Date``, so that a wrong clock here
    does no harm.

    Args:
        headers: The response's headers, by names whose case does not matter.
        now: Seconds since 1970 where the response has no ``Date``; None for this machine's clock.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("Retry-After", "").strip()
    if not text:
        return None
    seconds = _seconds(text)
    if seconds is None:
        seconds = parse_duration(text)
    if seconds is not None:
        return seconds
    try:
        until = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, until - server_time(headers, now))


def rate_window(headers: Mapping[str, str]) -> RateWindow | None:
    """Return what ``x-ratelimit-*`` headers say; None where there are none that can be read."""
    window = RateWindow(
        limit_requests=_count(headers, "x-ratelimit-limit-requests"),
        remaining_requests=_count(headers, "x-ratelimit-remaining-requests"),
        reset_requests_s=_reset(headers, "x-ratelimit-reset-requests"),
        limit_tokens=_count(headers, "x-ratelimit-limit-tokens"),
        remaining_tokens=_count(headers, "x-ratelimit-remaining-tokens"),
        reset_tokens_s=_reset(headers, "x-ratelimit-reset-tokens"),
    )
    return window if any(value is not None for value in window) else None


def _count(headers: Mapping[str, str], name: str) -> int | None:
    value = _seconds(headers.get(name, ""))
    return None if value is None else int(value)


def _reset(headers: Mapping[str, str], name: str) -> float | None:
    text = headers.get(name, "")
    seconds = parse_duration(text)
    return _seconds(text) if seconds is None else seconds
