"""Short ways to a model's configuration, an open adapter and some sentences, for tests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from hatevolution.adapters.registry import create
from hatevolution.configs.prompts import Prompt
from hatevolution.configs.schema import Decoding, Endpoint, ModelConfig
from hatevolution.domain import Item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hatevolution.adapters.base import Adapter

PROMPT = Prompt("test", 1, "Say: {", "}.\nAnswer: ", None)
CHAT_PROMPT = Prompt("test-chat", 1, "Text: ", ".\nOne word: ", "You are a test.")


def model(adapter: Any, **fields: Any) -> ModelConfig:
    """Return a configuration; fields of the endpoint and of decoding may stand beside the model's own."""
    endpoint = {name: fields.pop(name) for name in Endpoint.__struct_fields__ if name in fields}
    decoding = {name: fields.pop(name) for name in Decoding.__struct_fields__ if name in fields}
    own: dict[str, Any] = {"name": "tested", "model": "fake/model", **fields}
    return ModelConfig(adapter=adapter, endpoint=Endpoint(**endpoint), decoding=Decoding(**decoding), **own)


def items(*texts: str) -> list[Item]:
    return [Item("set", f"s{index}", text) for index, text in enumerate(texts)]


@contextlib.asynccontextmanager
async def opened(
    config: ModelConfig, prompt: Prompt | None = None, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Adapter]:
    adapter = create(config, prompt, environ or {})
    await adapter.open()
    try:
        yield adapter
    finally:
        await adapter.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own timeout ends it otherwise."""
    while not true():  # noqa: ASYNC110 - the fakes count, and signal nothing
        await asyncio.sleep(0.01)
