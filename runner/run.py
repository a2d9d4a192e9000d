"""A run from start to end: check, register, ask, record how it ended."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.redact import Redactor
from hatevolution.errors import StoreError, UserError
from hatevolution.runner.assembly import Kit
from hatevolution.runner.batched import batched, take_out_batched
from hatevolution.runner.budget import Budget
from hatevolution.runner.crew import Here
from hatevolution.runner.descriptors import connections, raise_limit
from hatevolution.runner.events import LaneState, Listeners
from hatevolution.runner.preflight import Problem, make_jobs
from hatevolution.runner.provenance import new_run_id, utc_now
from hatevolution.runner.register import register
from hatevolution.runner.serving import Serving
from hatevolution.runner.signals import Interrupts
from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_count
from hatevolution.store.writer import Ballast, GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hatevolution.runner.assembly import Job
    from hatevolution.runner.crew import AnyLane, Crew, Turn
    from hatevolution.runner.events import Listener
    from hatevolution.runner.plan import RunPlan
    from hatevolution.runner.ray_cluster.options import RayOptions

__all__ = ["RunOptions", "RunResult", "execute"]

_BALLAST_BYTES = 16 * 1024 * 1024

_GC_THRESHOLDS = (20_000, 20, 20)
"""Of the garbage collector while requests are in flight. With Python's own (700, 10, 10) an eighth of the processor's
time per request went into looking through objects that were alive (benchmarks/runner_throughput.py)."""


class RunOptions(NamedTuple):
    """What the command line adds to a plan."""

    limit: int | None = None
    """Only the first so many sentences of each set."""
    budget_usd: float | None = None
    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = os.environ
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the event loop; None takes uvloop's where it is installed."""
    ray: RayOptions | None = None
    """The cluster whose workers ask; None: this process does."""


class RunResult(NamedTuple):
    """How a run ended."""

    run: str
    states: list[LaneState]
    problems: list[Problem]
    """Models that were not (or not wholly) asked, and why."""
    asked: int
    """Sentences that were pending when it began."""
    pending: int
    """Sentences that are pending now."""
    interrupted: bool
    spent_usd: float
    doubtful_usd: float
    in_batches: int = 0
    """Sentences that are in an open batch and were left to it; not counted among the others."""

    @property
    def exit_code(self) -> int:
        """0 complete, 1 something is missing, 130 interrupted."""
        if self.interrupted:
            return 130
        return 1 if self.pending or self.in_batches else 0


def execute(
    plan: RunPlan,
    options: RunOptions,
    *,
    listeners: Sequence[Listener] = (),
    display: Callable[[Sequence[LaneState], Budget, GroupCommitWriter], AbstractContextManager[None]] | None = None,
) -> RunResult:
    """Carry a plan out and return how it ended.

    Raises:
        UserError: Nothing could be begun; the store is as it was.
    """
    run = new_run_id()
    raise_limit()
    with WritableStore(plan.store, run) as store:
        tell = Listeners(listeners)
        for note in register(store, plan, run, options.command, tell):
            tell("note", text=note)
        for dataset in plan.datasets:
            for note in dataset.located.warnings:
                tell("note", text=note)
        pending = {
            (model.config.name, dataset.record.name): pending_count(
                store.connection, model.config.name, dataset.record.name, options.limit
            )
            for model in plan.models
            for dataset in plan.datasets
        }
        in_batches = take_out_batched(store.connection, pending, options.limit)
        if not any(pending.values()):
            outcome = "incomplete" if in_batches else "complete"
            store.end_run(run, utc_now(), outcome, "nothing was left to do")
            return RunResult(run, [], [], 0, 0, False, 0.0, 0.0, in_batches)
        runner = _Runner(plan, options, store, run, pending, tell)
        return runner.carry_out(display)


class _Runner:
    """The part of a run that asks."""

    def __init__(
        self,
        plan: RunPlan,
        options: RunOptions,
        store: WritableStore,
        run: str,
        pending: dict[tuple[str, str], int],
        listeners: Listeners,
    ) -> None:
        self._plan = plan
        self._options = options
        self._store = store
        self._run = run
        self._pending = pending
        self._tell = listeners
        self._redactor = Redactor.of(options.environ)
        self._problems: list[Problem] = []
        self._lanes: list[AnyLane] = []
        self._states: list[LaneState] = []
        self._budget = Budget(options.budget_usd)
        self._crew = self._make_crew()

    def _make_crew(self) -> Crew:
        environ, logs = self._options.environ, self._plan.store.with_suffix(".servers")
        if self._options.ray is None:
            return Here(Serving(environ, logs, tell=self._tell, redact=self._redactor.text))
        from hatevolution.runner.ray_cluster.crew import RayCrew

        return RayCrew(self._options.ray, environ, logs, tell=self._tell, redact=self._redactor.text)

    def carry_out(self, display: Callable[..., AbstractContextManager[None]] | None) -> RunResult:
        try:
            factory = self._options.loop_factory or _loop_factory()
            with self._crew.around(), asyncio.Runner(loop_factory=factory) as runner:
                interrupted = runner.run(self._ask(display))
        except UserError as error:
            with suppress(StoreError):  # what went wrong first is what has to be told
                if self._lanes:
                    self._store.end_run(self._run, utc_now(), "failed", str(error))
                else:
                    self._store.forget_run(self._run)
            raise
        except BaseException as error:
            outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            with suppress(StoreError):  # what went wrong first is what has to be told
                self._store.end_run(self._run, utc_now(), outcome)
            raise
        in_batches = batched(self._store.connection, self._pending, self._options.limit)
        left = self._left() - in_batches
        try:
            outcome = "interrupted" if interrupted else ("incomplete" if left or in_batches else "complete")
            self._store.end_run(self._run, utc_now(), outcome)
        except StoreError as error:
            self._problems.append(Problem("the record of this run", str(error)))
        return RunResult(
            self._run,
            self._states,
            self._problems,
            sum(self._pending.values()),
            left,
            interrupted,
            self._budget.spent_usd,
            self._budget.doubtful_usd,
            in_batches,
        )

    def _left(self) -> int:
        return sum(
            pending_count(self._store.connection, model, dataset, self._options.limit)
            for model, dataset in self._pending
        )

    async def _ask(self, display: Callable[..., AbstractContextManager[None]] | None) -> bool:
        jobs, self._problems = make_jobs(self._plan, self._pending, self._options.environ)
        try:
            jobs, more = await self._crew.check(jobs)
            self._problems += more
            if not jobs:
                raise UserError(" ".join(dict.fromkeys(problem.why for problem in self._problems)))
            for problem in self._problems:
                self._tell("not_asked", model=problem.model, why=problem.why)
            return await self._ask_all(jobs, display)
        finally:
            await self._crew.close()
            await asyncio.gather(*(job.adapter.close() for job in jobs), return_exceptions=True)

    async def _ask_all(self, jobs: list[Job], display: Callable[..., AbstractContextManager[None]] | None) -> bool:
        ballast = Ballast(self._store.path, _BALLAST_BYTES)
        if not ballast.take():
            raise UserError(
                f"The disk of {self._store.path} has less than {_BALLAST_BYTES // 2**20} MiB free, too little to keep "
                f"the answers of a run; make room, or use a --store elsewhere."
            )
        writer = GroupCommitWriter(self._store.connection, self._run, ballast=ballast)
        executor = ThreadPoolExecutor(min(8, len(jobs)), thread_name_prefix="store-reader")
        interrupts = Interrupts(self._tell)
        thresholds = gc.get_threshold()
        try:
            kit = Kit(
                self._store.path,
                writer,
                executor,
                self._budget,
                self._options.limit,
                self._tell,
                self._redactor.text,
                connections(len(jobs)),
            )
            self._lanes, groups = self._crew.build(jobs, kit)
            self._states += [lane.state for lane in self._lanes]
            gc.freeze()  # what start-up made lives as long as the run: no need to look at it again and again
            gc.set_threshold(*_GC_THRESHOLDS)
            self._tell("run_started", run=self._run, pending=sum(state.total for state in self._states))
            with interrupts.handling(self._lanes), _shown(display, self._states, self._budget, writer):
                try:
                    await interrupts.cancellable(self._run_lanes(groups))
                finally:
                    # Still shown and still in charge of signals: storing what came may take a while (a full disk).
                    lost = await interrupts.closing(writer)
            if lost:
                self._problems.append(Problem("the store", f"{lost} records were given up ({writer.trouble})"))
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
            await writer.close()
            executor.shutdown()
        self._problems += [Problem(lane.state.model, str(lane.stopped)) for lane in self._lanes if lane.stopped]
        self._tell("run_ended", run=self._run, interrupted=interrupts.interrupted)
        return interrupts.interrupted

    async def _run_lanes(self, groups: list[list[Turn]]) -> None:
        async def one_after_the_other(turns: list[Turn]) -> None:
            for lane, run in turns:
                self._tell("lane_started", model=lane.state.model, pending=lane.state.total)
                try:
                    await run()
                except Exception as error:
                    # A bug in one lane must not end the night of the others; it is told, and its rest is missing.
                    why = self._redactor.text("".join(traceback.format_exception(error)))
                    self._tell("lane_crashed", model=lane.state.model, why=why)
                    self._problems.append(Problem(lane.state.model, f"internal error, please report it: {error!r}"))
                finally:
                    self._tell("lane_ended", **lane.state.account())

        async with asyncio.TaskGroup() as tasks:
            for turns in groups:
                tasks.create_task(one_after_the_other(turns))


def _shown(
    display: Callable[..., AbstractContextManager[None]] | None,
    states: list[LaneState],
    budget: Budget,
    writer: GroupCommitWriter,
) -> AbstractContextManager[None]:
    from contextlib import nullcontext

    return nullcontext() if display is None else display(states, budget, writer)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    # The writer's thread wants its turn often and briefly; the default of 5 ms would make it wait for ages.
    sys.setswitchinterval(0.001)
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
