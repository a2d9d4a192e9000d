"""Which resources a model's worker asks Ray for, and what becomes of its server's addresses where Ray puts it."""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hatevolution.configs.schema import ModelConfig

__all__ = ["Need", "gpus_needed", "log_folder", "needs", "on_this_machine", "vllm_asks_ray"]

_CONNECT_S = 1.0


class Need(NamedTuple):
    """What the workers of one model with a server of its own ask for."""

    gpus: int
    """Of each worker."""
    workers: int
    """How many of them there can be."""
    problem: str | None
    """Why there can be none."""


def gpus_needed(config: ModelConfig) -> int:
    """Return how many GPUs of one node the servers of a model take."""
    server = config.server
    if server is None or vllm_asks_ray(config):
        return 0
    # Without GPUs named, all of a model's servers share the first one (adapters/serving/commands.py).
    return len(server.gpus) or 1


def vllm_asks_ray(config: ModelConfig) -> bool:
    """Whether vLLM spreads the model over nodes by itself, with Ray as its executor: it then asks Ray for the GPUs."""
    joined = " ".join(config.server.extra_args if config.server is not None else ()).replace("=", " ").split()
    option = "--distributed-executor-backend"
    return any(pair == (option, "ray") for pair in itertools.pairwise(joined))


def needs(models: Iterable[ModelConfig], nodes: Iterable[Mapping[str, float]]) -> dict[str, Need]:
    """Share the GPUs of a cluster out among the models that have servers of their own.

    Each model gets at least one worker, which waits for its turn where there are more models than GPUs; where there
    are fewer, each gets its equal share of workers.

    Args:
        models: Those with a ``[server]`` table.
        nodes: The resources of each node that is alive.
    """
    models, there = list(models), [int(node.get("GPU", 0)) for node in nodes]
    found = {}
    for config in models:
        gpus = gpus_needed(config)
        if gpus and not any(there) and config.server is not None and not config.server.gpus:
            gpus = 0  # no GPU in the whole cluster and none named: a server for the CPU
        if gpus == 0:
            found[config.name] = Need(0, 1, None)
            continue
        places = sum(gpu // gpus for gpu in there)
        problem = None
        if not places:
            problem = (
                f"The server of {config.name} needs {gpus} GPU{'s' if gpus > 1 else ''} on one node, and the cluster's "
                f"nodes have {', '.join(map(str, there)) or 'none'}."
            )
        found[config.name] = Need(gpus, max(1, places // len(models)), problem)
    return found


async def on_this_machine(config: ModelConfig) -> ModelConfig:
    """Return the configuration of a model's server as it can be started where Ray has put its worker.

    Ray chooses the GPUs (CUDA_VISIBLE_DEVICES holds them alone), so they are counted from 0. Several models' servers
    may run on one machine, so each gets ports that are free. Addresses where somebody answers already are kept.
    """
    server, urls = config.server, config.endpoint.base_urls
    if server is None or not urls or await _answers(urls):
        return config
    changed = msgspec.structs.replace(server, gpus=tuple(range(len(server.gpus))))
    ports = _free_ports(len(urls))
    moved = tuple(_with_port(url, port) for url, port in zip(urls, ports, strict=True))
    return msgspec.structs.replace(
        config, server=changed, endpoint=msgspec.structs.replace(config.endpoint, base_urls=moved)
    )


async def _answers(urls: Iterable[str]) -> bool:
    for url in urls:
        parts = urlsplit(url)
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        except (OSError, TimeoutError):
            return False
        writer.close()
    return True


def _with_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.hostname}:{port}").geturl()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def log_folder(wanted: str) -> Path:
    """Return where a worker's servers log: beside the store where this machine has that folder, else where it can."""
    folder = Path(wanted)
    if not (folder.parent.is_dir() and os.access(folder.parent, os.W_OK)):
        folder = Path(tempfile.gettempdir()) / folder.name
    return folder / f"{platform.node()}-{os.getpid()}"
