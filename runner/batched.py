"""Sentences that are in an open batch: a run leaves them to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.store.batches import in_open_batches

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

__all__ = ["batched", "take_out_batched"]


def batched(connection: sqlite3.Connection, cells: Iterable[tuple[str, str]], limit: int | None) -> int:
    """Return how many sentences without an answer of some (model, data set) are in open batches."""
    return sum(in_open_batches(connection, model, dataset, limit) for model, dataset in cells)


def take_out_batched(connection: sqlite3.Connection, pending: dict[tuple[str, str], int], limit: int | None) -> int:
    """Take sentences that are in open batches out of the pending ones, and return how many those are."""
    taken = {cell: in_open_batches(connection, *cell, limit) for cell, count in pending.items() if count}
    for cell, count in taken.items():
        pending[cell] -= count
    return sum(taken.values())
