"""OpenAI's moderation endpoint: a list of texts per request, all scores kept.

The sentence is sent bare, or inside a prompt where the model's file names one: the study's released code sent the whole
instruction. Options: none.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.headers import rate_window
from hatevolution.adapters.models.openai_endpoint import OpenAIAdapter
from hatevolution.adapters.models.settings import check_decoding, check_no_system, read_options
from hatevolution.adapters.models.wire import Unreadable, decoder, kept
from hatevolution.domain import Answer, Reply, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate

__all__ = ["OpenAIModeration"]

_FRAME_MOST = 8
"""Tokens that the endpoint may add to a text, at most: a guess; it is free, so that only the rate limit uses it."""


class _NoOptions(msgspec.Struct, forbid_unknown_fields=True):
    """This adapter has none."""


class _Result(msgspec.Struct):
    flagged: bool
    category_scores: dict[str, float | None]
    """A category that the model doesn't know is null."""


class _Moderation(msgspec.Struct):
    results: list[_Result]
    id: str | None = None
    model: str | None = None


_read = decoder(_Moderation)


class OpenAIModeration(OpenAIAdapter):
    """A moderation model of OpenAI."""

    batch_url = "/v1/moderations"

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        read_options(model, _NoOptions)
        check_decoding(model, ())
        check_no_system(model, prompt)
        super().__init__(model, prompt, secrets, lists=True)
        self._head = f'{{"model":{json.dumps(model.model)},"input":'

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Send these sentences in one request; the results come in their order.

        Raises:
            RequestFailure: No answer came.
        """
        return self._read(items, await self._post(base_url, "/moderations", self.write(items)))

    def write(self, items: Sequence[Item]) -> str:
        """Return the request body, JSON in ASCII, that asks about these sentences."""
        texts = [self._said.json(item.text) for item in items]
        inputs = texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"
        return f"{self._head}{inputs}}}"

    def receive(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        """Return what a response of a batch says about these sentences.

        Raises:
            RequestFailure: It is no answer.
        """
        return self._read(items, self._success(arrived))

    def _read(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        try:
            moderation = _read(arrived.body)
            answers = [
                _answer(result, self._said.sha256(item.text))
                for item, result in zip(items, moderation.results, strict=False)
            ]
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        if len(moderation.results) != len(items):
            raise self._faults.malformed(
                arrived, f"asked about {len(items)} sentences, it holds {len(moderation.results)} results"
            )
        return Reply(
            answers,
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or moderation.id,
            moderation.model,
            rate_window=rate_window(arrived.headers),
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of the text; a moderation model generates none."""
        return self._said.estimate(item.text, overhead=_FRAME_MOST, completion=0)


def _answer(result: _Result, sha256: str) -> Answer:
    """Return the answer: ``flagged`` as the JSON word that came, every score by its own name, ``flagged`` last."""
    scores = {name: value for name, value in result.category_scores.items() if value is not None}
    if not all(map(math.isfinite, scores.values())):
        raise Unreadable("a score is not finite")
    scores["flagged"] = float(result.flagged)
    return Answer(Status.ANSWERED, "true" if result.flagged else "false", scores, prompt_sha256=sha256)
