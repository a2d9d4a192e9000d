"""An event loop whose clock jumps to the next timer when nothing else is to be done: minutes pass in milliseconds.

Work in threads (``run_in_executor``) takes no virtual time: while any is under way the clock stands still. A loop that
would wait for ever raises :class:`Deadlock` instead. Not for sockets: those take real time.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

T = TypeVar("T")

START_S = 1_000.0
"""Where the clock begins; not 0, so that nobody takes a time for a truth value."""


class Deadlock(RuntimeError):
    """Everybody waits, and nothing is scheduled that could wake them."""


class _JumpingSelector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if self.loop.busy:
            return super().select(None)  # a thread will wake us through the loop's own pipe
        if timeout is None:
            raise Deadlock("nothing is ready and nothing is scheduled")
        self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module's description."""

    def __init__(self) -> None:
        self.now = START_S
        self.busy = 0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self.busy += 1
        future.add_done_callback(self._idle)
        return future

    def _idle(self, _future: object) -> None:
        self.busy -= 1


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, as ``asyncio.run`` does."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def elapsed() -> float:
    """Return the virtual seconds since the running loop was made."""
    return asyncio.get_running_loop().time() - START_S
