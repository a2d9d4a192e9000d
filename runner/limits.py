"""How fast an endpoint may be asked: paced buckets, a shared cool-down, adaptive concurrency.

All times are the event loop's (monotonic), so a machine clock that jumps changes nothing. The buckets are our own since
the maintained limiters (aiolimiter, pyrate-limiter, limits, throttled-py) can't take back what a request did not use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

__all__ = ["AdaptiveConcurrency", "Bucket", "Cooldown", "Reservation", "Throttle"]


class Bucket:
    """Paces something to so many units a minute (generic cell rate algorithm).

    Units are reserved before they are used and may be given back. ``burst`` units may be used at once after a pause;
    a request of more than that waits until its own units have passed, so the long-run rate holds for any size.

    Args:
        per_minute: Units that become available in a minute.
        burst: Units that may be saved up; the default is one second's worth, at least one.
    """

    def __init__(self, per_minute: float, burst: float | None = None) -> None:
        self._interval_s = 60.0 / per_minute
        self._slack_s = self._interval_s * (max(1.0, per_minute / 60.0) if burst is None else burst)
        self._free_at = float("-inf")
        """When all that was reserved so far will have been earned."""

    def reserve(self, units: float, now: float) -> float:
        """Take units and return how long to wait before using them, in seconds."""
        self._free_at = max(self._free_at, now) + units * self._interval_s
        return max(0.0, self._free_at - self._slack_s - now)

    def refund(self, units: float) -> None:
        """Give units back (or, negative, take more after the fact)."""
        self._free_at -= units * self._interval_s


class Reservation(NamedTuple):
    """What was taken from the buckets for one request."""

    requests: int
    tokens: int
    wait_s: float


class Throttle:
    """Requests and tokens a minute of one endpoint and model; without limits it costs nothing."""

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = Bucket(requests_per_minute) if requests_per_minute else None
        self._tokens = Bucket(tokens_per_minute, burst=tokens_per_minute / 6) if tokens_per_minute else None

    @property
    def unlimited(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._requests is None and self._tokens is None

    def reserve(self, tokens: int, now: float) -> Reservation:
        """Take one request and its tokens."""
        wait_s = 0.0
        if self._requests is not None:
            wait_s = self._requests.reserve(1, now)
        if self._tokens is not None:
            wait_s = max(wait_s, self._tokens.reserve(tokens, now))
        return Reservation(1, tokens, wait_s)

    def settle(self, reservation: Reservation, tokens_used: int | None) -> None:
        """Give back the tokens that a request did not use (None: unknown, keep all)."""
        if self._tokens is not None and tokens_used is not None:
            self._tokens.refund(reservation.tokens - tokens_used)

    def cancel(self, reservation: Reservation) -> None:
        """Give back all of a request that was never sent."""
        if self._requests is not None:
            self._requests.refund(reservation.requests)
        if self._tokens is not None:
            self._tokens.refund(reservation.tokens)


class Cooldown:
    """One pause that everybody who asks an endpoint keeps.

    Without word from the endpoint the pause doubles from storm to storm, from ``first_s`` to ``most_s``, and starts
    anew after a success.
    """

    def __init__(self, first_s: float = 1.0, most_s: float = 60.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._storms = 0
        self.until = float("-inf")
        self.reason = ""

    def remaining(self, now: float) -> float:
        """Return how long the pause still lasts, in seconds; 0 where there is none."""
        return max(0.0, self.until - now)

    def begin(self, now: float, asked_s: float | None, reason: str, sent_at: float) -> bool:
        """Start or lengthen the pause; return whether this is a new storm.

        Args:
            now: The present.
            asked_s: What the endpoint asked for (``Retry-After``); None where it did not.
            reason: Shown while it lasts.
            sent_at: When the refused request was sent. One sent before the present pause began belongs to its storm.
        """
        fresh = now >= self.until and sent_at >= self.until
        if fresh:
            self._storms += 1
        if asked_s is None:
            asked_s = min(self._most_s, self._first_s * 2.0 ** (self._storms - 1)) if fresh else 0.0
        until = now + asked_s
        if until > self.until:
            self.until = until
            self.reason = reason
        return fresh

    def success(self) -> None:
        """An answer came: the next storm is a first one again."""
        self._storms = 0


class AdaptiveConcurrency:
    """How many requests may be in flight: cut once a storm, grown by and by while it is the limit that holds us back.

    Additive increase, multiplicative decrease (Chiu and Jain 1989, Computer Networks and ISDN Systems 17:1-14). A
    round is as many answers as requests fit in flight; each saturated round adds 5 % of the maximum, at least one, so
    that a recovery takes about twenty rounds at any size.

    Args:
        maximum: The most that may ever be in flight.
        canary: Start with one alone, until :meth:`open` is called.
        decrease: What a cut leaves of the limit.
    """

    def __init__(self, maximum: int, *, canary: bool = False, decrease: float = 0.5) -> None:
        self.maximum = maximum
        self.limit = 1 if canary else maximum
        self.in_flight = 0
        self._decrease = decrease
        self._step = max(1, maximum // 20)
        self._answers = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.cuts = 0

    @property
    def full(self) -> bool:
        """Whether no more may be in flight."""
        return self.in_flight >= self.limit

    async def place(self) -> None:
        """Wait for a place; whoever waits longest goes first. Does not take it."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def leave(self) -> None:
        """One is no longer in flight."""
        self.in_flight -= 1
        self._wake(self.limit - self.in_flight)

    def open(self) -> None:
        """Allow the maximum."""
        self.limit = self.maximum
        self._wake(self.limit - self.in_flight)

    def release(self) -> None:
        """Wake everybody who waits."""
        self._wake(len(self._waiters))

    def _wake(self, places: int) -> None:
        while places > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                places -= 1

    def cut(self) -> None:
        """The endpoint said that it is too much (call once per storm)."""
        self.limit = max(1, int(min(self.limit, max(self.in_flight, 1)) * self._decrease))
        self._answers = 0
        self.cuts += 1

    def success(self) -> bool:
        """An answer came; return whether the limit grew."""
        if self.limit >= self.maximum or self.in_flight < self.limit:
            return False
        self._answers += 1
        if self._answers < self.limit:
            return False
        self._answers = 0
        self.limit = min(self.maximum, self.limit + self._step)
        return True
