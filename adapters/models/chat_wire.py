"""Chat completions, as vLLM and OpenAI speak them: request body and response."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hatevolution.adapters.models.said import Said, json_string
from hatevolution.adapters.models.wire import Unreadable, decoder
from hatevolution.domain import Answer, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item

__all__ = ["CHAT_SENT", "DEFAULT_MAX_TOKENS", "ChatBody", "Spoken", "read_chat", "reserved"]

CHAT_SENT = ("max_tokens", "temperature", "top_p", "seed", "stop", "extra")
DEFAULT_MAX_TOKENS = 16_384
"""Where nothing limits the answer: the most that gpt-4o generates (its model page); used for estimates alone."""


def reserved(*more: str) -> frozenset[str]:
    """Return the names of request fields that ``decoding.extra`` may not set."""
    fixed = {"model", "messages", "n", "stream", "stream_options", "tools", "max_completion_tokens"}
    return frozenset(fixed | set(CHAT_SENT[:-1]) | set(more))


class ChatBody:
    """Writes the bodies of one model's requests; only the sentence changes between them.

    Args:
        model: The model; its decoding fields are sent where they are set.
        prompt: System message (if any) and user message.
        limit_field: What the endpoint calls ``max_tokens``.
        more: Further fields, sent as they are.
    """

    def __init__(
        self,
        model: ModelConfig,
        prompt: Prompt,
        *,
        limit_field: str = "max_tokens",
        more: Mapping[str, object] | None = None,
    ) -> None:
        self._said = Said(prompt)
        decoding = model.decoding
        system = "" if prompt.system is None else f'{{"role":"system","content":{json_string(prompt.system)}}},'
        self._head = f'{{"model":{json.dumps(model.model)},"messages":[{system}{{"role":"user","content":'
        fields: dict[str, object] = {
            limit_field: decoding.max_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": decoding.seed,
            "stop": list(decoding.stop) or None,
            **dict(sorted(decoding.extra.items())),
            **(more or {}),
        }
        sent = [f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items() if value is not None]
        self._tail = f"}}]{''.join(sent)}}}"

    def write(self, item: Item) -> str:
        """Return the JSON body, in ASCII, that asks about a sentence."""
        return f"{self._head}{self._said.json(item.text)}{self._tail}"


class _Message(msgspec.Struct):
    content: str | msgspec.UnsetType | None = msgspec.UNSET
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    usage: _Usage | None = None


_read = decoder(_Chat)


class Spoken(NamedTuple):
    """What a response says."""

    answer: Answer
    id: str | None
    model: str | None
    system_fingerprint: str | None


def read_chat(raw: bytes, sha256: str, *, truncated_at: int | None = None) -> Spoken:
    """Read a response.

    An answer of nothing (``content`` null, as after a cut in the middle of a thought) stays None and ``""`` stays
    ``""``. A refusal is told by its own field or by the finish reason ``content_filter``; its text is kept.

    Args:
        raw: The body of a success.
        sha256: Of what was said, for the answer.
        truncated_at: The number of prompt tokens that means that the input was cut; None: none was.

    Raises:
        Unreadable: It does not hold exactly one answer.
    """
    chat = _read(raw)
    if len(chat.choices) != 1:
        raise Unreadable(f"it has {len(chat.choices)} choices and should have one")
    choice, usage = chat.choices[0], chat.usage or _Usage()
    content, refusal = choice.message.content, choice.message.refusal
    if content is msgspec.UNSET and refusal is None:
        raise Unreadable("its message has no content")
    text = refusal if content is msgspec.UNSET or content is None else content
    refused = refusal is not None or choice.finish_reason == "content_filter"
    answer = Answer(
        Status.REFUSED if refused else Status.ANSWERED,
        text,
        None,
        "refusal" if refusal is not None else choice.finish_reason,
        sha256,
        usage.prompt_tokens,
        usage.completion_tokens,
        truncated_at is not None and usage.prompt_tokens is not None and usage.prompt_tokens >= truncated_at,
    )
    return Spoken(answer, chat.id, chat.model, chat.system_fingerprint)
