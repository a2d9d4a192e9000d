"""A lane as on one machine, fed with chunks by the driver and asking it before whatever is limited or costs money."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from hatevolution.runner.admission import Admission, LaneStopped, Ticket
from hatevolution.runner.budget import Budget, most_cost
from hatevolution.runner.lane import ModelLane
from hatevolution.runner.limits import Cooldown
from hatevolution.runner.ray_cluster.messages import Ask, Cool, Failed, GivenUp, Returned, Spent, Unasked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hatevolution.domain import Item, Reply
    from hatevolution.errors import RequestFailure
    from hatevolution.runner.ray_cluster.messages import Key
    from hatevolution.runner.ray_cluster.outbox import Outbox

__all__ = ["ChunkSource", "Grants", "SharedAdmission", "SharedCooldown", "WorkerLane", "keys"]


def keys(items: Sequence[Item]) -> list[Key]:
    """Return what names these sentences."""
    return [(item.dataset, item.sentence) for item in items]


class ChunkSource:
    """Gives a lane what the driver sends; never holds more than the driver allows.

    Args:
        model: Whose.
        batch_size: Most sentences of a request.
        outbox: Is told what was not asked.
        stopping: Whether the lane has been stopped.
    """

    def __init__(self, model: str, batch_size: int, outbox: Outbox, stopping: Callable[[], bool]) -> None:
        self._model = model
        self._batch_size = batch_size
        self._outbox = outbox
        self._stopping = stopping
        self._ready: deque[list[Item]] = deque()
        self._filled = asyncio.Event()
        self._finished = False
        self._closed = False

    def feed(self, items: Sequence[Item]) -> None:
        """Take a chunk."""
        if self._closed:
            self._outbox.send(Unasked(self._model, keys(items)))
            return
        size = self._batch_size
        self._ready.extend(list(items[start : start + size]) for start in range(0, len(items), size))
        self._filled.set()

    def finish(self) -> None:
        """No more will come."""
        self._finished = True
        self._filled.set()

    def take(self) -> tuple[list[Item], list[Item]] | None:
        """Return the next batch if there is one."""
        if not self._ready:
            return None
        items = self._ready.popleft()
        return items, items

    async def next(self) -> tuple[list[Item], list[Item]] | None:
        """Return the next batch; None when there are no more."""
        while not self._ready:
            if self._finished:
                return None
            self._filled.clear()
            await self._filled.wait()
        return self.take()

    def settled(self, page: list[Item], sentences: int) -> None:
        """A batch is done with; after a stop, what of it was not asked can go elsewhere."""
        if self._stopping():
            self._outbox.send(Unasked(self._model, keys(page)))

    async def close(self) -> None:
        """Give back what was never handed out."""
        self._closed = True
        while self._ready:
            self._outbox.send(Unasked(self._model, keys(self._ready.popleft())))


class Grants:
    """Asks the driver for leave to send."""

    def __init__(self, model: str, outbox: Outbox) -> None:
        self._model = model
        self._outbox = outbox
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._released = False

    async def ask(self, items: Sequence[Item], tokens: int, most_usd: float) -> int | None:
        """Wait for leave and return its number; None where the lane is stopped first."""
        if self._released:
            return None
        number = next(self._numbers)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._outbox.send(Ask(self._model, number, keys(items), tokens, most_usd))
        try:
            return number if await answer else None
        finally:
            self._asked.pop(number, None)

    def granted(self, number: int) -> None:
        """The driver gave leave; where nobody waits for it any more it goes back."""
        answer = self._asked.get(number)
        if answer is None or answer.done():
            self.give_back(number)
        else:
            answer.set_result(True)

    def give_back(self, number: int) -> None:
        """It was not used."""
        self._outbox.send(Returned(self._model, number))

    def release(self) -> None:
        """Let everybody go who waits."""
        self._released = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(False)


class SharedCooldown(Cooldown):
    """A pause that all workers keep: what begins here is told, what begins elsewhere is heard."""

    def __init__(self, model: str, outbox: Outbox) -> None:
        super().__init__()
        self._model = model
        self._outbox = outbox

    def begin(self, now: float, asked_s: float | None, reason: str, sent_at: float) -> bool:
        """See :meth:`Cooldown.begin`."""
        before = self.until
        storm = super().begin(now, asked_s, reason, sent_at)
        if self.until > before:
            self._outbox.send(Cool(self._model, self.until - now, reason, storm))
        return storm

    def hear(self, now: float, pause: Cool) -> bool:
        """Keep a pause that began elsewhere; return whether it is a new storm here too."""
        return super().begin(now, pause.seconds, pause.reason, now if pause.storm else float("-inf"))


class SharedAdmission(Admission):
    """The gate of a lane whose limits and money the driver keeps.

    Args:
        grants: Where to ask for them; None where the model is free and unlimited.
        on_stop: Called when the lane is stopped.
    """

    def __init__(self, *args: Any, grants: Grants | None, outbox: Outbox, on_stop: Callable[[], None], **more: Any):
        super().__init__(*args, budget=Budget(None), **more)
        self._grants = grants
        self._outbox = outbox
        self._on_stop = on_stop
        self._held: dict[int, int] = {}
        """Identity of a ticket in use -> number of its grant."""
        if grants is not None:
            self._plain = False

    def stop(self, reason: RequestFailure | None = None) -> None:
        """See :meth:`Admission.stop`."""
        super().stop(reason)
        if self._grants is not None:
            self._grants.release()
        self._on_stop()

    def hear(self, pause: Cool, cooldown: SharedCooldown) -> None:
        """Keep a pause that another worker met."""
        if cooldown.hear(asyncio.get_running_loop().time(), pause):
            self._concurrency.cut()
            self._state.limit = self._concurrency.limit

    async def admit(self, items: Sequence[Item]) -> Ticket:
        """See :meth:`Admission.admit`."""
        if self._grants is None:
            return await super().admit(items)
        estimate, loop = self._estimate(items), asyncio.get_running_loop()
        tokens = estimate.prompt_likely + estimate.completion_most
        most_usd = most_cost(self._config.price, estimate)
        while not self.stopping:
            if await self._held_back(loop):
                continue
            # The place is taken while the driver is asked: many may ask at a time, and no more than may be sent.
            self._concurrency.in_flight += 1
            try:
                number = await self._grants.ask(items, tokens, most_usd)
            finally:
                self._concurrency.leave()
            if number is None:
                break
            endpoint, now = self.pool.pick(), loop.time()
            if endpoint is not None and now >= self._cooldown.until and not self.stopping:
                ticket = self._issue(endpoint, now, None, most_usd)
                self._held[id(ticket)] = number
                return ticket
            self._grants.give_back(number)
        raise LaneStopped

    def try_admit(self, items: Sequence[Item]) -> Ticket | None:
        """See :meth:`Admission.try_admit`."""
        return super().try_admit(items) if self._grants is None else None

    def answered(self, ticket: Ticket, reply: Reply, cost: float | None) -> None:
        """See :meth:`Admission.answered`."""
        super().answered(ticket, reply, cost)
        number = self._held.pop(id(ticket), None)
        if number is not None:
            used = None if reply.prompt_tokens is None else reply.prompt_tokens + (reply.completion_tokens or 0)
            self._outbox.send(Spent(self._config.name, number, used, cost))

    def abandon(self, ticket: Ticket) -> None:
        """See :meth:`Admission.abandon`."""
        super().abandon(ticket)
        self._failed(ticket, maybe_billed=True)

    async def failed(self, ticket: Ticket, failure: RequestFailure) -> bool:
        """See :meth:`Admission.failed`."""
        self._failed(ticket, maybe_billed=failure.maybe_billed)
        return await super().failed(ticket, failure)

    def _failed(self, ticket: Ticket, *, maybe_billed: bool) -> None:
        number = self._held.pop(id(ticket), None)
        if number is not None:
            self._outbox.send(Failed(self._config.name, number, maybe_billed))


class WorkerLane(ModelLane):
    """A lane that tells the driver which sentences it gave up."""

    def __init__(self, *args: Any, outbox: Outbox, **more: Any) -> None:
        super().__init__(*args, writer=outbox, **more)
        self._outbox = outbox

    def _leave(self, items: list[Item], why: str) -> None:
        super()._leave(items, why)
        self._outbox.send(GivenUp(self._config.name, keys(items), why))
