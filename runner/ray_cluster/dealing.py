"""Which sentences are still to be handed out: new ones from the store, and those that came back."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from hatevolution.errors import FailureKind
from hatevolution.runner.ray_cluster.station import Out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.events import LaneState
    from hatevolution.runner.ray_cluster.messages import Key
    from hatevolution.runner.ray_cluster.station import Station
    from hatevolution.runner.source import Source

__all__ = ["Dealer", "chunk_of"]

_DEATHS = 5
"""A sentence that was out at so many workers when they died is taken to be their cause, and stays pending."""


class Dealer:
    """Deals sentences out in chunks and takes them back.

    Args:
        source: Pending sentences; a batch is one chunk.
        chunk: Sentences of a chunk.
        state: Where what is given up is counted.
    """

    def __init__(self, source: Source, chunk: int, state: LaneState) -> None:
        self._source = source
        self.chunk = chunk
        self._state = state
        self._again: deque[Out] = deque()
        """What came back unasked, or was out at workers that died."""
        self._deaths: Counter[Key] = Counter()
        self._dry = False

    @property
    def empty(self) -> bool:
        """Whether nothing is left to hand out, as far as is known."""
        return self._dry and not self._again

    async def deal(self) -> list[Out]:
        """Return the next chunk; empty where there is none."""
        if self._again:
            dataset = self._again[0].item.dataset
            outs: list[Out] = []
            while self._again and len(outs) < self.chunk and self._again[0].item.dataset == dataset:
                outs.append(self._again.popleft())
            return outs
        if self._dry:
            return []
        taken = self._source.take() or await self._source.next()
        if taken is None:
            self._dry = True
            return []
        items, page = taken
        return [Out(item, page) for item in items]

    def back(self, outs: Iterable[Out]) -> None:
        """Take sentences back that were not asked."""
        self._again.extend(outs)

    def survived(self, station: Station, why: str) -> None:
        """Take back what was out at a worker that died; who was there at too many deaths is given up."""
        for key, out in station.out.items():
            self._deaths[key] += 1
            if self._deaths[key] < _DEATHS:
                self._again.append(out)
            else:
                self.give_up(out, f"{FailureKind.TRANSIENT}: {_DEATHS} workers died while it was out ({why})")
        station.out.clear()

    def give_up(self, out: Out, why: str) -> None:
        """A sentence stays pending in this run."""
        self.settle(out)
        self._state.give_up(1, why)

    def settle(self, out: Out) -> None:
        """A sentence is recorded, or will not be asked in this run."""
        self._source.settled(out.page, 1)

    async def close(self) -> None:
        """Settle what was not handed out."""
        while self._again:
            self.settle(self._again.popleft())
        await self._source.close()


def chunk_of(config: ModelConfig, batch_size: int, total: int, workers: int) -> tuple[int, int]:
    """Return how many sentences make a chunk, and how many a worker can have in flight.

    A chunk is as much as a worker asks about at a time, within bounds, and small enough that the end of a small job is
    shared by all.
    """
    window = config.endpoint.max_concurrency * batch_size
    share = max(1, total // (4 * max(1, workers)))
    chunk = max(batch_size, min(1_024, max(16, window), share))
    return chunk - chunk % batch_size, window
