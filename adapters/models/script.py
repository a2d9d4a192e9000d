"""The failures that the scripted adapter plays: one line each, ``WHAT WHEN [retry_after=SECONDS]``.

WHAT is a :class:`~hatevolution.errors.FailureKind` (``rate_limit``, ``timeout``, ...), an HTTP status (``429``,
``500``, ...), ``refused`` or ``rejected``. WHEN counts requests from 1 or picks sentences:

==========================  ============================================================================
``always``                  every request
``first N``                 requests 1 to N
``every N``                 requests N, 2N, 3N, ...
``between A and B``         requests A to B
``from A for S s``          from request A on, for S seconds
``share P``                 a fixed share of the sentences (0 to 1), the same ones however often asked
==========================  ============================================================================
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import NamedTuple

from hatevolution.errors import ConfigError, FailureKind

__all__ = ["REFUSED", "REJECTED", "Rule", "parse"]

REFUSED = "refused"
REJECTED = "rejected"

_STATUS_OF_KIND: dict[FailureKind, int | None] = {
    FailureKind.RATE_LIMIT: 429,
    FailureKind.TRANSIENT: 500,
    FailureKind.TIMEOUT: None,
    FailureKind.UNREACHABLE: None,
    FailureKind.MALFORMED: 200,
    FailureKind.QUOTA: 429,
    FailureKind.AUTH: 401,
    FailureKind.RETIRED: 404,
    FailureKind.WRONG_MODEL: 404,
    FailureKind.TOO_LONG: 400,
    FailureKind.UNSENDABLE: 400,
    FailureKind.FILTERED: 400,
    FailureKind.PERMANENT: 400,
}
_KIND_OF_STATUS: dict[int, FailureKind] = {
    400: FailureKind.PERMANENT,
    401: FailureKind.AUTH,
    403: FailureKind.AUTH,
    404: FailureKind.RETIRED,
    408: FailureKind.TRANSIENT,
    409: FailureKind.TRANSIENT,
    410: FailureKind.RETIRED,
    413: FailureKind.TOO_LONG,
    422: FailureKind.PERMANENT,
    429: FailureKind.RATE_LIMIT,
    500: FailureKind.TRANSIENT,
    502: FailureKind.TRANSIENT,
    503: FailureKind.TRANSIENT,
    504: FailureKind.TRANSIENT,
}

_LINE = re.compile(r"\s*(?P<what>\S+)\s+(?P<when>.+?)(?:\s+retry_after=(?P<wait>\d+(?:\.\d+)?))?\s*")
_WHEN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("always", re.compile(r"always")),
    ("first", re.compile(r"first (\d+)")),
    ("every", re.compile(r"every ([1-9]\d*)")),
    ("between", re.compile(r"between (\d+) and (\d+)")),
    ("from", re.compile(r"from (\d+) for (\d+(?:\.\d+)?) ?s")),
    ("share", re.compile(r"share (0?\.\d+|[01])")),
)


class Rule(NamedTuple):
    """One line of a script."""

    line: str
    kind: FailureKind | None
    """None: the sentence is answered, with ``verdict`` as its status."""
    verdict: str
    status: int | None
    retry_after_s: float | None
    when: str
    first: float
    second: float

    @property
    def of_sentences(self) -> bool:
        """True where it picks sentences, not requests."""
        return self.when == "share"

    def hits(self, number: int, now: float, begun: dict[str, float]) -> bool:
        """Return whether it befalls a request.

        Args:
            number: Of the request, from 1.
            now: Seconds by any steady clock.
            begun: When each timed rule began; kept up to date.
        """
        match self.when:
            case "always":
                return True
            case "first":
                return number <= self.first
            case "every":
                return number % int(self.first) == 0
            case "between":
                return self.first <= number <= self.second
            case "from":
                return number >= self.first and now < begun.setdefault(self.line, now) + self.second
            case _:
                return False

    def picks(self, seed: int, dataset: str, sentence: str) -> bool:
        """Return whether it befalls a sentence."""
        if not self.of_sentences:
            return False
        key = f"{seed}\0{self.line}\0{dataset}\0{sentence}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") < self.first * 2**64


def parse(line: str, model: str) -> Rule:
    """Return the rule that a line of a script says.

    Raises:
        ConfigError: It is no such line.
    """
    parts = _LINE.fullmatch(line)
    matched = next(
        ((word, found) for word, pattern in _WHEN if parts and (found := pattern.fullmatch(parts["when"]))), None
    )
    if parts is None or matched is None:
        raise ConfigError(
            f"The model {model!r} has a script line {line!r}, which does not read WHAT WHEN [retry_after=SECONDS], "
            "with WHEN one of: always, first N, every N, between A and B, from A for S s, share P."
        )
    kind, status = _what(parts["what"], line, model)
    numbers = [float(number) for number in matched[1].groups()] + [math.nan, math.nan]
    wait = None if parts["wait"] is None else float(parts["wait"])
    verdict = parts["what"] if kind is None else ""
    return Rule(line, kind, verdict, status, wait, matched[0], numbers[0], numbers[1])


def _what(word: str, line: str, model: str) -> tuple[FailureKind | None, int | None]:
    if word in (REFUSED, REJECTED):
        return None, None
    if word.isdecimal() and int(word) in _KIND_OF_STATUS:
        return _KIND_OF_STATUS[int(word)], int(word)
    try:
        kind = FailureKind(word)
    except ValueError:
        statuses = ", ".join(map(str, _KIND_OF_STATUS))
        raise ConfigError(
            f"The model {model!r} has a script line {line!r}; {word!r} is none of: {', '.join(FailureKind)}, "
            f"{REFUSED}, {REJECTED}, {statuses}."
        ) from None
    return kind, _STATUS_OF_KIND[kind]
