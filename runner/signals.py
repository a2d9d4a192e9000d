"""Ctrl-C and SIGTERM: the first drains, the second stops at once."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from hatevolution.runner.events import Listeners
    from hatevolution.runner.lane import ModelLane

__all__ = ["Interrupts"]


class Interrupts:
    """Turns signals into a graceful stop, then into an immediate one."""

    def __init__(self, listeners: Listeners) -> None:
        self._tell = listeners
        self._lanes: Sequence[ModelLane] = ()
        self._task: asyncio.Task[None] | None = None
        self._signals = 0

    @property
    def interrupted(self) -> bool:
        """Whether a signal came."""
        return self._signals > 0

    @contextmanager
    def handling(self, lanes: Sequence[ModelLane]) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while inside; elsewhere (threads, no signals) do nothing."""
        self._lanes = lanes
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._on_signal)
            except (NotImplementedError, RuntimeError, ValueError):
                continue
            caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            flying = sum(lane.state.in_flight for lane in self._lanes)
            self._tell("draining", in_flight=flying)
            for lane in self._lanes:
                lane.stop()
        elif self._task is not None:
            self._tell("stopping_at_once")
            self._task.cancel()

    async def cancellable(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work; return early when the second signal comes."""
        self._task = asyncio.get_running_loop().create_task(work)
        try:
            await self._task
        except asyncio.CancelledError:
            if self._signals < 2:
                raise
