"""What a run would send, cost and take, without sending or writing anything."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hatevolution.adapters import registry
from hatevolution.adapters.batch.base import PROVIDER
from hatevolution.domain import Item
from hatevolution.errors import ConfigError
from hatevolution.runner.budget import likely_cost, most_cost
from hatevolution.runner.preflight import retirement
from hatevolution.store.model_names import standing
from hatevolution.store.reader import connect
from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from hatevolution.adapters.base import Adapter
    from hatevolution.runner.plan import PlannedDataset, PlannedModel, RunPlan

__all__ = ["Forecast", "forecast", "together"]

_LIKELY_COMPLETION = 4
"""Tokens of a one-word answer, for likely costs."""


class Forecast(NamedTuple):
    """One model on one data set, before it is asked."""

    model: str
    dataset: str
    sentences: int
    pending: int
    """Without an answer, and in no open batch."""
    in_batches: int
    requests: int | None = None
    """None, like all that follows from it, where the model can't be asked (then :attr:`note` says why)."""
    prompt_tokens: int | None = None
    """Estimated."""
    completion_tokens_most: int | None = None
    usd_likely: float | None = None
    usd_most: float | None = None
    usd_batch_likely: float | None = None
    """In batches (`hatevolution batch submit`); None where the model has no batch interface."""
    usd_batch_most: float | None = None
    least_s: float | None = None
    """Time that the configured rate limits impose, in seconds; None where there are none."""
    note: str = ""


def forecast(plan: RunPlan, limit: int | None, environ: Mapping[str, str] = os.environ) -> list[Forecast]:
    """Return what each model would be asked about each data set.

    Args:
        plan: The resolved experiment.
        limit: Only the first so many sentences of each set; None for all.
        environ: Where keys are looked up; missing ones do not matter here.

    Raises:
        StoreError: The run would be refused, since the store holds answers of another specification of a model.
    """
    connection = connect(plan.store) if plan.store.exists() else None
    try:
        if connection is not None:
            for model in plan.models:
                standing(connection, plan.store, model.record)
        return [_one(model, dataset, limit, connection, environ) for model in plan.models for dataset in plan.datasets]
    finally:
        if connection is not None:
            connection.close()


def together(plan: RunPlan, lines: Sequence[Forecast]) -> list[Forecast]:
    """Return what each model would be asked about all its data sets; :attr:`Forecast.dataset` is empty.

    Its time is at most the sum over its sets: where requests bound one set and tokens another, each leaves the other
    room.
    """
    found = []
    for model in plan.models:
        own = [line for line in lines if line.model == model.config.name]
        requests = _sum(line.requests for line in own)
        prompt = _sum(line.prompt_tokens for line in own)
        completion = _sum(line.completion_tokens_most for line in own)
        found.append(
            Forecast(
                model=model.config.name,
                dataset="",
                sentences=sum(line.sentences for line in own),
                pending=sum(line.pending for line in own),
                in_batches=sum(line.in_batches for line in own),
                requests=requests,
                prompt_tokens=prompt,
                completion_tokens_most=completion,
                usd_likely=_sum(line.usd_likely for line in own),
                usd_most=_sum(line.usd_most for line in own),
                usd_batch_likely=_sum(line.usd_batch_likely for line in own),
                usd_batch_most=_sum(line.usd_batch_most for line in own),
                least_s=None if requests is None else _least_s(model, requests, (prompt or 0) + (completion or 0)),
                note=own[0].note if own else "",
            )
        )
    return found


Number = TypeVar("Number", int, float)


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Return a sum; None where one of its parts is not known."""
    total = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total


def _answered(connection: sqlite3.Connection | None, model: str, dataset: str) -> set[str]:
    if connection is None:
        return set()
    rows = connection.execute("SELECT sentence FROM predictions WHERE model = ? AND dataset = ?", [model, dataset])
    return {sentence for (sentence,) in rows}


def _batched(connection: sqlite3.Connection | None, model: str, dataset: str) -> set[str]:
    if connection is None or not has_table(connection, "main", "batch_lines"):
        return set()
    rows = connection.execute(
        "SELECT sentence FROM batch_lines WHERE model = ? AND dataset = ? AND outcome IS NULL", [model, dataset]
    )
    return {sentence for (sentence,) in rows}


def _one(
    model: PlannedModel,
    dataset: PlannedDataset,
    limit: int | None,
    connection: sqlite3.Connection | None,
    environ: Mapping[str, str],
) -> Forecast:
    config, name = model.config, dataset.record.name
    adapter, note = _estimator(model, environ)
    answered, batched = _answered(connection, config.name, name), _batched(connection, config.name, name)
    total = pending = waiting = prompt = completion = 0
    likely = most = 0.0
    for sentence in islice(dataset.located.sentences(), limit):
        total += 1
        if sentence.id in answered:
            continue
        if sentence.id in batched:
            waiting += 1
            continue
        pending += 1
        if adapter is None:
            continue
        estimate = adapter.estimate(Item(name, sentence.id, sentence.text))
        prompt += estimate.prompt_likely
        completion += estimate.completion_most
        likely += likely_cost(config.price, estimate, min(_LIKELY_COMPLETION, estimate.completion_most))
        most += most_cost(config.price, estimate)
    known = Forecast(config.name, name, total, pending, waiting, note=note)
    if adapter is None:
        return known
    requests = math.ceil(pending / adapter.batch_size)
    share = 1.0 - (config.price.batch_discount if config.price is not None else 0.0)  # on each part of the price
    batches = config.adapter in PROVIDER
    return known._replace(
        requests=requests,
        prompt_tokens=prompt,
        completion_tokens_most=completion,
        usd_likely=likely,
        usd_most=most,
        usd_batch_likely=share * likely if batches else None,
        usd_batch_most=share * most if batches else None,
        least_s=_least_s(model, requests, prompt + completion),
    )


def _estimator(model: PlannedModel, environ: Mapping[str, str]) -> tuple[Adapter | None, str]:
    """Return what estimates a model's tokens, and a note; None where the model can't be asked, and why."""
    gone = retirement(model.config, datetime.now(UTC).date())
    if gone is not None:
        return None, gone
    try:
        return registry.create(model.config, model.prompt, environ, dry=True), ""
    except ConfigError as error:
        return None, str(error)


def _least_s(model: PlannedModel, requests: int, tokens: int) -> float | None:
    endpoint = model.config.endpoint
    bounds = []
    if endpoint.requests_per_minute:
        bounds.append(60.0 * requests / endpoint.requests_per_minute)
    if endpoint.tokens_per_minute:
        bounds.append(60.0 * tokens / endpoint.tokens_per_minute)
    return max(bounds) if bounds else None
