"""One lane at one worker, as the driver sees it: which sentences are there, and what it said last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hatevolution.domain import Item
    from hatevolution.runner.ray_cluster.hand import Hand
    from hatevolution.runner.ray_cluster.messages import Key, Seen
    from hatevolution.runner.source import Page

__all__ = ["Out", "Station"]


class Out(NamedTuple):
    """A sentence that is out at a worker."""

    item: Item
    page: Page


class Station:
    """One model at one worker."""

    def __init__(self, worker: Hand) -> None:
        self.worker = worker
        self.out: dict[Key, Out] = {}
        self.seen: Seen | None = None
        self.ended = False
