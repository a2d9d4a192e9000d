"""The work of ``hatevolution serve``."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatevolution.adapters import registry
from hatevolution.adapters.redact import Redactor
from hatevolution.adapters.serving.check import ask, checked_model, compare, refer
from hatevolution.adapters.serving.commands import serves
from hatevolution.adapters.serving.plan import plan_servers
from hatevolution.adapters.serving.servers import ServerFailed
from hatevolution.configs.load import load_model
from hatevolution.configs.prompts import load_prompt
from hatevolution.errors import ConfigError, RequestFailure
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from hatevolution.adapters.serving.check import Compared, Told
    from hatevolution.adapters.serving.servers import ModelServers

__all__ = ["Session"]

_EVENTS = {
    "server_starting": "starting the server at {base_url}; its log is {log}",
    "server_ready": "the server answers, after {seconds} s",
    "server_died": "the server at {base_url} died (exit code {exit_code})",
    "server_log": "  | {line}",
}


class Session:
    """One model and its servers.

    Args:
        reference: Name of a shipped model, or path of a TOML file.
        logs: Folder for the servers' logs.

    Raises:
        ConfigError: There is no such model, or its server can't be started from here.
    """

    def __init__(self, reference: str, logs: str) -> None:
        self.model, path = load_model(reference)
        if not serves(self.model):
            raise ConfigError(
                f"{path} has no [server] table, so its server is somebody else's; add one to have it started."
            )
        self._prompt = None if self.model.prompt is None else load_prompt(self.model.prompt, path.parent)
        self._logs = Path(logs)
        self._environ = dict(os.environ)
        self._redact = Redactor.of(self._environ).text

    def serve(self) -> int:
        """Keep the servers until interrupted; return the exit code."""
        return 1 if self._run(self._serve()) is None else 0

    def check(self) -> list[Compared] | None:
        """Return how the sentences fared; None where the server failed."""
        told = self._run(self._check())
        if told is None:
            return None
        self._say("asking transformers")
        model = checked_model(self.model)
        answers = asyncio.run(refer(model, self._prompt, told, self._environ))
        return compare(model, told, answers)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine; SIGTERM interrupts it as Ctrl-C does. None where the server failed."""
        try:
            signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
            return asyncio.run(work)
        except ServerFailed as failure:
            self._say(str(failure))
            return None
        except RequestFailure as failure:
            self._say(f"The server declined: {failure}")
            return None

    async def _serve(self) -> bool:
        adapter = registry.create(self.model, self._prompt, self._environ)
        servers = plan_servers(self.model, adapter, self._environ, self._logs, tell=self._tell, redact=self._redact)
        await adapter.open()
        try:
            await servers.start()
            if not servers.started:
                self._say(f"{self.model.model} is served already at {', '.join(adapter.base_urls)}; nothing to start")
                return True
            self._say(f"{self.model.model} is served at {', '.join(adapter.base_urls)}; Ctrl-C stops it")
            await servers.keep()
        finally:
            await self._end(servers)
            await adapter.close()
        return True

    async def _check(self) -> list[Told]:
        model = checked_model(self.model)
        adapter = registry.create(model, self._prompt, self._environ)
        servers = plan_servers(model, adapter, self._environ, self._logs, tell=self._tell, redact=self._redact)
        await adapter.open()
        try:
            await servers.start()
            told: list[Told] = []
            for url in adapter.base_urls:
                told += await ask(model, adapter, url)
            return told
        finally:
            # Before transformers loads the same weights: a GPU seldom has room for both.
            await self._end(servers)
            await adapter.close()

    async def _end(self, servers: ModelServers) -> None:
        if servers.pids:
            self._say("stopping the server")
        await servers.stop()

    def _tell(self, event: str, **fields: object) -> None:
        if event in _EVENTS:
            self._say(_EVENTS[event].format_map({key: one_line(str(value), 400) for key, value in fields.items()}))

    @staticmethod
    def _say(text: str) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')}  {one_line(text)}", err=True)
