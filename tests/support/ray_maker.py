"""Runs over a cluster without a cluster: the driver's and the workers' own code in one event loop, Ray left out.

What goes between them is pickled and unpickled as Ray does it. Workers can be killed, and come back or not.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ray.exceptions import ActorDiedError, ActorUnavailableError
from run_maker import RUN, Outcome, Puppet, registered, run_turns

from hatevolution.adapters import registry
from hatevolution.runner.assembly import Kit
from hatevolution.runner.budget import Budget
from hatevolution.runner.events import Listeners
from hatevolution.runner.ray_cluster import crew as crew_module
from hatevolution.runner.ray_cluster.crew import RayCrew
from hatevolution.runner.ray_cluster.hand import Hand
from hatevolution.runner.ray_cluster.options import RayOptions
from hatevolution.runner.ray_cluster.worker import Worker
from hatevolution.store.opened import WritableStore
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hatevolution.configs.schema import ModelConfig

_runs = itertools.count()


class _Method:
    def __init__(self, call: Callable[..., Any]) -> None:
        self.remote = call

    def options(self, **_options: Any) -> _Method:
        return self


class FakeActor:
    """A worker in this event loop, with the little of an actor handle that the driver uses."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s
        self._worker = Worker()
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dead = False
        self.opened = 0
        self.orders: list[Any] = []
        self.open = _Method(self._open)
        self.tell = _Method(lambda messages: asyncio.ensure_future(self._tell(pickle.dumps(messages))))
        self.events = _Method(self._events)

    async def _open(self, order: Any) -> Any:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if self._dead:
            raise ActorDiedError
        self.opened += 1
        self.orders.append(order)
        return pickle.loads(pickle.dumps(await self._worker.open(pickle.loads(pickle.dumps(order)))))

    async def _tell(self, pickled: bytes) -> None:
        if self._dead:
            raise ActorDiedError
        await self._worker.tell(pickle.loads(pickled))

    async def _events(self) -> AsyncIterator[Awaitable[Any]]:
        stream, cut = self._worker.events(), self._cut
        while True:
            step = asyncio.ensure_future(anext(stream))
            either: list[asyncio.Future[Any]] = [step, cut]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                step.cancel()
                raise (ActorDiedError() if self._dead else ActorUnavailableError("made up", None))
            batch = pickle.dumps(step.result())

            async def received(batch: bytes = batch) -> Any:
                return pickle.loads(batch)

            yield received()

    def kill(self, *, for_good: bool = False) -> None:
        """End the process: all of its tasks stop where they are, and what it had not yet said is lost."""
        self._dead = for_good
        for running in self._worker._lanes.values():
            if running.task is not None:
                running.task.cancel()
        if self._worker._watch is not None:
            self._worker._watch.cancel()
        self._worker = Worker()
        cut, self._cut = self._cut, asyncio.get_running_loop().create_future()
        cut.set_result(None)
        if for_good:
            self._cut.set_result(None)


class FakeCluster:
    """The actors of a run, in the order in which they were asked for."""

    def __init__(self, nodes: Sequence[Mapping[str, float]] = ({"CPU": 1.0}, {"CPU": 1.0}), *, late_s: float = 0.0):
        self.nodes = [dict(node) for node in nodes]
        self.actors: list[FakeActor] = []
        self._late_s = late_s

    def start(self, hand: Hand) -> None:
        # All but the first may be late.
        actor = FakeActor(self._late_s if self.actors else 0.0)
        self.actors.append(actor)
        hand._actor = actor
        hand._task = asyncio.get_running_loop().create_task(hand._live())

    @staticmethod
    async def end(hand: Hand) -> None:
        assert hand._task is not None
        hand._task.cancel()
        await asyncio.gather(hand._task, return_exceptions=True)
        hand.report = None
        hand._actor.kill(for_good=True)

    @contextmanager
    def around(self, puppets: Mapping[str, Puppet]) -> Iterator[None]:
        """Put it in Ray's place."""
        cluster, real = self, registry.create

        def create(config: Any, prompt: Any, environ: Any, *, dry: bool = False) -> Any:
            return puppets[config.name] if config.name in puppets else real(config, prompt, environ, dry=dry)

        async def end(hand: Hand) -> None:
            await cluster.end(hand)

        with (
            patch.object(Hand, "start", lambda hand: cluster.start(hand)),
            patch.object(Hand, "end", end),
            patch.object(crew_module, "nodes", lambda: cluster.nodes),
            patch.object(crew_module, "connected", lambda _options: nullcontext()),
            patch.object(registry, "create", create),
        ):
            yield


async def run_cluster(
    path: Path,
    models: Sequence[tuple[ModelConfig, Puppet, int]],
    *,
    cluster: FakeCluster | None = None,
    workers: int = 2,
    budget_usd: float | None = None,
    environ: Mapping[str, str] | None = None,
    meanwhile: Callable[[FakeCluster, list[Any]], Awaitable[None]] | None = None,
) -> Outcome:
    """As :func:`run_maker.run_lanes`, over the workers of a cluster; all workers ask the same puppets."""
    cluster = cluster or FakeCluster()
    events: list[tuple[str, dict[str, Any]]] = []
    run = f"{RUN}-ray-{next(_runs)}"
    listeners = Listeners([lambda event, **fields: events.append((event, fields))])
    budget = Budget(budget_usd)
    crew = RayCrew(RayOptions(workers=workers), environ or {}, path.with_suffix(".servers"), tell=listeners, redact=str)
    around = cluster.around({config.name: puppet for config, puppet, _ in models})
    with around, WritableStore(path, run) as store, ThreadPoolExecutor(4) as executor:
        jobs = registered(store, models, run)
        writer = GroupCommitWriter(store.connection, run)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            jobs, problems = await crew.check(jobs)
            events += [("problem", problem._asdict()) for problem in problems]
            built, groups = crew.build(jobs, Kit(path, writer, executor, budget, None, listeners, str, 1_000))
            lanes: list[Any] = list(built)
            turns = [[turn.run for turn in group] for group in groups]
            crashes = await run_turns(turns, None if meanwhile is None else meanwhile(cluster, lanes))
            seconds = loop.time() - begun
        finally:
            await crew.close()
            await writer.close()
        states = [lane.state for lane in lanes]
        return Outcome(states, lanes, budget, events, seconds, writer.commits, path, crashes)
