"""``batch status``: how the batches of a store are, after asking their providers where that is possible."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.runner.batch.pace import Pace
from hatevolution.runner.batch.refresh import Providers, refreshed
from hatevolution.runner.preflight import Problem
from hatevolution.store.batches import BatchRow, batch_datasets, batches
from hatevolution.store.lock import holder
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Seen", "look"]


class Seen(NamedTuple):
    """The batches of a store."""

    rows: list[tuple[BatchRow, dict[str, int]]]
    """Each with its data sets, and how many sentences of each are in it."""
    problems: list[Problem]
    writer: bool
    """Whether another process writes to the store, so that the providers were not asked."""


def look(path: Path, *, environ: Mapping[str, str] = os.environ, pace: Pace | None = None) -> Seen:
    """Ask the providers, write down what they say, and return all batches.

    Raises:
        StoreError: There is no such store.
    """
    problems: list[Problem] = []
    with closing(connect(path)) as connection:
        any_open = has_table(connection, "main", "batches") and any(
            not row.offline for row in batches(connection, open_only=True)
        )
    writer = any_open and holder(path) is not None
    if any_open and not writer:
        pace = pace or Pace(attempts=2)
        with WritableStore(path, "batch status") as store, Providers(environ) as providers:
            problems = [
                Problem(asked.row.model, f"{asked.row.name}: {asked.problem}")
                for asked in refreshed(store, providers, pace)
                if asked.problem is not None
            ]
    with closing(connect(path)) as connection:
        if not has_table(connection, "main", "batches"):
            return Seen([], [], writer)
        rows = [(row, batch_datasets(connection, row.batch)) for row in batches(connection)]
    return Seen(rows, problems, writer)
