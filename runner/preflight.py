"""Before the first request: which models can be asked at all, and why not the others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters import registry
from hatevolution.errors import RequestFailure
from hatevolution.runner.assembly import Job

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.plan import RunPlan

__all__ = ["Problem", "check_jobs", "make_jobs", "retirement"]


class Problem(NamedTuple):
    """Why a model was not, or not wholly, asked."""

    model: str
    why: str
    """One sentence."""


def retirement(config: ModelConfig, today: dt.date) -> str | None:
    """Return the sentence that says that a model is no more; None where it still answers."""
    retired = config.retired
    if retired is None or today < retired.date:
        return None
    return (
        f"The model {config.name} ({config.model}) was shut down by its provider on {retired.date.isoformat()} and "
        f"can't be asked any more; its successor is {retired.successor}."
    )


def make_jobs(
    plan: RunPlan, pending: Mapping[tuple[str, str], int], environ: Mapping[str, str]
) -> tuple[list[Job], list[Problem]]:
    """Return a job for each model that has something pending and can be asked, and the problems of the others.

    Raises:
        ConfigError: A key or a package is missing, or a configuration does not suit its adapter: that is put right
            before a night begins, not after it.
    """
    jobs: list[Job] = []
    problems: list[Problem] = []
    today = datetime.now(UTC).date()
    for model in plan.models:
        name = model.config.name
        mine = {dataset: count for (whose, dataset), count in pending.items() if whose == name and count}
        if not mine:
            continue
        gone = retirement(model.config, today)
        if gone is not None:
            problems.append(Problem(name, gone))
            continue
        jobs.append(Job(model.config, registry.create(model.config, model.prompt, environ), mine))
    return jobs, problems


async def check_jobs(jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
    """Open each adapter and probe its endpoints; return the jobs that can go ahead, and the problems of the others."""
    problems = await asyncio.gather(*(_check(job) for job in jobs))
    good = [job for job, problem in zip(jobs, problems, strict=True) if problem is None]
    bad = [job for job, problem in zip(jobs, problems, strict=True) if problem is not None]
    await asyncio.gather(*(job.adapter.close() for job in bad), return_exceptions=True)
    return good, [problem for problem in problems if problem is not None]


async def _check(job: Job) -> Problem | None:
    """One endpoint that answers is enough: the others join when they are up."""
    await job.adapter.open()
    outcomes = await asyncio.gather(*(_probe(job, url) for url in job.adapter.base_urls))
    if any(outcome is None for outcome in outcomes):
        return None
    failure = outcomes[0]
    return Problem(job.config.name, f"The model {job.config.name} can't be asked: {_sentence(str(failure))}")


async def _probe(job: Job, url: str) -> RequestFailure | None:
    try:
        await job.adapter.probe(url)
    except RequestFailure as failure:
        return failure
    return None


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
