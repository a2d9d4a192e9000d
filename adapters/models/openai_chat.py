"""OpenAI's chat completions: one sentence per request.

Options: ``max_tokens_field``, ``"max_tokens"`` (default, as the study sent it) or ``"max_completion_tokens"``, which
newer models want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from hatevolution.adapters.models.chat import ChatRoute
from hatevolution.adapters.models.chat_wire import CHAT_SENT, ChatBody, reserved
from hatevolution.adapters.models.headers import rate_window
from hatevolution.adapters.models.openai_endpoint import OpenAIAdapter
from hatevolution.adapters.models.settings import check_decoding, need_prompt, read_options

if TYPE_CHECKING:
    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import RateWindow

__all__ = ["OpenAIChat"]

_FRAME_MOST = 16
"""Tokens around system and user message, at most. OpenAI's cookbook ("How to count tokens with tiktoken") counts three
for each message, one for each role and three for the answer's beginning: eleven."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class OpenAIChat(OpenAIAdapter, ChatRoute):
    """A chat model of OpenAI, or of whoever speaks its format."""

    _path = "/chat/completions"
    _frame_most = _FRAME_MOST

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        options = read_options(model, _Options)
        check_decoding(model, CHAT_SENT, reserved())
        prompt = need_prompt(model, prompt)
        super().__init__(model, prompt, secrets, lists=False)
        self._body = ChatBody(model, prompt, limit_field=options.max_tokens_field)

    def _rate_window(self, arrived: Arrived) -> RateWindow | None:
        return rate_window(arrived.headers)
