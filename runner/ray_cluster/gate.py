"""One model's limits and money for all workers together, kept by the driver.

Workers ask for each request that is limited or costs something. So the rates are exact whatever becomes of a worker,
nothing has to be leased or to expire, and an intent is on the disk before its request is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.errors import FailureKind, RequestFailure
from hatevolution.runner.ray_cluster.messages import Grant

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.budget import Budget
    from hatevolution.runner.limits import Cooldown, Reservation, Throttle
    from hatevolution.runner.ray_cluster.messages import Ask, Failed, Returned, Spent
    from hatevolution.runner.ray_cluster.station import Station
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["Gate"]

_MONEY_S = 0.05
"""How often it is looked whether answers have freed what is left of the budget, in seconds."""


class _Asked(NamedTuple):
    station: Station
    ask: Ask


class _Held:
    """A grant in use."""

    def __init__(self, reservation: Reservation, most_usd: float, intent: int | None) -> None:
        self.reservation = reservation
        self.most_usd = most_usd
        self.intent = intent
        self.sent = False
        """Whether the worker has been told."""


class Gate:
    """Gives grants, first come, first served.

    Args:
        config: The model.
        throttle: Its rates.
        cooldown: The pause that all keep.
        budget: The run's.
        writer: For intents.
        now: The wall clock, as ISO 8601 text.
        refuse: Called with the reason when there will be no more grants.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        throttle: Throttle,
        cooldown: Cooldown,
        budget: Budget,
        writer: GroupCommitWriter,
        now: Callable[[], str],
        refuse: Callable[[RequestFailure], None],
    ) -> None:
        self._config = config
        self._throttle = throttle
        self.cooldown = cooldown
        self._budget = budget
        self._writer = writer
        self._now = now
        self._refuse = refuse
        self._waiting: deque[_Asked] = deque()
        self._held: dict[tuple[Station, int], _Held] = {}
        self._serving: asyncio.Task[None] | None = None
        self._committing: set[asyncio.Task[None]] = set()

    def ask(self, station: Station, ask: Ask) -> None:
        """A worker asks for leave to send a request."""
        self._waiting.append(_Asked(station, ask))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            remaining = self.cooldown.remaining(loop.time())
            if remaining > 0:
                await asyncio.sleep(remaining)
                continue
            asked = self._waiting[0]
            reservation = self._throttle.reserve(asked.ask.tokens, loop.time())
            if reservation.wait_s > 0:
                await asyncio.sleep(reservation.wait_s)
            # Who asked may be gone by now, and a pause may have begun.
            gone = not self._waiting or self._waiting[0] is not asked
            if gone or self.cooldown.remaining(loop.time()) > 0:
                self._throttle.cancel(reservation)
                continue
            if not self._budget.reserve(asked.ask.most_usd):
                self._throttle.cancel(reservation)
                if self._budget.hopeless(asked.ask.most_usd):
                    self._waiting.clear()
                    self._refuse(RequestFailure(FailureKind.QUOTA, self._budget.refusal(asked.ask.most_usd)))
                    return
                await asyncio.sleep(_MONEY_S)
                continue
            self._waiting.popleft()
            self._give(asked, reservation)

    def _give(self, asked: _Asked, reservation: Reservation) -> None:
        station, ask = asked
        intent = None
        if self._config.price is not None:
            sentences = [sentence for _, sentence in ask.keys]
            intent = self._writer.intend(self._config.name, ask.keys[0][0], sentences, self._now())
        held = self._held[station, ask.number] = _Held(reservation, ask.most_usd, intent)
        if intent is None:
            self._send(station, ask, held)
            return
        # Others need not wait for this commit; theirs will be the same one, or the next.
        task = asyncio.get_running_loop().create_task(self._send_when_safe(station, ask, held))
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)

    async def _send_when_safe(self, station: Station, ask: Ask, held: _Held) -> None:
        await self._writer.committed()
        if self._held.get((station, ask.number)) is held:
            self._send(station, ask, held)

    @staticmethod
    def _send(station: Station, ask: Ask, held: _Held) -> None:
        held.sent = True
        station.worker.tell(Grant(ask.model, ask.number))

    # -- afterwards --------------------------------------------------------------------------------------------------

    def _over(self, station: Station, number: int) -> _Held | None:
        held = self._held.pop((station, number), None)
        if held is not None and held.intent is not None:
            self._writer.settle(held.intent)
        return held

    def spent(self, station: Station, message: Spent) -> None:
        """A granted request was answered."""
        held = self._over(station, message.number)
        if held is not None:
            self._budget.settle(held.most_usd, message.cost_usd)
            self._throttle.settle(held.reservation, message.tokens)

    def failed(self, station: Station, message: Failed) -> None:
        """A granted request failed."""
        held = self._over(station, message.number)
        if held is not None:
            self._budget.release(held.most_usd, maybe_billed=message.maybe_billed)

    def returned(self, station: Station, message: Returned) -> None:
        """A grant was not used."""
        held = self._over(station, message.number)
        if held is not None:
            self._budget.release(held.most_usd, maybe_billed=False)
            self._throttle.cancel(held.reservation)

    def lost(self, station: Station) -> None:
        """A worker died: what it was allowed to send may have been sent and billed, and its intents stay."""
        self._waiting = deque(asked for asked in self._waiting if asked.station is not station)
        self._take_back(station)
        for key in [key for key in self._held if key[0] is station]:
            self._budget.release(self._held.pop(key).most_usd, maybe_billed=True)

    def _take_back(self, station: Station | None = None) -> None:
        """Undo the grants (of one worker, or of all) that no worker has been told of yet."""
        for key, held in list(self._held.items()):
            if not held.sent and station in (None, key[0]):
                self._over(*key)
                self._budget.release(held.most_usd, maybe_billed=False)
                self._throttle.cancel(held.reservation)

    def stop(self) -> None:
        """Give no more grants."""
        self._waiting.clear()
        self._take_back()

    async def close(self) -> None:
        """Give no more grants, and end what waits."""
        self.stop()
        tasks = [*self._committing, *([] if self._serving is None else [self._serving])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
