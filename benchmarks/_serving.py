"""What the benchmarks of served models share: where the servers' environment is, weights, prompts, a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hatevolution.adapters import registry
from hatevolution.adapters.serving.plan import plan_servers
from hatevolution.configs.prompts import load_prompt
from hatevolution.configs.schema import ModelConfig
from hatevolution.domain import Item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hatevolution.adapters.base import Adapter

ROOT = Path(__file__).resolve().parent.parent


def serving_python() -> str:
    """Python of the environment with vLLM; leaves with a word where there is none."""
    python = os.environ.get("HATEVOLUTION_VLLM_PYTHON") or str(ROOT / ".venv-vllm" / "bin" / "python")
    if not Path(python).exists():
        print(f"left out: no environment with vLLM ({python}); `make serving-env` makes one")
        sys.exit(0)
    return python


def tiny_model(python: str, kind: str, folder: Path, size: str = "tiny") -> Path:
    script = ROOT / "tests" / "support" / "tiny_models.py"
    command = [python, "-P", str(script), kind, str(folder), "--size", size]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def model(adapter: str, weights: Path, **fields: Any) -> ModelConfig:
    """A model at a free port of this machine."""
    endpoint = {"base_urls": [f"http://127.0.0.1:{free_port()}/v1"], "timeout_s": 600, **fields.pop("endpoint", {})}
    server = {"weights": str(weights), **fields.pop("server", {})}
    given = {
        "name": "bench",
        "adapter": adapter,
        "model": "bench/model",
        "endpoint": endpoint,
        "server": server,
        **fields,
    }
    return msgspec.convert(given, ModelConfig)


@contextlib.asynccontextmanager
async def served(config: ModelConfig, python: str) -> AsyncIterator[Adapter]:
    """The model's adapter, with its server running."""
    environ = {**os.environ, "HATEVOLUTION_VLLM_PYTHON": python, "HATEVOLUTION_SEQ2SEQ_PYTHON": python}
    prompt = None if config.prompt is None else load_prompt(config.prompt)
    adapter = registry.create(config, prompt, environ)
    with tempfile.TemporaryDirectory() as logs:
        servers = plan_servers(config, adapter, environ, Path(logs), tell=lambda *_, **__: None, redact=str)
        await adapter.open()
        try:
            await servers.start()
            yield adapter
        finally:
            await servers.stop()
            await adapter.close()


async def rate(adapter: Adapter, texts: Sequence[str], *, size: int, in_flight: int) -> float:
    """Return the answers per second, asked in lists of ``size``, so many lists in flight."""
    items = [Item("bench", str(n), text) for n, text in enumerate(texts)]
    lists = iter([items[at : at + size] for at in range(0, len(items), size)])

    async def worker() -> None:
        for some in lists:
            await adapter.ask(some, adapter.base_urls[0])

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return len(items) / (time.perf_counter() - began)


def sentences(count: int) -> list[str]:
    who = ("my neighbour", "the cat", "nobody", "an old friend", "this song", "you people", "the rain", "she")
    does = ("never says thank you", "likes cold soup", "is slow today", "sleeps under the table", "makes me smile")
    return [f"{who[n % 8]} {does[n % 5]}" + ", and so on" * (n % 5) + f" ({n})" for n in range(count)]
