"""The servers of one model: started one after the other, kept alive, stopped."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hatevolution.adapters.serving.logs import explain, tail
from hatevolution.adapters.serving.process import ServerProcess
from hatevolution.errors import FailureKind, HatevolutionError, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hatevolution.adapters.base import Adapter
    from hatevolution.adapters.serving.commands import Slot
    from hatevolution.adapters.serving.process import Command
    from hatevolution.configs.schema import Server

__all__ = ["Aborted", "ModelServers", "Planned", "ServerFailed", "Tell"]

_POLL_S = 0.25
_WATCH_S = 1.0
_PAUSE_MOST_S = 30.0
_REFUSALS = 3
"""A server whose port refuses so many connections in a row, a second apart, is finished, though its process may hang:
vLLM closes its port on SIGTERM and may then keep the requests in flight for ever."""


class ServerFailed(HatevolutionError):
    """A server could not be started, or not kept alive; the text is a sentence for people."""


class Aborted(HatevolutionError):
    """Nobody wants the server any more."""


class Tell(Protocol):
    """Somebody who is told what happens."""

    def __call__(self, event: str, **fields: object) -> None:
        """Take note of an event."""


class Planned(NamedTuple):
    """One server to be started."""

    slot: Slot
    command: Command
    log: Path


class _One:
    """One of a model's servers."""

    def __init__(self, planned: Planned, stop_timeout_s: float) -> None:
        self.slot = planned.slot
        self.process = ServerProcess(planned.command, planned.log, stop_timeout_s=stop_timeout_s)
        self.foreign = False
        """Somebody else runs it."""
        self.restarts = 0


class ModelServers:
    """All servers of one model.

    Args:
        name: The model's name, for messages.
        server: How they live.
        adapter: Open; says whether a server answers and serves the right model.
        planned: One for each base URL.
        tell: Is told ``server_starting``, ``server_ready``, ``server_died`` and ``server_log``.
        redact: Takes secrets out of what a log says.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        adapter: Adapter,
        planned: Sequence[Planned],
        *,
        tell: Tell,
        redact: Callable[[str], str],
    ) -> None:
        self._name = name
        self._server = server
        self._adapter = adapter
        self._ones = [_One(one, server.stop_timeout_s) for one in planned]
        self._tell = tell
        self._redact = redact

    @property
    def pids(self) -> list[int]:
        """Process ids of the servers that run now."""
        return [one.process.pid for one in self._ones if one.process.alive and one.process.pid is not None]

    @property
    def started(self) -> list[str]:
        """Base URLs of the servers that were started here, not found."""
        return [one.slot.base_url for one in self._ones if not one.foreign]

    async def start(self, aborted: Callable[[], bool] = lambda: False) -> None:
        """Start those that nobody runs yet and wait until all answer; on failure none of them is left.

        Args:
            aborted: Asked now and then; True ends the waiting.

        Raises:
            ServerFailed: One did not come up.
            Aborted: As asked.
        """
        try:
            for one in self._ones:
                one.foreign = await self._runs_already(one)
            async with asyncio.TaskGroup() as group:
                for one in self._ones:
                    if not one.foreign:
                        group.create_task(self._bring_up(one, aborted))
        except BaseException as error:
            await self.kill()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise

    async def _runs_already(self, one: _One) -> bool:
        try:
            await self._adapter.probe(one.slot.base_url)
        except RequestFailure as failure:
            if failure.kind is FailureKind.UNREACHABLE:
                return False
            raise ServerFailed(
                f"The server of {self._name} can't be started, since something else answers there: {failure}"
            ) from None
        return True

    async def _bring_up(self, one: _One, aborted: Callable[[], bool]) -> None:
        """Start a server and wait until it answers and serves the right model."""
        loop = asyncio.get_running_loop()
        process, url = one.process, one.slot.base_url
        self._tell("server_starting", model=self._name, base_url=url, log=str(process.log))
        began = loop.time()
        await process.start()
        why = "it has not answered"
        while loop.time() - began < self._server.startup_timeout_s:
            if aborted():
                raise Aborted
            if not process.alive:
                raise self._failed(one, "ended while it was starting")
            try:
                await self._adapter.probe(url)
            except RequestFailure as failure:
                if failure.kind in (FailureKind.WRONG_MODEL, FailureKind.AUTH):
                    raise ServerFailed(f"The server of {self._name} came up, but: {failure}") from None
                why = str(failure)
            else:
                if process.alive:
                    self._tell("server_ready", model=self._name, base_url=url, seconds=round(loop.time() - began, 1))
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await process.ended()
        raise self._failed(one, f"did not come up within {self._server.startup_timeout_s:g} s ({why})")

    def _failed(self, one: _One, what: str) -> ServerFailed:
        process = one.process
        for line in tail(process.log):
            self._tell("server_log", model=self._name, line=self._redact(line))
        code = process.exit_code
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        why = process.problem or self._redact(explain(process.log))
        because = f": {why.rstrip('.')}" if why else ""
        return ServerFailed(f"The server of {self._name} {what}{how}{because}. Its log is {process.log}.")

    async def keep(self) -> None:
        """Watch the servers and start again those that die; runs until cancelled.

        Raises:
            ServerFailed: One died too often, or could not be started again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for one in self._ones:
                    if not one.foreign:
                        group.create_task(self._keep(one))
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None

    async def _keep(self, one: _One) -> None:
        while True:
            await self._death(one)
            code = one.process.exit_code
            self._tell("server_died", model=self._name, base_url=one.slot.base_url, exit_code=code)
            failure = self._failed(one, "died")
            while True:
                await one.process.kill()
                one.restarts += 1
                if one.restarts > self._server.restarts:
                    times = f"It was started again {self._server.restarts} times, as server.restarts allows."
                    raise ServerFailed(f"{failure} {times}")
                # A device may need a moment to have its memory back.
                await asyncio.sleep(min(_PAUSE_MOST_S, 2.0 ** (one.restarts - 1) - 1))
                try:
                    await self._bring_up(one, lambda: False)
                except ServerFailed as again:
                    failure = again
                else:
                    break

    @staticmethod
    async def _death(one: _One) -> None:
        """Wait until the process has ended, or its port is closed for good."""
        refusals = 0
        while one.process.alive and refusals < _REFUSALS:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_S):
                    await one.process.ended()
            refusals = refusals + 1 if await _refuses(one.slot) else 0

    async def stop(self) -> None:
        """Stop all that were started here, gently; returns when nothing of them is left."""
        await self._end(kill=False)

    async def kill(self) -> None:
        """Stop all that were started here, at once."""
        await self._end(kill=True)

    async def _end(self, *, kill: bool) -> None:
        mine = [one.process for one in self._ones if not one.foreign]
        await asyncio.gather(*(process.kill() if kill else process.stop() for process in mine))


async def _refuses(slot: Slot) -> bool:
    try:
        async with asyncio.timeout(_WATCH_S):
            _, writer = await asyncio.open_connection(slot.host, slot.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False  # busy, or out of file descriptors here
    writer.close()
    return False
