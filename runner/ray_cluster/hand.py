"""One worker as the driver holds it: an actor of Ray's, what is said to it, what it says, and its deaths."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import hatevolution
from hatevolution.inert import one_line
from hatevolution.runner.ray_cluster.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.runner.ray_cluster.messages import Order, Report, ToWorker
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["Hand", "Master"]

_RESTARTS = 20
"""How often Ray starts a worker again, wherever there is room; the deaths of nodes that are taken away don't count."""

_AHEAD = 4
"""Batches that a worker may have sent and the driver has not read: then the worker's lanes pause."""

_PAUSE_S = 0.5
_FAILURES = 5
"""Times in a row that a worker may fail to get ready."""


class Master(Protocol):
    """Who hears of a worker."""

    def joined(self, hand: Hand, report: Report) -> None:
        """It is ready."""

    def heard(self, hand: Hand, message: Any) -> None:
        """It said something."""

    def lost(self, hand: Hand, why: str) -> None:
        """It died; Ray may bring it back, and then it joins again."""

    def gone(self, hand: Hand, why: str) -> None:
        """It will not come back."""


class Hand:
    """A worker.

    Args:
        order: What it is there for.
        gpus: How many GPUs Ray has to find for it.
        master: Is told of it.
    """

    def __init__(self, order: Order, *, gpus: int, master: Master) -> None:
        self._order = order
        self._gpus = gpus
        self._master = master
        self._actor: Any = None
        self._unsaid: list[ToWorker] = []
        self._task: asyncio.Task[None] | None = None
        self.writer: GroupCommitWriter | None = None
        """What came is not taken further than this can store."""
        self.report: Report | None = None
        """Of the worker as it lives now; None while it does not."""

    def start(self) -> None:
        """Ask Ray for it."""
        import ray

        self._actor = (
            ray.remote(Worker)
            .options(
                num_cpus=1,
                num_gpus=self._gpus,
                max_restarts=_RESTARTS,
                max_task_retries=0,  # what it was told before it died is told anew, by what is still to be done
                scheduling_strategy="SPREAD",
            )
            .remote()
        )
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        """Keep in touch with it until it is gone for good; nobody waits for this task, so a fault of ours is told."""
        try:
            await self._keep_in_touch()
        except Exception as error:
            why = f"internal error, please report it: {error!r}"
            self._lose(why)
            self._master.gone(self, why)

    async def _keep_in_touch(self) -> None:
        from ray.exceptions import ActorUnavailableError, RayError

        failures = 0
        while True:
            failures += 1
            try:
                report = await self._actor.open.remote(self._order)
                failures = 0
                problem = _unfit(report)
                if problem is not None:
                    self._master.gone(self, problem)
                    return
                self.report = report
                self._master.joined(self, report)
                await self._listen()
                why = "its events ended"
            except ActorUnavailableError as error:
                why = _short(error)
            except RayError as error:
                self._lose(_short(error))
                if failures >= _FAILURES or await self._dead():
                    self._master.gone(self, _short(error))
                    return
                why = _short(error)
            self._lose(why)
            await asyncio.sleep(_PAUSE_S)

    def _lose(self, why: str) -> None:
        if self.report is not None:
            self.report = None
            self._unsaid.clear()
            self._master.lost(self, why)

    async def _dead(self) -> bool:
        """Whether Ray has given it up."""
        from ray.exceptions import ActorDiedError, RayError

        try:
            await self._actor.tell.remote([])
        except ActorDiedError:
            return True
        except RayError:
            return False
        return False

    async def _listen(self) -> None:
        stream = self._actor.events.options(_generator_backpressure_num_objects=_AHEAD).remote()
        async for reference in stream:
            for message in await reference:
                self._master.heard(self, message)
            if self.writer is not None and self.writer.full:
                await self.writer.room()

    def tell(self, message: ToWorker) -> None:
        """Say something; what is said in one turn of the event loop travels together."""
        if self.report is None:
            return
        if not self._unsaid:
            asyncio.get_running_loop().call_soon(self._say)
        self._unsaid.append(message)

    def _say(self) -> None:
        from ray.exceptions import RayError

        messages: Sequence[ToWorker]
        messages, self._unsaid = self._unsaid, []
        if messages and self.report is not None:
            with contextlib.suppress(RayError):  # a death is told by its events
                self._actor.tell.remote(messages)

    async def end(self) -> None:
        """End it at once; the servers that it started end with it."""
        import ray

        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.report = None
        if self._actor is not None:
            with contextlib.suppress(ray.exceptions.RayError, RuntimeError, ValueError):  # Ray may be gone already
                ray.kill(self._actor)
            self._actor = None


def _unfit(report: Report) -> str | None:
    if report.version == hatevolution.__version__:
        return None
    return (
        f"the node {report.node} has hatevolution {report.version}, and this machine {hatevolution.__version__}; "
        f"install the same version on all nodes"
    )


def _short(error: Exception) -> str:
    return one_line(str(error), 300)
