"""What a store holds: done, pending, failed, per model and data set; what was spent, and what may have been."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hatevolution.store.tables import has_table
from hatevolution.store.tally import Tally, tallies
from hatevolution.store.text import decode

if TYPE_CHECKING:
    import sqlite3

    from hatevolution.store.tally import Tallies

__all__ = [
    "Cell",
    "FailureSummary",
    "ModelSpend",
    "OpenBatches",
    "RunSummary",
    "Unrecorded",
    "cells",
    "failures",
    "open_batches",
    "runs",
    "spend",
    "unrecorded",
]


class Cell(NamedTuple):
    """One model on one data set."""

    model: str
    dataset: str
    total: int
    answered: int
    refused: int
    rejected: int
    pending: int
    failed_attempts: int


class ModelSpend(NamedTuple):
    """What a model's answers cost and used."""

    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


class OpenBatches(NamedTuple):
    """What of a model is in batches that are not collected yet."""

    model: str
    batches: int
    sentences: int


class RunSummary(NamedTuple):
    """One run, as the store remembers it."""

    run: str
    started_at: str
    ended_at: str | None
    outcome: str | None
    note: str | None


class FailureSummary(NamedTuple):
    """Failed attempts of one kind."""

    model: str
    dataset: str
    kind: str
    http_status: int | None
    attempts: int
    sentences: int
    """Different sentences among them."""
    pending: int
    """Of those, the ones that still have no prediction."""
    last_at: str
    example: str
    """What was said at the last of them."""


class Unrecorded(NamedTuple):
    """A sentence that may have been sent (and billed) without its answer being recorded."""

    run: str
    model: str
    dataset: str
    sentence: str
    at: str
    priced: bool
    """Whether the model costs money."""
    answered: bool
    """Whether a later run has recorded an answer of it."""


_FAILURES = """
SELECT f.model, f.dataset, f.kind, f.http_status, count(*), count(DISTINCT f.sentence),
       count(DISTINCT f.sentence) FILTER (WHERE NOT EXISTS (
           SELECT 1 FROM predictions AS p
           WHERE p.model = f.model AND p.dataset = f.dataset AND p.sentence = f.sentence
       )), max(f.failed_at), f.message
FROM failures AS f
GROUP BY f.model, f.dataset, f.kind, f.http_status
ORDER BY f.model, f.dataset, count(*) DESC
"""

# Which models were asked about which sets, beside those that have answers: by failures, and by what runs were told.
_FAILED = "SELECT model, dataset, count(*) FROM failures GROUP BY model, dataset"
_TOLD = """
SELECT DISTINCT json_extract(m.value, '$.name'), json_extract(d.value, '$.name')
FROM runs, json_each(runs.configuration, '$.models') AS m, json_each(runs.configuration, '$.datasets') AS d
"""

_UNRECORDED = """
SELECT i.run, i.model, i.dataset, s.value, i.at, coalesce(json_extract(m.configuration, '$.price'), 0) <> 0,
       EXISTS (
           SELECT 1 FROM predictions AS p WHERE p.model = i.model AND p.dataset = i.dataset AND p.sentence = s.value
       )
FROM intents AS i
JOIN runs ON runs.run = i.run
LEFT JOIN models AS m ON m.model = i.model, json_each(i.sentences) AS s
WHERE i.run IS NOT :live
  AND NOT EXISTS (
    SELECT 1 FROM predictions AS p
    WHERE p.model = i.model AND p.dataset = i.dataset AND p.sentence = s.value AND p.run = i.run
  )
ORDER BY i.intent, s.key
"""


def cells(connection: sqlite3.Connection, counted: Tallies | None = None) -> list[Cell]:
    """Return one cell for each model and data set that a run was to ask, in the order of first appearance.

    Args:
        connection: The store.
        counted: What :func:`~hatevolution.store.tally.tallies` found, where it is needed for more than this.
    """
    counted = tallies(connection) if counted is None else counted
    failed = {(model, dataset): attempts for model, dataset, attempts in connection.execute(_FAILED)}
    asked = counted.keys() | failed.keys() | set(connection.execute(_TOLD))
    models = connection.execute("SELECT model FROM models ORDER BY position").fetchall()
    datasets = connection.execute("SELECT dataset, sentences FROM datasets ORDER BY position").fetchall()
    found = []
    for (model,) in models:
        for dataset, total in datasets:
            if (model, dataset) in asked:
                tally = counted.get((model, dataset), Tally())
                numbers = (tally.answered, tally.refused, tally.rejected, total - tally.rows)
                found.append(Cell(model, dataset, total, *numbers, failed.get((model, dataset), 0)))
    return found


def spend(connection: sqlite3.Connection, counted: Tallies | None = None) -> list[ModelSpend]:
    """Return what each model's answers cost, in US dollars, and the tokens they used.

    A response counts with the first of the sentences that it answers; ``counted`` as for :func:`cells`.
    """
    counted = tallies(connection) if counted is None else counted
    found: dict[str, ModelSpend] = {}
    for (model, _), tally in sorted(counted.items()):
        if tally.requests:
            known = found.get(model, ModelSpend(model, 0, 0, 0, 0.0))
            found[model] = ModelSpend(
                model,
                known.requests + tally.requests,
                known.prompt_tokens + tally.prompt_tokens,
                known.completion_tokens + tally.completion_tokens,
                known.cost_usd + tally.cost_usd,
            )
    return list(found.values())


def failures(connection: sqlite3.Connection) -> list[FailureSummary]:
    """Return the failed attempts by model, data set, kind and HTTP status, each with what was said last."""
    # SQLite takes the bare column `message` from the row that max() picks.
    rows = connection.execute(_FAILURES).fetchall()
    return [FailureSummary(*row)._replace(example=decode(row[-1])) for row in rows]


def open_batches(connection: sqlite3.Connection) -> list[OpenBatches]:
    """Return the models that have open batches."""
    if not has_table(connection, "main", "batches"):
        return []
    rows = connection.execute(
        "SELECT model, count(*), sum(requests) FROM batches WHERE closed_at IS NULL GROUP BY model ORDER BY min(batch)"
    )
    return [OpenBatches(*row) for row in rows]


def runs(connection: sqlite3.Connection) -> list[RunSummary]:
    """Return all runs, oldest first. One without an end is running now, or died."""
    return [
        RunSummary(*row)
        for row in connection.execute("SELECT run, started_at, ended_at, outcome, note FROM runs ORDER BY rowid")
    ]


def unrecorded(connection: sqlite3.Connection, live_run: str | None = None) -> list[Unrecorded]:
    """Return the sentences that may have been sent without their answer being recorded, because a run died.

    For models with a price these are the requests that were in flight; for free ones an upper bound (the page of
    sentences that was being sent). Requests of ``live_run`` are simply in flight and are left out.
    """
    rows = connection.execute(_UNRECORDED, {"live": live_run})
    return [Unrecorded(*row)._replace(priced=bool(row[-2]), answered=bool(row[-1])) for row in rows]
