"""The requests of a model that go into batches: pending sentences, in pages, with the bodies that it would be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.domain import Item
from hatevolution.runner.batch.price import batch_price
from hatevolution.runner.budget import most_cost
from hatevolution.store.batches import invalid_sentences
from hatevolution.store.pending import pending_page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from hatevolution.adapters.batch.base import BatchAdapter
    from hatevolution.configs.schema import ModelConfig

__all__ = ["Purse", "Requests"]

_PAGE = 1_000


class Purse:
    """What may be spent on batches in one start: the most that each request may cost is taken out of it.

    Args:
        limit_usd: In US dollars; None for no limit.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self.taken_usd = 0.0

    def take(self, most: float) -> bool:
        """Set aside what a request may cost; False where it does not fit."""
        if self.limit_usd is not None and self.taken_usd + most > self.limit_usd * (1 + 1e-12):
            return False
        self.taken_usd += most
        return True


class Requests:
    """The pending requests of one model; iterating reads them from the store as they are needed.

    Args:
        connection: To read with.
        config: The model.
        adapter: What writes the bodies.
        datasets: Which sets.
        limit: Only the first so many sentences of each set; None for all.
        purse: What may be spent.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        config: ModelConfig,
        adapter: BatchAdapter,
        datasets: Sequence[str],
        limit: int | None,
        purse: Purse,
    ) -> None:
        self._connection = connection
        self._config = config
        self._adapter = adapter
        self._datasets = datasets
        self._limit = limit
        self._purse = purse
        self._price = batch_price(config.price)
        self.unfit = 0
        """Sentences that can't stand in a batch file."""
        self.too_dear = False
        """Whether it ended since the purse was empty."""

    def __iter__(self) -> Iterator[tuple[Item, str]]:
        turned_down = invalid_sentences(self._connection, self._config.name)
        for item in self._pending():
            if (item.dataset, item.sentence) in turned_down or not _is_unicode(item.text):
                # One bad line would take the whole file down with it.
                self.unfit += 1
                continue
            if not self._purse.take(most_cost(self._price, self._adapter.estimate(item))):
                self.too_dear = True
                return
            yield item, self._adapter.write([item])

    def _pending(self) -> Iterator[Item]:
        for dataset in self._datasets:
            after = -1
            while page := pending_page(self._connection, self._config.name, dataset, after, _PAGE, self._limit):
                after = page[-1].position
                for row in page:
                    yield Item(dataset, row.sentence, row.text)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
