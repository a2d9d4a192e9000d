"""How patient the work on batches is: retries, pauses, and the time after which a lost request has surely arrived."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PASSING", "Pace", "patient"]

T = TypeVar("T")

PASSING: Final = frozenset(
    {
        FailureKind.RATE_LIMIT,
        FailureKind.TRANSIENT,
        FailureKind.TIMEOUT,
        FailureKind.UNREACHABLE,
        FailureKind.MALFORMED,
    }
)
"""Failures that time may cure; after them it is not known whether the request was carried out."""


class Pace(NamedTuple):
    """Times in seconds."""

    attempts: int = 5
    """Most tries of one request."""
    first_s: float = 1.0
    """The first pause between two tries; later ones are longer."""
    most_s: float = 60.0
    """The longest pause, and the most that an endpoint may ask for."""
    grace_s: float = 5.0
    """A request without an answer may still be on its way: so long it is waited before its outcome is looked for."""
    sleep: Callable[[float], None] = time.sleep


def patient(work: Callable[[], T], pace: Pace) -> T:
    """Do something until it succeeds, or fails in a way that time does not cure.

    Raises:
        RequestFailure: The last failure.
    """
    backoff = wait_random_exponential(multiplier=pace.first_s, max=pace.most_s)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_s if isinstance(error, RequestFailure) else None
        return max(backoff(state), min(asked or 0.0, pace.most_s))

    return Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, RequestFailure) and error.kind in PASSING),
        stop=stop_after_attempt(pace.attempts),
        wait=wait,
        sleep=pace.sleep,
        reraise=True,
    )(work)
