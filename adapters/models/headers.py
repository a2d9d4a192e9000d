"""What response headers say about waiting: ``Retry-After``, ``retry-after-ms``, ``x-ratelimit-*``."""

from __future__ import annotations

import math
import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from hatevolution.domain import RateWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse_duration", "rate_window", "retry_after_s", "server_time"]

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(ns|us|µs|μs|ms|s|m|h)")


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
