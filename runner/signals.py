"""Ctrl-C, SIGTERM and a closed terminal (SIGHUP): the first drains, the second stops at once."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from hatevolution.runner.crew import AnyLane
    from hatevolution.runner.events import Listeners
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["Interrupts"]


class Interrupts:
    """Turns signals into a graceful stop, then into an immediate one."""

    def __init__(self, listeners: Listeners) -> None:
        self._tell = listeners
        self._lanes: Sequence[AnyLane] = ()
        self._task: asyncio.Task[None] | None = None
        self._writer: GroupCommitWriter | None = None
        self._signals = 0

    @property
    def interrupted(self) -> bool:
        """Whether a signal came."""
        return self._signals > 0

    @contextmanager
    def handling(self, lanes: Sequence[AnyLane]) -> Iterator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP while inside; elsewhere (threads, no signals) do nothing."""
        self._lanes = lanes
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # `nohup` wants the run to outlive its terminal, and a shell's `&` its Ctrl-C
            try:
                loop.add_signal_handler(number, self._on_signal, number)
            except (NotImplementedError, RuntimeError, ValueError):
                continue
            caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        name = "Ctrl-C" if number is signal.SIGINT else number.name
        if self._writer is not None:
            self._while_closing(self._writer, name)
        elif self._signals == 1:
            flying = sum(lane.state.in_flight for lane in self._lanes)
            self._tell("draining", in_flight=flying, signal=name)
            for lane in self._lanes:
                lane.stop()
        elif self._task is not None:
            self._tell("stopping_at_once")
            self._task.cancel()

    def _while_closing(self, writer: GroupCommitWriter, name: str) -> None:
        """All answers are in and are being stored, which takes no time unless the store is in trouble."""
        if writer.trouble is None:
            return
        if self._signals == 1:
            self._tell("holding", waiting=writer.waiting, why=writer.trouble, signal=name)
        elif self._task is not None:
            self._task.cancel()

    async def closing(self, writer: GroupCommitWriter) -> int:
        """Close the writer, and return how many records had to be given up because the user would not wait."""
        self._writer = writer
        self._task = asyncio.get_running_loop().create_task(writer.close())
        try:
            await self._task
        except asyncio.CancelledError:
            if self._signals < 2:
                raise
            return await writer.abandon()
        return 0

    async def cancellable(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work; return early when the second signal comes."""
        self._task = asyncio.get_running_loop().create_task(work)
        try:
            await self._task
        except asyncio.CancelledError:
            if self._signals < 2:
                raise
