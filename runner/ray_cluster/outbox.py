"""A worker's way to the driver: what its lanes say and record, in order, in batches."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from hatevolution.domain import Item
from hatevolution.runner.ray_cluster.messages import Ask, Event

if TYPE_CHECKING:
    from hatevolution.store.rows import AnswerRecord, FailureRecord

__all__ = ["Outbox"]

_COALESCE_S = 0.02
"""How long the first message of a batch waits for others, in seconds: an object of Ray's costs both sides one to two
milliseconds, whatever is in it."""

_ASKING_S = 0.002
"""The same for a batch in which a request asks for leave: it waits for the answer."""

_BATCH = 512
_BACKLOG = 64
"""Fewest messages that may wait before the lanes pause."""

_OWN = frozenset({"paused", "lane_stopped"})
"""Events that the driver tells by itself, once, instead of once for each worker."""


class Outbox:
    """Messages on their way to the driver. Stands in for a store's writer where a lane wants one."""

    trouble: str | None = None
    disk_full = False

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._emptied = asyncio.Event()
        self._backlog = _BACKLOG

    def allow(self, requests: int) -> None:
        """Let so many messages wait as belong to twice the requests that may be in flight: all of it dies with us."""
        # A request that needed leave makes two more messages than its answer.
        self._backlog = max(_BACKLOG, 2 * 3 * requests)

    def send(self, message: Any) -> None:
        """Add a message."""
        self._waiting.append(message)
        self._filled.set()
        if isinstance(message, Ask):
            self._urgent.set()

    async def take(self) -> list[Any]:
        """Wait for messages and return the oldest of them."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        if len(self._waiting) < _BATCH:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_COALESCE_S):
                    await self._urgent.wait()
                    await asyncio.sleep(_ASKING_S)
        self._urgent.clear()
        batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        self._emptied.set()
        return batch

    def tell(self, event: str, **fields: Any) -> None:
        """Listen to a lane."""
        if event not in _OWN:
            self.send(Event(event, fields))

    # -- as a lane's sink --------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether the driver is far behind (its disk, its network): the lanes pause."""
        return len(self._waiting) >= self._backlog

    async def room(self) -> None:
        """Wait until the driver has taken what is here."""
        while self.full:
            self._emptied.clear()
            await self._emptied.wait()

    def put(self, operation: AnswerRecord | FailureRecord) -> None:
        """Take a record; the driver knows the sentences, so their texts need not travel back."""
        items = [Item(item.dataset, item.sentence, "") for item in operation.items]
        self.send(operation._replace(items=items))

    def intend(self, model: str, dataset: str, sentences: list[str], at: str) -> int:
        """Do nothing: the driver has recorded the intent before it gave the grant."""
        return 0

    def settle(self, intent: int) -> None:
        """Do nothing: the driver settles an intent with its grant."""

    async def committed(self) -> None:
        """Do nothing; see :meth:`intend`."""
