"""The workers of a run: which there are, what each is there for, and which lanes they serve."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from hatevolution.adapters.secrets import key_name
from hatevolution.runner.assembly import build_source, group_lanes
from hatevolution.runner.crew import Turn
from hatevolution.runner.events import LaneState
from hatevolution.runner.limits import Cooldown, Throttle
from hatevolution.runner.preflight import Problem
from hatevolution.runner.provenance import utc_now
from hatevolution.runner.ray_cluster.connect import connected, nodes
from hatevolution.runner.ray_cluster.dealing import Dealer, chunk_of
from hatevolution.runner.ray_cluster.gate import Gate
from hatevolution.runner.ray_cluster.hand import Hand
from hatevolution.runner.ray_cluster.lane import ClusterLane
from hatevolution.runner.ray_cluster.messages import Event, Order
from hatevolution.runner.ray_cluster.placing import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.errors import RequestFailure
    from hatevolution.runner.assembly import Job, Kit
    from hatevolution.runner.crew import AnyLane
    from hatevolution.runner.events import Listeners
    from hatevolution.runner.ray_cluster.messages import Report
    from hatevolution.runner.ray_cluster.options import RayOptions
    from hatevolution.runner.ray_cluster.placing import Need

__all__ = ["RayCrew"]

_OTHERS_S = 20.0
"""How long those who are ready wait for the others, in seconds; who comes later joins in."""

_SAY_S = 10.0


class RayCrew:
    """Workers of a Ray cluster ask.

    One worker for each node asks all models that run elsewhere, as one process does on one machine. Each model whose
    server has to be started has workers of its own, with the GPUs that Ray finds for them.

    Args:
        options: Which cluster, how many workers.
        environ: The environment variables of this process; only API keys go to the workers.
        logs: Folder for the logs of servers.
        tell: Is told what happens.
        redact: Takes secrets out of texts.
    """

    def __init__(
        self,
        options: RayOptions,
        environ: Mapping[str, str],
        logs: Path,
        *,
        tell: Listeners,
        redact: Callable[[str], str],
    ) -> None:
        self._redact = redact
        self._options = options
        self._environ = environ
        self._logs = logs
        self._tell = tell
        self._hands: dict[Hand, frozenset[str]] = {}
        """Worker -> the models that it is there for."""
        self._gone: dict[Hand, str] = {}
        self._lanes: dict[str, ClusterLane] = {}
        self._needs: dict[str, Need] = {}
        self._changed = asyncio.Event()
        self._kit: Kit | None = None

    def around(self) -> AbstractContextManager[None]:
        """Connect to the cluster."""
        return connected(self._options)

    # -- before anything is asked ------------------------------------------------------------------------------------

    async def check(self, jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
        """Start the workers, and have them say which models they can ask. One that can is enough for a model."""
        self._needs = needs([job.config for job in jobs if job.config.server is not None], nodes())
        plain = [job for job in jobs if job.config.server is None]
        if plain:
            for _ in range(self._options.workers or len(nodes())):
                self._hire(plain, gpus=0)
            await self._assemble()
        found = [self._problem(job.config) for job in jobs]
        good = [job for job, problem in zip(jobs, found, strict=True) if problem is None]
        return good, [problem for problem in found if problem is not None]

    async def _assemble(self) -> None:
        loop = asyncio.get_running_loop()
        began, said = loop.time(), False
        first: float | None = None
        while not all(hand.report is not None or hand in self._gone for hand in self._hands):
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            if first is None and any(hand.report is not None for hand in self._hands):
                first = loop.time()
            if first is not None and loop.time() - first > _OTHERS_S:
                return
            if first is None and not said and loop.time() - began > _SAY_S:
                said = True
                self._tell("note", text="waiting for the cluster to start a worker; each takes one of its CPUs")

    def _problem(self, config: ModelConfig) -> Problem | None:
        need = self._needs.get(config.name)
        if need is not None:
            return None if need.problem is None else Problem(config.name, need.problem)
        reports = [hand.report for hand in self._hands if hand.report is not None]
        whys = [report.problems.get(config.name) for report in reports]
        if None in whys:
            return None
        whys += [f"The model {config.name} can't be asked: {why}." for why in self._gone.values()]
        return Problem(config.name, str(whys[0]))

    def _hire(self, jobs: list[Job], *, gpus: int) -> Hand:
        names = {name for name in (key_name(job.config) for job in jobs) if name is not None}
        order = Order(
            [(job.config, job.prompt, sum(job.pending.values())) for job in jobs],
            {name: self._environ[name] for name in sorted(names) if name in self._environ},
            frozenset(job.config.name for job in jobs if _gated(job.config)),
            str(self._logs.resolve()),
        )
        hand = Hand(order, gpus=gpus, master=self)
        if self._kit is not None:
            hand.writer = self._kit.writer
        self._hands[hand] = frozenset(job.config.name for job in jobs)
        hand.start()
        return hand

    # -- lanes -------------------------------------------------------------------------------------------------------

    def build(self, jobs: list[Job], kit: Kit) -> tuple[list[AnyLane], list[list[Turn]]]:
        """Return the lanes, and their turns: Ray finds the turn of those that need a GPU."""
        self._kit = kit
        for hand in self._hands:
            hand.writer = kit.writer
        lanes = [self._lane(job, kit) for job in jobs]
        pairs = list(zip(jobs, lanes, strict=True))
        plain = [(job, lane) for job, lane in pairs if job.config.server is None]
        groups = group_lanes([job for job, _ in plain], [lane for _, lane in plain])
        turns = [[Turn(lane, partial(lane.run, partial(self._fit, lane))) for lane in group] for group in groups]
        turns += [
            [Turn(lane, partial(self._run_with_servers, job, lane))]
            for job, lane in pairs
            if job.config.server is not None
        ]
        return list(lanes), turns

    def _lane(self, job: Job, kit: Kit) -> ClusterLane:
        config, total = job.config, sum(job.pending.values())
        need = self._needs.get(config.name)
        workers = len(self._hands) if need is None else need.workers
        chunk, window = chunk_of(config, job.adapter.batch_size, total, workers)

        def gate(refuse: Callable[[RequestFailure], None]) -> Gate:
            return Gate(
                config,
                throttle=Throttle(config.endpoint.requests_per_minute, config.endpoint.tokens_per_minute),
                cooldown=Cooldown(),
                budget=kit.budget,
                writer=kit.writer,
                now=utc_now,
                refuse=refuse,
            )

        state = LaneState(config.name, config.label, total, datasets=list(job.pending))
        lane = self._lanes[config.name] = ClusterLane(
            config,
            dealer=Dealer(build_source(job, kit, ahead=2 * chunk, batch_size=chunk), chunk, state),
            window=window,
            writer=kit.writer,
            make_gate=gate,
            state=state,
            listeners=self._tell,
        )
        return lane

    async def _run_with_servers(self, job: Job, lane: ClusterLane) -> None:
        """Run a lane whose workers start the model's server; they are let go, and their GPUs, when it is done."""
        need = self._needs[job.config.name]
        mine = [self._hire([job], gpus=need.gpus) for _ in range(need.workers)]
        try:
            await lane.run(partial(self._fit, lane))
        finally:
            await asyncio.gather(*(hand.end() for hand in mine))
            for hand in mine:
                del self._hands[hand]

    def _fit(self, lane: ClusterLane) -> list[Hand]:
        name = lane.state.model
        return [
            hand
            for hand, models in self._hands.items()
            if name in models and hand.report is not None and name not in hand.report.problems
        ]

    async def close(self) -> None:
        """End all workers."""
        await asyncio.gather(*(hand.end() for hand in self._hands), return_exceptions=True)
        self._hands.clear()

    # -- what becomes of workers -------------------------------------------------------------------------------------

    def joined(self, hand: Hand, report: Report) -> None:
        """See :class:`Master`."""
        self._changed.set()
        self._tell("worker_joined", node=report.node)
        for name in self._hands[hand]:
            lane = self._lanes.get(name)
            if lane is None:
                continue
            if name not in report.problems:
                lane.attach(hand)
            else:
                self._despair(lane, report.problems[name])

    def heard(self, hand: Hand, message: Any) -> None:
        """See :class:`Master`."""
        lane = self._lanes.get(message.fields["model"] if isinstance(message, Event) else message.model)
        if lane is not None:
            lane.hear(hand, message)

    def lost(self, hand: Hand, why: str) -> None:
        """See :class:`Master`."""
        why = self._redact(why)
        for name in self._hands[hand]:
            if name in self._lanes:
                self._lanes[name].detach(hand, why)

    def gone(self, hand: Hand, why: str) -> None:
        """See :class:`Master`."""
        why = self._gone[hand] = self._redact(why)
        self._changed.set()
        self._tell("worker_gone", why=why)
        for name in self._hands[hand]:
            if name in self._lanes:
                self._despair(self._lanes[name], why)

    def _despair(self, lane: ClusterLane, why: str) -> None:
        """Stop a lane where none of its workers can ask, and none is still to come."""
        name = lane.state.model
        for hand, models in self._hands.items():
            unfit = hand in self._gone or (hand.report is not None and name in hand.report.problems)
            if name in models and not unfit:
                return
        lane.hopeless(why)


def _gated(config: ModelConfig) -> bool:
    """Whether each request needs the driver's leave: its rates are limited, or it costs something."""
    endpoint = config.endpoint
    return bool(config.price is not None or endpoint.requests_per_minute or endpoint.tokens_per_minute)
