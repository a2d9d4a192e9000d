"""What displays see of a lane that runs at several workers: the sum of what these say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hatevolution.runner.events import LaneState, Listeners
    from hatevolution.runner.ray_cluster.station import Station

__all__ = ["Board"]


class Board:
    """Keeps a lane's state as its workers last said it is.

    Args:
        state: What displays read.
        tell: Is told of pauses, once for all workers.
    """

    def __init__(self, state: LaneState, tell: Listeners) -> None:
        self._state = state
        self._tell = tell

    def show(self, stations: Iterable[Station], *, stopping: bool) -> None:
        """Sum up; the lane pauses where all of its workers do."""
        state = self._state
        seen = [one.seen for one in stations if one.seen is not None and not one.ended]
        state.in_flight = sum(one.in_flight for one in seen)
        state.limit = sum(one.limit for one in seen)
        if not seen or stopping:
            return
        shown = next((one for one in seen if one.phase == "running"), seen[0])
        if shown.phase == "paused":
            self.pause(shown.why)
            now = asyncio.get_running_loop().time()
            state.paused_until = None if shown.pause_s is None else now + shown.pause_s
        else:
            state.phase, state.why, state.paused_until = shown.phase, shown.why, None

    def pause(self, why: str) -> None:
        """The lane pauses."""
        if self._state.why != why:
            self._tell("paused", model=self._state.model, why=why)
        self._state.phase, self._state.why = "paused", why
