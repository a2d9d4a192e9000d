"""Before the first request: which models can be asked at all, and why not the others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters import registry
from hatevolution.adapters.serving.commands import serves
from hatevolution.errors import ConfigError, FailureKind, RequestFailure
from hatevolution.runner.assembly import Job

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.plan import RunPlan
    from hatevolution.runner.serving import Serving

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
            before a night begins, not after it. Tells of all such models at once.
    """
    jobs: list[Job] = []
    problems: list[Problem] = []
    wrong: list[str] = []
    unready: list[str] = []
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
        try:
            serves(model.config)
            adapter = registry.create(model.config, model.prompt, environ)
            jobs.append(Job(model.config, adapter, mine, model.prompt))
        except ConfigError as error:
            wrong.append(str(error))
            unready.append(name)
    if wrong:
        others = f" Put that right, or leave out with --except {','.join(unready)}." if jobs else ""
        raise ConfigError(" ".join(dict.fromkeys(wrong)) + others)
    return jobs, problems


async def check_jobs(jobs: list[Job], serving: Serving | None = None) -> tuple[list[Job], list[Problem]]:
    """Open each adapter and probe its endpoints; return the jobs that can go ahead, and the problems of the others.

    A server that is not there is planned with ``serving``, where its model's configuration says how to start it.
    """
    problems = await asyncio.gather(*(_check(job, serving) for job in jobs))
    good = [job for job, problem in zip(jobs, problems, strict=True) if problem is None]
    bad = [job for job, problem in zip(jobs, problems, strict=True) if problem is not None]
    await asyncio.gather(*(job.adapter.close() for job in bad), return_exceptions=True)
    return good, [problem for problem in problems if problem is not None]


async def _check(job: Job, serving: Serving | None) -> Problem | None:
    """One endpoint that answers is enough: the others join when they are up."""
    await job.adapter.open()
    outcomes = await asyncio.gather(*(_probe(job, url) for url in job.adapter.base_urls))
    gone = [outcome is not None and outcome.kind is FailureKind.UNREACHABLE for outcome in outcomes]
    ours = serving is not None and job.config.server is not None and any(gone)
    if ours and all(absent or outcome is None for absent, outcome in zip(gone, outcomes, strict=True)):
        assert serving is not None  # noqa: S101 - ours
        try:
            serving.plan(job.config, job.adapter)
        except ConfigError as error:
            return Problem(job.config.name, str(error))
        return None
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
