"""Starts the server of a model when its lane's turn comes, and stops it after the last answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hatevolution.adapters.serving.commands import deal
from hatevolution.adapters.serving.plan import plan_servers
from hatevolution.adapters.serving.servers import Aborted, ServerFailed
from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hatevolution.adapters.base import Adapter
    from hatevolution.adapters.serving.servers import ModelServers
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.events import Listeners
    from hatevolution.runner.lane import ModelLane

__all__ = ["Serving", "resources"]


def resources(model: ModelConfig, base_urls: tuple[str, ...]) -> list[object]:
    """Return what a model's server needs for itself: its addresses and, where it is started here, its GPUs."""
    needed: list[object] = list(base_urls)
    if model.server is not None:
        # Without GPUs named, a server takes the first one; so two of those never run side by side.
        needed += [("gpu", gpu) for slot in deal(model) for gpu in slot.gpus or (0,)]
    return needed


class Serving:
    """The servers of a run.

    Args:
        environ: The environment variables.
        logs: Folder for the servers' logs.
        tell: Is told what happens.
        redact: Takes secrets out of texts.
    """

    def __init__(
        self, environ: Mapping[str, str], logs: Path, *, tell: Listeners, redact: Callable[[str], str]
    ) -> None:
        self._environ = environ
        self._logs = logs
        self._tell = tell
        self._redact = redact
        self._planned: dict[str, ModelServers] = {}

    def plan(self, model: ModelConfig, adapter: Adapter) -> None:
        """Take note that nobody runs this model's server, so that it has to be started.

        Raises:
            ConfigError: It can't be.
        """
        self._planned[model.name] = plan_servers(
            model, adapter, self._environ, self._logs, tell=self._tell, redact=self._redact
        )

    def models(self) -> Iterable[str]:
        """Return the names of the models whose servers will be started."""
        return self._planned.keys()

    async def run(self, lane: ModelLane) -> None:
        """Run a lane, with its server around it where nobody else runs one."""
        servers = self._planned.get(lane.state.model)
        if servers is None or lane.stopping:
            await lane.run()
            return
        lane.state.phase, lane.state.why = "starting", "its server is starting"
        try:
            await servers.start(lambda: lane.stopping)
        except Aborted:
            pass
        except ServerFailed as failure:
            lane.stop(_of(failure))
        lane.state.why = ""
        try:
            # A lane that is stopped already asks nothing, but lets go of what it holds.
            await self._with_keeper(lane, servers)
        except asyncio.CancelledError:
            await servers.kill()
            raise
        finally:
            await servers.stop()

    @staticmethod
    async def _with_keeper(lane: ModelLane, servers: ModelServers) -> None:
        async def keep() -> None:
            try:
                await servers.keep()
            except ServerFailed as failure:
                lane.stop(_of(failure))

        keeper = asyncio.get_running_loop().create_task(keep())
        try:
            await lane.run()
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)


def _of(failure: ServerFailed) -> RequestFailure:
    return RequestFailure(FailureKind.UNREACHABLE, str(failure))
