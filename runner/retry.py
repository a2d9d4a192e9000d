"""What happens after a failed attempt, as data for tenacity."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["FATAL", "OF_THE_SENTENCE", "Attempts", "retrying"]

FATAL = frozenset({FailureKind.QUOTA, FailureKind.AUTH, FailureKind.RETIRED, FailureKind.WRONG_MODEL})
"""These stop the whole lane: no other sentence would fare better."""

OF_THE_SENTENCE = frozenset({FailureKind.TOO_LONG, FailureKind.UNSENDABLE, FailureKind.FILTERED, FailureKind.PERMANENT})
"""These are about the sentences of one request: a list is halved to find the one."""

_COUNTED = frozenset({FailureKind.TRANSIENT, FailureKind.TIMEOUT, FailureKind.MALFORMED})
"""These use up attempts. Rate limits and dead servers do not: waiting cures them."""

_DEATHS = 3
"""A request that was in flight at so many deaths of a server is taken to be their cause: more count as attempts."""


class Attempts:
    """The failed attempts of one request so far.

    Args:
        most: How many may fail.
        sent: How many requests held its sentences before (in a longer list).
    """

    def __init__(self, most: int, sent: int = 0) -> None:
        self._most = most
        self.sent = sent
        """Requests sent that held its sentences, the present one included."""
        self._counted = 0
        self._deaths = 0

    def note(self, failure: RequestFailure, *, dead: bool) -> None:
        """Take note of a failure; ``dead`` where the server died, which is not the request's fault."""
        unreachable = failure.kind is FailureKind.UNREACHABLE
        if (unreachable and dead) or not (unreachable or failure.kind in _COUNTED):
            return
        if dead or unreachable:
            # It died over this request, or a probe reached it and this request did not: chance, but not for ever.
            self._deaths += 1
            if self._deaths <= _DEATHS:
                return
        self._counted += 1

    def worth_another(self, error: BaseException) -> bool:
        """Whether to try again after this error."""
        if not isinstance(error, RequestFailure) or error.kind in FATAL or error.kind in OF_THE_SENTENCE:
            return False
        return self._counted < self._most


class _Wait:
    """Backs off exponentially, with jitter, after counted failures; never shorter than what the endpoint asked for.

    Rate limits and dead servers wait where everybody waits: at the endpoint's cool-down and breaker.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._backoff = wait_random_exponential(multiplier=first_s, max=most_s)

    def __call__(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, RequestFailure) or error.kind not in (*_COUNTED, FailureKind.UNREACHABLE):
            return 0.0
        return max(self._backoff(state), error.retry_after_s or 0.0)


def retrying(
    attempts: Attempts,
    *,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    first_s: float = 0.5,
    most_s: float = 30.0,
) -> AsyncRetrying:
    """Return tenacity's loop for one request; the last error is raised as it is."""
    return AsyncRetrying(
        retry=retry_if_exception(attempts.worth_another),
        wait=_Wait(first_s, most_s),
        sleep=sleep,
        reraise=True,
    )
