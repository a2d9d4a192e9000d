"""Who does the asking: this process, or the workers of a cluster. A run needs no more of either than this."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hatevolution.runner.assembly import build_lane, group_lanes
from hatevolution.runner.preflight import check_jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hatevolution.errors import RequestFailure
    from hatevolution.runner.assembly import Job, Kit
    from hatevolution.runner.events import LaneState
    from hatevolution.runner.preflight import Problem
    from hatevolution.runner.serving import Serving

__all__ = ["AnyLane", "Crew", "Here", "Turn"]


class AnyLane(Protocol):
    """One model being asked, wherever that happens; :class:`hatevolution.runner.lane.ModelLane` says what is what."""

    state: LaneState
    stopped: RequestFailure | None

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be sent."""

    def stop(self, reason: RequestFailure | None = None) -> None:
        """Send nothing more."""


class Turn(NamedTuple):
    """A lane, and how it is run when its turn has come."""

    lane: AnyLane
    run: Callable[[], Awaitable[None]]


class Crew(Protocol):
    """Those who ask."""

    def around(self) -> AbstractContextManager[object]:
        """What has to be open around the run, entered in the main thread before its event loop starts.

        Raises:
            UserError: It can't be opened.
        """

    async def check(self, jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
        """Return the jobs that can go ahead, and the problems of the others."""

    def build(self, jobs: list[Job], kit: Kit) -> tuple[list[AnyLane], list[list[Turn]]]:
        """Return the lanes in the order of the jobs, and their turns: groups side by side, in a group one by one."""

    async def close(self) -> None:
        """Let everything go."""


class Here:
    """This process asks.

    Args:
        serving: Starts servers on this machine.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def around(self) -> AbstractContextManager[object]:
        """See :meth:`Crew.around`."""
        return nullcontext()

    async def check(self, jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
        """See :meth:`Crew.check`."""
        return await check_jobs(jobs, self._serving)

    def build(self, jobs: list[Job], kit: Kit) -> tuple[list[AnyLane], list[list[Turn]]]:
        """See :meth:`Crew.build`."""
        lanes = [build_lane(job, kit) for job in jobs]
        groups = group_lanes(jobs, lanes)
        return list(lanes), [[Turn(lane, partial(self._serving.run, lane)) for lane in group] for group in groups]

    async def close(self) -> None:
        """See :meth:`Crew.close`."""
