"""One server process, in the care of a guard (:mod:`hatevolution.adapters.serving.guard`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.serving import guard

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Command", "ServerProcess"]

_GUARD_S = 10.0
"""What the guard may need beyond the server's own time to stop."""


class Command(NamedTuple):
    """What to start."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment."""


class ServerProcess:
    """A command that is started, watched and stopped; nothing of it outlives this process, killed or not.

    Args:
        command: What to start.
        log: File for its output; the folder has to be there.
        stop_timeout_s: How long it may take to end before it is killed, in seconds.
    """

    def __init__(self, command: Command, log: Path, *, stop_timeout_s: float) -> None:
        self._command = command
        self.log = log
        self._stop_timeout_s = stop_timeout_s
        self._guard: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._started = False
        self.pid: int | None = None
        """Of the server, which leads a process group of that number."""
        self.exit_code: int | None = None
        """Negative: the signal that ended it. None while it lives, or where that is not known."""
        self.problem: str | None = None
        """Why it could not be started."""

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._watch is not None and not self._watch.done()

    async def start(self) -> None:
        """Start it; whether that worked is seen later, by :attr:`alive`. A second start adds to the log."""
        mode = "ab" if self._started else "wb"
        self._started = True
        self.pid = self.exit_code = self.problem = None
        self._guard = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            guard.__file__,
            str(self.log),
            mode,
            str(self._stop_timeout_s),
            *self._command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(self._command.env),
            # Ctrl-C at the terminal is for this program; what becomes of the server is its decision.
            start_new_session=True,
        )
        self._watch = asyncio.get_running_loop().create_task(self._listen(self._guard))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - asked for as a pipe
        async for line in process.stdout:
            said = json.loads(line)
            self.pid = said.get("pid", self.pid)
            self.exit_code = said.get("exited", self.exit_code)
            self.problem = said.get("failed", self.problem)
        await process.wait()
        if self.exit_code is None and self.pid is not None:
            # The guard was killed. The kernel took the server with it; its children may still be there.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def ended(self) -> None:
        """Wait until it has ended, by itself or not."""
        if self._watch is not None:
            await asyncio.shield(self._watch)

    async def stop(self) -> None:
        """End it gently, then by force, and wait until all of it is gone; cancelled meanwhile, kill it at once."""
        if self._guard is None or self._watch is None:
            return
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            async with asyncio.timeout(self._stop_timeout_s + _GUARD_S):
                await self.ended()
        except TimeoutError:
            await self.kill()
        except asyncio.CancelledError:
            self._kill_soon()
            raise

    async def kill(self) -> None:
        """End all of it at once and wait until it is gone."""
        if self._guard is None or self._watch is None:
            return
        self._kill_soon()
        try:
            async with asyncio.timeout(_GUARD_S):
                await self.ended()
        except TimeoutError:
            # A stopped guard (SIGSTOP) does nothing more; strays may be left.
            with contextlib.suppress(ProcessLookupError):
                self._guard.kill()
            await self.ended()

    def _kill_soon(self) -> None:
        """Have the guard kill it; that goes on even if this program ends now."""
        if self._guard is not None and self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._guard.send_signal(signal.SIGUSR1)
