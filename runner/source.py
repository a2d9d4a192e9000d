"""Pending sentences in bounded pages, read from the store while the run goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from hatevolution.domain import Item
from hatevolution.store.pending import pending_page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["Page", "Source"]


class Page:
    """Sentences that were handed out under one intent; settled when all of them are."""

    def __init__(self, intent: int | None, size: int) -> None:
        self.intent = intent
        self.left = size


class Source:
    """Gives a model's workers their next sentences; never holds more than two pages.

    Args:
        connection: Read-only, of this source alone.
        model: Whose pending sentences.
        datasets: Which sets, one after the other.
        limit: Only the first so many sentences of each set; None for all.
        page_size: Sentences read at a time.
        batch_size: Most sentences handed out at a time; one request's worth, of one data set.
        executor: Where the reading is done.
        writer: For intents, one a page; None where the lane records its own (one a request).
        now: The wall clock, as ISO 8601 text.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        model: str,
        datasets: Sequence[str],
        *,
        limit: int | None,
        page_size: int,
        batch_size: int,
        executor: Executor,
        writer: GroupCommitWriter | None,
        now: Callable[[], str],
    ) -> None:
        self._connection = connection
        self._model = model
        self._datasets = deque(datasets)
        self._limit = limit
        self._page_size = page_size
        self._batch_size = batch_size
        self._executor = executor
        self._writer = writer
        self._now = now
        self._after = -1
        self._ready: deque[tuple[list[Item], Page]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._exhausted = False

    def take(self) -> tuple[list[Item], Page] | None:
        """Return the next batch if one is at hand."""
        if self._ready:
            if len(self._ready) * self._batch_size < self._page_size:
                self._prefetch()
            return self._ready.popleft()
        return None

    async def next(self) -> tuple[list[Item], Page] | None:
        """Return the next batch; None when there are no more."""
        while (batch := self.take()) is None:
            if self._exhausted:
                return None
            self._prefetch()
            loading = self._loading
            if loading is not None:
                await asyncio.shield(loading)
        return batch

    def _prefetch(self) -> None:
        if self._loading is None and not self._exhausted:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        try:
            while self._datasets:
                dataset = self._datasets[0]
                rows = await asyncio.get_running_loop().run_in_executor(
                    self._executor,
                    pending_page,
                    self._connection,
                    self._model,
                    dataset,
                    self._after,
                    self._page_size,
                    self._limit,
                )
                if rows:
                    self._after = rows[-1][0]
                    await self._hand_out(dataset, [Item(dataset, sentence, text) for _, sentence, text in rows])
                    return
                self._datasets.popleft()
                self._after = -1
            self._exhausted = True
        finally:
            self._loading = None

    async def _hand_out(self, dataset: str, items: list[Item]) -> None:
        intent = None
        if self._writer is not None:
            intent = self._writer.intend(self._model, dataset, [item.sentence for item in items], self._now())
            await self._writer.committed()
        page = Page(intent, len(items))
        size = self._batch_size
        self._ready.extend((items[start : start + size], page) for start in range(0, len(items), size))

    def settled(self, page: Page, sentences: int) -> None:
        """Say that sentences of a page are recorded, or will not be asked in this run."""
        page.left -= sentences
        if page.left <= 0 and page.intent is not None and self._writer is not None:
            self._writer.settle(page.intent)
            page.intent = None

    async def close(self) -> None:
        """Settle what was never handed out, and let the connection go."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
        while self._ready:
            items, page = self._ready.popleft()
            self.settled(page, len(items))
        self._connection.close()
