"""From a model to its servers: what is to be started where, with which log. Starts nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hatevolution.adapters.serving.commands import command, deal
from hatevolution.adapters.serving.programs import find_programs
from hatevolution.adapters.serving.servers import ModelServers, Planned
from hatevolution.configs.schema import Server
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hatevolution.adapters.base import Adapter
    from hatevolution.adapters.serving.servers import Tell
    from hatevolution.configs.schema import ModelConfig

__all__ = ["plan_servers"]


def plan_servers(
    model: ModelConfig,
    adapter: Adapter,
    environ: Mapping[str, str],
    logs: Path,
    *,
    tell: Tell,
    redact: Callable[[str], str],
) -> ModelServers:
    """Return the servers of a model, none of them started.

    Args:
        model: The model; it has a ``[server]`` table.
        adapter: Its adapter.
        environ: The environment variables.
        logs: Folder for the servers' logs, made if it is not there.
        tell: Is told what happens.
        redact: Takes secrets out of texts.

    Raises:
        ConfigError: The server's package is not installed, its weights are not where they should be, or the
            configuration can't be followed.
    """
    programs = find_programs(model, environ)
    slots = deal(model)
    name = re.sub(r"[^\w.-]+", "_", model.name)
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {logs} for the servers' logs can't be made: {error.strerror}.") from None
    planned = [
        Planned(
            slot,
            command(model, slot, programs, environ),
            (logs / (f"{name}.log" if len(slots) == 1 else f"{name}-{number}.log")).resolve(),
        )
        for number, slot in enumerate(slots, 1)
    ]
    return ModelServers(model.name, model.server or Server(), adapter, planned, tell=tell, redact=redact)
