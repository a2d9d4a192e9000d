"""The actor that asks: one process with one event loop, as a run on one machine is, without a store.

The driver talks to it by :meth:`Worker.open` and :meth:`Worker.tell`, and listens to :meth:`Worker.events`, one
streaming generator for all of its lanes. It ends with the driver: Ray ends the actors of a driver that is gone.
"""

from __future__ import annotations

import asyncio
import os
import platform
import traceback
from typing import TYPE_CHECKING, Any

import hatevolution
from hatevolution.adapters import registry
from hatevolution.adapters.redact import Redactor
from hatevolution.errors import ConfigError
from hatevolution.runner.assembly import Job, build_pool, may_refuse
from hatevolution.runner.descriptors import connections, raise_limit
from hatevolution.runner.events import LaneState, Listeners
from hatevolution.runner.limits import AdaptiveConcurrency, Throttle
from hatevolution.runner.preflight import check_jobs
from hatevolution.runner.provenance import utc_now
from hatevolution.runner.ray_cluster.messages import Chunk, Cool, Ended, Finish, Grant, Report, Seen, Start, Stop
from hatevolution.runner.ray_cluster.outbox import Outbox
from hatevolution.runner.ray_cluster.placing import log_folder, on_this_machine, vllm_asks_ray
from hatevolution.runner.ray_cluster.worker_lane import (
    ChunkSource,
    Grants,
    SharedAdmission,
    SharedCooldown,
    WorkerLane,
)
from hatevolution.runner.serving import Serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.ray_cluster.messages import Order, ToWorker

__all__ = ["Worker"]

_SEEN_S = 0.25


class _Running:
    """One lane and the parts of it that the driver talks to."""

    def __init__(self, job: Job, outbox: Outbox, *, gated: bool, redact: Redactor) -> None:
        config, endpoint = job.config, job.config.endpoint
        self.state = LaneState(config.name, config.label, sum(job.pending.values()))
        tell = Listeners([outbox.tell])
        raise_limit()
        self.grants = Grants(config.name, outbox) if gated else None
        self.cooldown = SharedCooldown(config.name, outbox)
        self.admission = SharedAdmission(
            config,
            job.adapter,
            pool=build_pool(config, job.adapter, tell),
            throttle=Throttle(None, None),  # the driver's holds for all workers together
            concurrency=AdaptiveConcurrency(min(endpoint.max_concurrency, connections(1)), canary=may_refuse(config)),
            cooldown=self.cooldown,
            writer=outbox,
            state=self.state,
            listeners=tell,
            grants=self.grants,
            outbox=outbox,
            on_stop=lambda: self.source.finish(),
        )
        self.source = ChunkSource(config.name, job.adapter.batch_size, outbox, lambda: self.admission.stopping)
        self.lane = WorkerLane(
            config,
            job.adapter,
            source=self.source,
            admission=self.admission,
            state=self.state,
            listeners=tell,
            now=utc_now,
            redact=redact.text,
            outbox=outbox,
        )
        self.task: asyncio.Task[None] | None = None
        self._seen: Seen | None = None

    def seen(self) -> Seen | None:
        """Return how the lane stands, if that has changed since it was last asked."""
        state = self.state
        pause = None
        if state.paused_until is not None:
            pause = max(0.0, state.paused_until - asyncio.get_running_loop().time())
        now = Seen(state.model, state.in_flight, state.limit, state.phase, state.why, pause)
        if now == self._seen:
            return None
        self._seen = now
        return now


class Worker:
    """Asks the models of its order about the chunks that it is sent."""

    def __init__(self) -> None:
        self._outbox = Outbox()
        self._gated: frozenset[str] = frozenset()
        self._jobs: dict[str, Job] = {}
        self._lanes: dict[str, _Running] = {}
        self._redactor = Redactor()
        self._serving: Serving | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self, order: Order) -> Report:
        """Make ready; say which models can't be asked from here, and why."""
        # Keys travel in this argument; all else (weights, proxies, Pythons of servers) is this machine's own.
        environ = {**os.environ, **order.keys}
        if any(vllm_asks_ray(config) for config, _, _ in order.models):
            import ray

            environ.setdefault("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
        self._redactor = Redactor.of(environ, *order.keys)
        self._gated = order.gated
        self._outbox.allow(sum(config.endpoint.max_concurrency for config, _, _ in order.models))
        self._serving = Serving(
            environ, log_folder(order.logs), tell=Listeners([self._outbox.tell]), redact=self._redactor.text
        )
        jobs, problems = [], {}
        for config, prompt, pending in order.models:
            try:
                jobs.append(await self._job(config, prompt, pending, environ))
            except ConfigError as error:
                problems[config.name] = str(error)
        good, bad = await check_jobs(jobs, self._serving)
        self._jobs = {job.config.name: job for job in good}
        problems |= {problem.model: problem.why for problem in bad}
        self._watch = asyncio.get_running_loop().create_task(self._look())
        return Report(f"{platform.node()} (pid {os.getpid()})", hatevolution.__version__, problems)

    async def _job(self, config: ModelConfig, prompt: Prompt | None, pending: int, environ: dict[str, str]) -> Job:
        if config.server is not None:
            config = await on_this_machine(config)
        return Job(config, registry.create(config, prompt, environ), {"": pending})

    async def _look(self) -> None:
        """Say now and then how the lanes stand."""
        while True:
            await asyncio.sleep(_SEEN_S)
            for running in list(self._lanes.values()):
                seen = running.seen()
                if seen is not None:
                    self._outbox.send(seen)

    async def events(self) -> AsyncIterator[list[Any]]:
        """Give the driver what happens, in batches, without end."""
        while True:
            yield await self._outbox.take()

    async def tell(self, messages: Sequence[ToWorker]) -> None:
        """Take the driver's messages."""
        for message in messages:
            if isinstance(message, Start):
                self._start(message.model)
                continue
            running = self._lanes.get(message.model)
            if running is not None:
                self._pass_on(running, message)

    @staticmethod
    def _pass_on(running: _Running, message: ToWorker) -> None:
        if isinstance(message, Chunk):
            running.source.feed(message.items)
        elif isinstance(message, Grant):
            if running.grants is not None:
                running.grants.granted(message.number)
        elif isinstance(message, Cool):
            running.admission.hear(message, running.cooldown)
        elif isinstance(message, Finish):
            running.source.finish()
        elif isinstance(message, Stop):
            running.lane.stop()

    def _start(self, model: str) -> None:
        running = _Running(self._jobs[model], self._outbox, gated=model in self._gated, redact=self._redactor)
        self._lanes[model] = running
        running.task = asyncio.get_running_loop().create_task(self._run(model, running))

    async def _run(self, model: str, running: _Running) -> None:
        assert self._serving is not None  # noqa: S101 - opened
        crash = None
        try:
            await self._serving.run(running.lane)
        except Exception as error:
            # Told, not raised: nobody waits for this task, and the other lanes go on.
            crash = self._redactor.text("".join(traceback.format_exception(error)))
        why = running.lane.stopped
        self._outbox.send(Ended(model, None if why is None else why.kind.value, str(why or ""), crash))
