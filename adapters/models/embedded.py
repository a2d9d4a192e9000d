"""Models that run in this process, in a thread of their own so that the event loop goes on.

``model`` in the TOML is one of ``alt-profanity-check``, ``always-respectful``, ``always-toxic``, ``seeded-random``.
Options: ``seed`` (whole number, default 0) for ``seeded-random``; the others have none.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.embedded_judges import Judge, ProfanityCheck, Random, Same
from hatevolution.adapters.models.said import Said
from hatevolution.adapters.models.settings import check_decoding, nearest, read_options
from hatevolution.configs.schema import IN_PROCESS
from hatevolution.domain import Answer, Label, Reply, Served, Status, TokenEstimate
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item

__all__ = ["Embedded"]

_NAMES = ("alt-profanity-check", "always-respectful", "always-toxic", "seeded-random")


class _NoOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Most judges have none."""


class _RandomOptions(msgspec.Struct, forbid_unknown_fields=True):
    seed: int = 0


def _judge(model: ModelConfig) -> Judge:
    if model.model == "seeded-random":
        return Random(read_options(model, _RandomOptions).seed)
    read_options(model, _NoOptions)
    if model.model == "alt-profanity-check":
        return ProfanityCheck()
    if model.model == "always-toxic":
        return Same(Label.TOXIC)
    if model.model == "always-respectful":
        return Same(Label.RESPECTFUL)
    raise ConfigError(
        f"The model {model.name!r} asks for the embedded model {model.model!r}{nearest(model.model, _NAMES)}; "
        f"there are: {', '.join(_NAMES)}."
    )


class Embedded:
    """One model in this process."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        del secrets  # needs none
        check_decoding(model, ())
        if prompt is not None:
            raise ConfigError(f"The model {model.name!r} names a prompt, but embedded models judge the bare sentence.")
        if model.endpoint.base_urls not in ((), (IN_PROCESS,)):
            raise ConfigError(f"The model {model.name!r} has base URLs, but an embedded model runs in this process.")
        self._model = model
        self._judge = _judge(model)
        self._said = Said(None)
        self._thread: ThreadPoolExecutor | None = None

    @property
    def base_urls(self) -> tuple[str, ...]:
        """One name that is no address."""
        return (IN_PROCESS,)

    @property
    def batch_size(self) -> int:
        """Sentences per call, as configured."""
        return self._model.endpoint.batch_size

    async def open(self) -> None:
        """Load the model, in its thread."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._model.model)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._judge.load)

    async def close(self) -> None:
        """Let the thread go; what it is doing is finished, what waits is not begun."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    async def probe(self, base_url: str) -> Served:
        """Return what it is; it is always there."""
        del base_url
        return Served((self._model.model,), self._judge.version)

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Judge these sentences."""
        del base_url
        if self._thread is None:
            raise RuntimeError("the adapter is not open")
        judgements = await asyncio.get_running_loop().run_in_executor(self._thread, self._judge.judge, items)
        version = self._judge.version
        body = json.dumps([said.word if said.scores is None else dict(said.scores) for said in judgements])
        return Reply(
            [
                Answer(Status.ANSWERED, said.word, said.scores, prompt_sha256=self._said.sha256(item.text))
                for item, said in zip(items, judgements, strict=True)
            ],
            body,
            served_model=self._model.model if version is None else f"{self._model.model} {version}",
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return zeros: tokens mean nothing here."""
        del item
        return TokenEstimate(0, 0, 0)
