"""Puts a run, its models and its data sets into the store, before anything is asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hatevolution.runner.provenance import git_revision, utc_now, versions
from hatevolution.store.opened import RunRecord, process_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hatevolution.domain import Sentence
    from hatevolution.runner.events import Listener
    from hatevolution.runner.plan import RunPlan
    from hatevolution.store.opened import WritableStore

__all__ = ["register"]

_TELL_S, _TELL_ROWS = 2.0, 5_000
"""While a large set is read: how often that is said, in seconds, and after how many rows the clock is asked."""


def register(
    store: WritableStore, plan: RunPlan, run: str, command: Sequence[str], tell: Listener | None = None
) -> list[str]:
    """Put run, models and data sets into the store, or nothing at all; tell of long reading.

    Returns:
        A line for each model whose name stands for another specification from now on.
    """
    for model in plan.models:
        store.check_model(model.record)
    with store.transaction():
        store.add_run(
            RunRecord(run, utc_now(), process_name(), list(command), plan.configuration(), versions(), git_revision())
        )
        changed = {model.record.name: store.put_model(model.record) for model in plan.models}
        for dataset in plan.datasets:
            if not store.has_dataset(dataset.record):
                sentences = dataset.located.sentences()
                store.put_dataset(dataset.record, _told(sentences, dataset.record.name, tell) if tell else sentences)
    return [
        f"{name!r} stands for another specification from now on ({fields}); nothing was asked under the one before"
        for name, fields in changed.items()
        if fields
    ]


def _told(sentences: Iterable[Sentence], dataset: str, tell: Listener) -> Iterator[Sentence]:
    """Pass sentences on, and say every few seconds how many there were."""
    due = time.monotonic() + _TELL_S
    for number, sentence in enumerate(sentences):
        if not number % _TELL_ROWS and time.monotonic() >= due:
            due = time.monotonic() + _TELL_S
            tell("reading", dataset=dataset, sentences=f"{number:,}")
        yield sentence
