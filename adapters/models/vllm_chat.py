"""``/v1/chat/completions`` of vLLM: one sentence per request, under the model's own chat template.

Options: ``enable_thinking`` (true or false, handed to templates that know it; left out: the template's default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.chat_wire import (
    BROKEN_OFF,
    CHAT_SENT,
    DEFAULT_MAX_TOKENS,
    ChatBody,
    read_chat,
    reserved,
)
from hatevolution.adapters.models.settings import check_decoding, need_prompt, read_options
from hatevolution.adapters.models.vllm import VllmAdapter
from hatevolution.adapters.models.wire import Unreadable, kept
from hatevolution.domain import Reply
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate

__all__ = ["VllmChat"]

_TEMPLATE_MOST = 64
"""Tokens of a chat template around the messages, its own default system message included, at most: a generous guess."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    enable_thinking: bool | None = None


class VllmChat(VllmAdapter):
    """A chat model behind vLLM."""

    batch_url = "/v1/chat/completions"

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        options = read_options(model, _Options)
        check_decoding(model, (*CHAT_SENT, "truncate_prompt_tokens"), reserved("truncate_prompt_tokens"))
        prompt = need_prompt(model, prompt)
        super().__init__(model, prompt, secrets, lists=False)
        self._limit = model.decoding.truncate_prompt_tokens
        thinking = options.enable_thinking
        self._body = ChatBody(
            model,
            prompt,
            more={
                "truncate_prompt_tokens": self._limit,
                "chat_template_kwargs": None if thinking is None else {"enable_thinking": thinking},
            },
        )

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Ask about one sentence.

        Raises:
            RequestFailure: No answer came.
        """
        return self._read(items, await self._post(base_url, "/v1/chat/completions", self.write(items)))

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
            spoken = read_chat(arrived.body, self._said.sha256(item.text), truncated_at=self._limit)
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        answer = spoken.answer
        if answer.finish_reason in BROKEN_OFF:
            # The server is shutting down, or its engine failed: what it sent is a part of an answer.
            raise self._faults.make(
                FailureKind.TRANSIENT, "The server broke off in the middle of an answer", arrived, maybe_billed=True
            )
        return Reply(
            (answer,),
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or spoken.id,
            spoken.model,
            spoken.system_fingerprint,
            answer.prompt_tokens,
            answer.completion_tokens,
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of both messages and the most that are generated."""
        most = self._model.decoding.max_tokens or DEFAULT_MAX_TOKENS
        return self._said.estimate(item.text, overhead=_TEMPLATE_MOST, completion=most)
