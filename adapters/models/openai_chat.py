"""OpenAI's chat completions: one sentence per request.

Options: ``max_tokens_field``, ``"max_tokens"`` (default, as the study sent it) or ``"max_completion_tokens"``, which
newer models want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from hatevolution.adapters.models.chat_wire import CHAT_SENT, DEFAULT_MAX_TOKENS, ChatBody, read_chat, reserved
from hatevolution.adapters.models.headers import rate_window
from hatevolution.adapters.models.openai_endpoint import OpenAIAdapter
from hatevolution.adapters.models.settings import check_decoding, need_prompt, read_options
from hatevolution.adapters.models.wire import Unreadable, kept
from hatevolution.domain import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate

__all__ = ["OpenAIChat"]

_FRAME_MOST = 16
"""Tokens around system and user message, at most. OpenAI's cookbook ("How to count tokens with tiktoken") counts three
for each message, one for each role and three for the answer's beginning: eleven."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class OpenAIChat(OpenAIAdapter):
    """A chat model of OpenAI, or of whoever speaks its format."""

    batch_url = "/v1/chat/completions"

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        options = read_options(model, _Options)
        check_decoding(model, CHAT_SENT, reserved())
        prompt = need_prompt(model, prompt)
        super().__init__(model, prompt, secrets, lists=False)
        self._body = ChatBody(model, prompt, limit_field=options.max_tokens_field)

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Ask about one sentence.

        Raises:
            RequestFailure: No answer came.
        """
        return self._read(items, await self._post(base_url, "/chat/completions", self.write(items)))

    def write(self, items: Sequence[Item]) -> str:
        """Return the request body, JSON in ASCII, that asks about one sentence."""
        (item,) = items
        return self._body.write(item)

    def receive(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        """Return what a response of a batch says about one sentence.

        Raises:
            RequestFailure: It is no answer.
        """
        return self._read(items, self._success(arrived))

    def _read(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        (item,) = items
        try:
            spoken = read_chat(arrived.body, self._said.sha256(item.text))
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        answer = spoken.answer
        return Reply(
            (answer,),
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or spoken.id,
            spoken.model,
            spoken.system_fingerprint,
            answer.prompt_tokens,
            answer.completion_tokens,
            rate_window(arrived.headers),
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of both messages and the most that are generated."""
        most = self._model.decoding.max_tokens or DEFAULT_MAX_TOKENS
        return self._said.estimate(item.text, overhead=_FRAME_MOST, completion=most)
