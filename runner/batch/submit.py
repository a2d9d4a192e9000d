"""``batch submit``: what has no answer yet goes into input files, and those to the provider (or to a folder)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.batch.base import OFFLINE, PROVIDER, batch_adapter
from hatevolution.errors import ConfigError, StoreError
from hatevolution.runner.batch.submission import Offer, Submission, SubmitOptions
from hatevolution.runner.batched import batched
from hatevolution.runner.preflight import Problem, retirement
from hatevolution.runner.provenance import new_run_id, utc_now
from hatevolution.runner.register import register
from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_count

if TYPE_CHECKING:
    from hatevolution.runner.plan import RunPlan
    from hatevolution.store.batches import BatchRow

__all__ = ["SubmitOptions", "SubmitResult", "submit"]


class SubmitResult(NamedTuple):
    """What came of a submission."""

    run: str
    batches: list[BatchRow]
    """Submitted, or gone on with."""
    problems: list[Problem]
    pending: int
    """Sentences that are neither answered nor in an open batch."""
    in_batches: int
    most_usd: float
    """What the new ones may cost at most."""

    @property
    def exit_code(self) -> int:
        """0 everything is in a batch or answered, 1 something is not."""
        return 1 if self.pending else 0


def submit(plan: RunPlan, options: SubmitOptions) -> SubmitResult:
    """Put everything that is pending into batches and submit them.

    What an earlier start left half done is looked for at the provider and gone on with, before anything new is sent.

    Raises:
        UserError: Nothing could be begun.
    """
    offers, problems = _offers(plan, options)
    run = new_run_id()
    with WritableStore(plan.store, run) as store:
        plan = plan._replace(models=[offer.model for offer in offers])
        for note in register(store, plan, run, options.command):
            options.tell(f"note: {note}")
        for dataset in plan.datasets:
            for note in dataset.located.warnings:
                options.tell(f"note: {note}")
        work = Submission(store, run, [dataset.record.name for dataset in plan.datasets], options, problems)
        try:
            for offer in offers:
                work.model(offer)
        except BaseException as error:
            with suppress(StoreError):  # what went wrong first is what has to be told
                store.end_run(run, utc_now(), "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        cells = [(model.config.name, dataset.record.name) for model in plan.models for dataset in plan.datasets]
        waiting = batched(store.connection, cells, options.limit)
        pending = sum(pending_count(store.connection, *cell, options.limit) for cell in cells) - waiting
        outcome = "incomplete" if waiting or pending else "complete"
        store.end_run(run, utc_now(), outcome, f"batches: {waiting} sentences wait for answers" if waiting else None)
        return SubmitResult(run, work.rows, problems, pending, waiting, work.purse.taken_usd)


def _offers(plan: RunPlan, options: SubmitOptions) -> tuple[list[Offer], list[Problem]]:
    """Return the models that can go into a batch, and why the others can't.

    Raises:
        ConfigError: None can; or one that was named can't.
    """
    offline = options.offline is not None
    kinds = OFFLINE if offline else PROVIDER
    offers, problems, left = [], [], []
    for model in plan.models:
        gone = retirement(model.config, datetime.now(UTC).date())
        if gone is not None:
            problems.append(Problem(model.config.name, gone))
        elif model.config.adapter in kinds or options.named:
            adapter = batch_adapter(model.config, model.prompt, options.environ, offline=offline)
            offers.append(Offer(model, adapter))
        else:
            left.append(model.config.name)
    if not offers:
        why = " ".join(problem.why for problem in problems)
        raise ConfigError(
            why
            or f"{plan.path} has no model that can go into a batch; {'with --offline ' if offline else ''}those of the "
            f"adapters {', '.join(sorted(kinds))} can."
        )
    if left:
        options.tell(f"left to `hatevolution run`, since they can't go into these batches: {', '.join(left)}")
    return offers, problems
