"""Who may send when: one place for everything that can hold a request back.

A request needs, in this order: a place among those in flight, a store that can take its answer, an endpoint that is
up and not cooling down, its share of the rate limits, and money. While anything is missing the lane's state says what,
and for how long.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.domain import TokenEstimate
from hatevolution.errors import FailureKind, HatevolutionError, RequestFailure
from hatevolution.runner.budget import most_cost
from hatevolution.runner.retry import FATAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.base import Adapter
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, Reply
    from hatevolution.runner.budget import Budget
    from hatevolution.runner.events import LaneState, Listeners
    from hatevolution.runner.limits import AdaptiveConcurrency, Cooldown, Reservation, Throttle
    from hatevolution.runner.pool import Endpoint, Pool
    from hatevolution.runner.ports import Sink

__all__ = ["Admission", "LaneStopped", "Ticket"]


class LaneStopped(HatevolutionError):
    """The lane ends; what was not sent stays pending."""


class Ticket(NamedTuple):
    """The right to send one request."""

    endpoint: Endpoint
    sent_at: float
    """Event loop time."""
    reservation: Reservation | None
    most_usd: float


_NOTHING = TokenEstimate(0, 0, 0)

_OVERLOADED = frozenset({503, 529})
"""HTTP statuses by which a server says that it has too much to do."""

_LONG_WAIT_S = 5.0
"""A pause that a display should explain."""


class _Turn:
    """One request's turn at the rate limits, given back if it is not used."""

    def __init__(self, throttle: Throttle, tokens: int) -> None:
        self._throttle = throttle
        self._tokens = tokens
        self._reservation: Reservation | None = None

    @property
    def taken(self) -> bool:
        return self._reservation is not None

    def take(self, now: float) -> float:
        """Reserve, and return how long to wait, in seconds."""
        self._reservation = self._throttle.reserve(self._tokens, now)
        return self._reservation.wait_s

    def use(self) -> Reservation | None:
        """The request goes out."""
        reservation, self._reservation = self._reservation, None
        return reservation

    def cancel(self) -> None:
        """Give the turn back: unused, or passed while something else was in the way."""
        if self._reservation is not None:
            self._throttle.cancel(self._reservation)
            self._reservation = None


class Admission:
    """The gate of one model's lane."""

    def __init__(
        self,
        config: ModelConfig,
        adapter: Adapter,
        *,
        pool: Pool,
        throttle: Throttle,
        concurrency: AdaptiveConcurrency,
        cooldown: Cooldown,
        budget: Budget,
        writer: Sink,
        state: LaneState,
        listeners: Listeners,
    ) -> None:
        self._config = config
        self._adapter = adapter
        self.pool = pool
        self._throttle = throttle
        self._concurrency = concurrency
        self._cooldown = cooldown
        self._budget = budget
        self._writer = writer
        self._state = state
        self._tell = listeners
        self._stop = asyncio.Event()
        self._turns = asyncio.Lock()
        """Held by the one request that may take a turn at the rate limits: turns taken far ahead could not be given
        back without two requests getting the same one."""
        self._limited_since: float | None = None
        """Since when the endpoint refuses everything as too much; None after any answer."""
        self._plain = throttle.unlimited and config.price is None
        self._canary = concurrency.limit < concurrency.maximum
        self.stop_reason: RequestFailure | None = None
        state.limit = concurrency.limit
        pool.on_lost = self.stop

    # -- stopping ----------------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._stop.is_set()

    def stop(self, reason: RequestFailure | None = None) -> None:
        """Send nothing more; what is in flight may still come home."""
        if reason is not None and self.stop_reason is None and not self._stop.is_set():
            self.stop_reason = reason
            self._tell("lane_stopped", model=self._config.name, kind=reason.kind.value, message=str(reason))
        self._stop.set()
        self._concurrency.release()
        self.pool.release()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but wake when the lane is stopped.

        Raises:
            LaneStopped: It was.
        """
        if seconds <= 0:
            await asyncio.sleep(0)
        else:
            try:
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
            except TimeoutError:
                pass
        if self._stop.is_set():
            raise LaneStopped

    # -- admitting ---------------------------------------------------------------------------------------------

    def try_admit(self, items: Sequence[Item]) -> Ticket | None:
        """Return a ticket at once where nothing holds the request back and nothing has to be reserved."""
        concurrency = self._concurrency
        if not self._plain or concurrency.in_flight >= concurrency.limit or self._stop.is_set():
            return None
        now = asyncio.get_running_loop().time()
        if now < self._cooldown.until:
            return None
        endpoint = self.pool.pick()
        if endpoint is None:
            return None
        return self._issue(endpoint, now, None, 0.0)

    def _issue(self, endpoint: Endpoint, now: float, reservation: Reservation | None, most_usd: float) -> Ticket:
        if not endpoint.outstanding:
            endpoint.last_word = now
        endpoint.outstanding += 1
        self._concurrency.in_flight += 1
        state = self._state
        state.in_flight = self._concurrency.in_flight
        if state.phase == "paused":
            state.phase, state.why, state.paused_until = "running", "", None
        return Ticket(endpoint, now, reservation, most_usd)

    async def admit(self, items: Sequence[Item]) -> Ticket:
        """Wait until the request may be sent.

        Raises:
            LaneStopped: It may not: the lane ends.
        """
        estimate = self._estimate(items)
        most_usd = most_cost(self._config.price, estimate)
        turn = _Turn(self._throttle, estimate.prompt_likely + estimate.completion_most)
        if self._throttle.unlimited:
            return await self._admit(turn, most_usd)
        async with self._turns:  # first come, first served
            return await self._admit(turn, most_usd)

    async def _admit(self, turn: _Turn, most_usd: float) -> Ticket:
        loop = asyncio.get_running_loop()
        try:
            while not self._stop.is_set():
                if await self._held_back(loop):
                    turn.cancel()
                elif not await self._wait_for(turn, loop):
                    ticket = await self._take(turn, most_usd, loop)
                    if ticket is not None:
                        return ticket
                    turn.cancel()
            raise LaneStopped
        finally:
            turn.cancel()

    async def _wait_for(self, turn: _Turn, loop: asyncio.AbstractEventLoop) -> bool:
        """Take a turn at the rate limits and wait for it; False where there was nothing to wait for."""
        if turn.taken or self._throttle.unlimited:
            return False
        now = loop.time()
        wait_s = turn.take(now)
        if wait_s > _LONG_WAIT_S:
            self._pause("rate limit of the configuration", now + wait_s)
        if wait_s > 0:
            await self.sleep(wait_s)
        return wait_s > 0

    async def _take(self, turn: _Turn, most_usd: float, loop: asyncio.AbstractEventLoop) -> Ticket | None:
        """Issue the ticket if money and endpoint are there; else wait, and None."""
        if not self._budget.reserve(most_usd):
            await self._wait_for_money(most_usd)
            return None
        endpoint = self.pool.pick()
        if endpoint is None:
            self._budget.release(most_usd, maybe_billed=False)
            return None
        return self._issue(endpoint, loop.time(), turn.use(), most_usd)

    def _estimate(self, items: Sequence[Item]) -> TokenEstimate:
        if self._plain:
            return _NOTHING
        parts = [self._adapter.estimate(item) for item in items]
        return TokenEstimate(
            sum(part.prompt_likely for part in parts),
            sum(part.prompt_most for part in parts),
            sum(part.completion_most for part in parts),
        )

    async def _held_back(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait for the first thing that is in the way; False where nothing is."""
        concurrency = self._concurrency
        if concurrency.full:
            await concurrency.place()
            return True
        if self._writer.full:
            await self.pause_for_store()
            return True
        remaining = self._cooldown.remaining(loop.time())
        if remaining > 0:
            self._pause(f"{self._cooldown.reason}", self._cooldown.until)
            await self.sleep(remaining)
            return True
        if self.pool.pick() is None:
            reason = "; ".join(e.words for e in self.pool.endpoints if not e.up)
            self._pause(f"no server answers, probing ({reason})", None)
            await self.pool.available()
            return True
        return False

    async def _wait_for_money(self, most_usd: float) -> None:
        if self._budget.hopeless(most_usd):
            self.stop(RequestFailure(FailureKind.QUOTA, self._budget.refusal(most_usd)))
            raise LaneStopped
        self._pause("waiting for answers in flight to know what is left of the budget", None)
        await self.sleep(0.05)

    async def pause_for_store(self) -> None:
        """Wait until the store takes answers again."""
        writer = self._writer
        if writer.trouble is not None:
            self._pause(f"the store can't be written to: {writer.trouble}", None)
        await writer.room()
        if writer.disk_full:
            self.stop(RequestFailure(FailureKind.PERMANENT, "the disk of the store is full"))

    def _pause(self, why: str, until: float | None) -> None:
        state = self._state
        if state.why != why:
            self._tell("paused", model=self._config.name, why=why)
        state.phase, state.why, state.paused_until = "paused", why, until

    # -- afterwards --------------------------------------------------------------------------------------------

    def _prove(self) -> None:
        """The first request has come home and its key is good: the others may follow."""
        if self._canary:
            self._canary = False
            self._concurrency.open()
            self._state.limit = self._concurrency.limit

    def _home(self, ticket: Ticket) -> None:
        ticket.endpoint.outstanding -= 1
        self._concurrency.leave()
        self._state.in_flight = self._concurrency.in_flight

    def answered(self, ticket: Ticket, reply: Reply, cost: float | None) -> None:
        """An answer came."""
        concurrency = self._concurrency
        if concurrency.limit < concurrency.maximum:
            concurrency.success()
            self._state.limit = concurrency.limit
        self._prove()
        self._home(ticket)
        self.pool.success(ticket.endpoint)
        self._limited_since = None
        self._cooldown.success()
        if reply.rate_window is not None:
            self._heed(reply, asyncio.get_running_loop().time())
        if self._plain:
            return
        self._budget.settle(ticket.most_usd, cost)
        if ticket.reservation is not None:
            used = None if reply.prompt_tokens is None else reply.prompt_tokens + (reply.completion_tokens or 0)
            self._throttle.settle(ticket.reservation, used)

    def _heed(self, reply: Reply, now: float) -> None:
        """Pause before the endpoint has to refuse, where its headers say that nothing is left.

        Its ``reset`` is the time until the allowance is full again, so one request's (or its tokens') worth is back
        after the same share of it.
        """
        window = reply.rate_window
        if window is None:
            return
        wait_s = 0.0
        if window.remaining_requests == 0 and window.reset_requests_s and window.limit_requests:
            wait_s = window.reset_requests_s / window.limit_requests
        if window.remaining_tokens is not None and window.reset_tokens_s and window.limit_tokens:
            needed = (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
            gone = max(1, window.limit_tokens - window.remaining_tokens)
            if window.remaining_tokens < needed:
                wait_s = max(wait_s, window.reset_tokens_s * (needed - window.remaining_tokens) / gone)
        if wait_s > 0:
            self._cooldown.begin(now, wait_s, "the endpoint says that its allowance is used up", float("-inf"))

    def abandon(self, ticket: Ticket) -> None:
        """The request was cancelled before an answer came; it may have been billed."""
        self._home(ticket)
        self._budget.release(ticket.most_usd, maybe_billed=True)

    async def failed(self, ticket: Ticket, failure: RequestFailure) -> bool:
        """A request failed; return whether its server had died."""
        if failure.kind not in FATAL:
            self._prove()
        self._home(ticket)
        self._budget.release(ticket.most_usd, maybe_billed=failure.maybe_billed)
        if failure.kind is FailureKind.RATE_LIMIT:
            self._cool_down(ticket, failure, "rate limit")
            return False
        if failure.retry_after_s is not None or failure.http_status in _OVERLOADED:
            self._cool_down(ticket, failure, "overload")
        return await self.pool.failed(ticket.endpoint, failure)

    def _cool_down(self, ticket: Ticket, failure: RequestFailure, word: str) -> None:
        """Pause everybody who asks this endpoint, and cut the concurrency, once a storm."""
        now = asyncio.get_running_loop().time()
        asked, most = failure.retry_after_s, self._config.endpoint.max_retry_after_s
        if asked is not None and asked > most:
            self.stop(
                RequestFailure(
                    failure.kind,
                    f"the endpoint asked to wait {asked:g} s, longer than max_retry_after_s = {most:g}: {failure}",
                )
            )
            return
        since = self._limited_since = now if self._limited_since is None else self._limited_since
        patience = max(self._config.endpoint.give_up_after_s, 2 * (asked or 0.0))
        if now - since > patience:
            self.stop(RequestFailure(failure.kind, f"nothing but {word} errors for {now - since:.0f} s: {failure}"))
            return
        if self._cooldown.begin(now, asked, f"{word}: {failure}", ticket.sent_at):
            self._concurrency.cut()
            self._state.limit = self._concurrency.limit
            self._tell(
                "cooldown",
                model=self._config.name,
                seconds=round(self._cooldown.remaining(now), 3),
                concurrency=self._concurrency.limit,
                why=str(failure),
            )
