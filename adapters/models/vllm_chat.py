"""``/v1/chat/completions`` of vLLM: one sentence per request, under the model's own chat template.

Options: ``enable_thinking`` (true or false, handed to templates that know it; left out: the template's default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.chat import ChatRoute
from hatevolution.adapters.models.chat_wire import CHAT_SENT, ChatBody, reserved
from hatevolution.adapters.models.settings import check_decoding, need_prompt, read_options
from hatevolution.adapters.models.vllm import VllmAdapter

if TYPE_CHECKING:
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig

__all__ = ["VllmChat"]

_TEMPLATE_MOST = 64
"""Tokens of a chat template around the messages, its own default system message included, at most: a generous guess."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    enable_thinking: bool | None = None


class VllmChat(VllmAdapter, ChatRoute):
    """A chat model behind vLLM."""

    _path = "/v1/chat/completions"
    _frame_most = _TEMPLATE_MOST

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        options = read_options(model, _Options)
        check_decoding(model, (*CHAT_SENT, "truncate_prompt_tokens"), reserved("truncate_prompt_tokens"))
        prompt = need_prompt(model, prompt)
        super().__init__(model, prompt, secrets, lists=False)
        self._truncated_at = model.decoding.truncate_prompt_tokens
        thinking = options.enable_thinking
        self._body = ChatBody(
            model,
            prompt,
            more={
                "truncate_prompt_tokens": self._truncated_at,
                "chat_template_kwargs": None if thinking is None else {"enable_thinking": thinking},
            },
        )
