"""``/v1/completions`` of vLLM, and of the project's own seq2seq server: a prompt is continued. Options: none."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.cut import Cut
from hatevolution.adapters.models.settings import check_decoding, check_no_system, need_prompt, read_options
from hatevolution.adapters.models.vllm import VllmAdapter
from hatevolution.adapters.models.wire import BROKEN_OFF, Unreadable, decoder, kept
from hatevolution.domain import Answer, Reply, Status
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate

__all__ = ["Completions", "Seq2Seq"]

_SENT = ("max_tokens", "temperature", "top_p", "seed", "stop", "truncate_prompt_tokens", "extra")
_RESERVED = frozenset(
    {"model", "prompt", "n", "best_of", "echo", "stream", "stream_options", "suffix", "prompt_embeds", *_SENT[:-1]}
)
_DEFAULT_MAX_TOKENS = 16
"""Of the completions format, where a request names none (OpenAI's API reference; vLLM does the same)."""
_SPECIALS = 2
"""Tokens that a tokeniser adds to a prompt, at most: one at its beginning, one at its end."""


class _Choice(msgspec.Struct):
    index: int
    text: str
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    usage: _Usage | None = None


_read = decoder(_Completion)
_NO_USAGE = _Usage()
_index = attrgetter("index")


class _NoOptions(msgspec.Struct, forbid_unknown_fields=True):
    """This adapter has none."""


class Completions(VllmAdapter):
    """A generating model, asked through ``/v1/completions`` with lists of prompts."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        read_options(model, _NoOptions)
        check_decoding(model, _SENT, _RESERVED)
        check_no_system(model, need_prompt(model, prompt))
        super().__init__(model, prompt, secrets, lists=True)
        self._cut = Cut(model.decoding.truncate_prompt_tokens, _SPECIALS)
        self._head = f'{{"model":{json.dumps(model.model)},"prompt":'
        self._tail = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in _fields(model)) + "}"
        self._cut_field = f',"truncate_prompt_tokens":{self._cut.limit}'

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Send the prompts of these sentences in one request.

        Raises:
            RequestFailure: No answer came.
        """
        arrived = await self._post(base_url, "/v1/completions", self._body([item.text for item in items]))
        try:
            completion = _read(arrived.body)
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        choices = completion.choices
        if len(choices) > 1:
            choices.sort(key=_index)
        if [choice.index for choice in choices] != list(range(len(items))):
            indices = [choice.index for choice in choices[:50]]
            raise self._faults.malformed(arrived, f"asked about {len(items)} sentences, it answers {indices}")
        if any(choice.finish_reason in BROKEN_OFF for choice in choices):
            raise self._faults.make(
                FailureKind.TRANSIENT, "The server broke off in the middle of an answer", arrived, maybe_billed=True
            )
        usage = completion.usage or _NO_USAGE
        return Reply(
            self._answers(items, choices, usage),
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or completion.id,
            completion.model,
            completion.system_fingerprint,
            usage.prompt_tokens,
            usage.completion_tokens,
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of the prompt and the most that are generated."""
        most = self._model.decoding.max_tokens or _DEFAULT_MAX_TOKENS
        return self._said.estimate(item.text, overhead=_SPECIALS, completion=most)

    def _body(self, texts: list[str]) -> str:
        if len(texts) == 1:
            cut = self._cut_field if self._cut.limit else ""
            return f"{self._head}{self._said.json(texts[0])}{cut}{self._tail}"
        if self._cut.limit and self._cut.must_split([self._said.text(text) for text in texts], None):
            raise self._faults.make(
                FailureKind.TOO_LONG,
                f"One of these sentences may have to be cut to {self._cut.limit} tokens; it has to be asked alone",
            )
        return f"{self._head}[{','.join(map(self._said.json, texts))}]{self._tail}"

    def _answers(self, items: Sequence[Item], choices: list[_Choice], usage: _Usage) -> list[Answer]:
        own = usage if len(items) == 1 else _NO_USAGE  # the usage of a list is that of all its sentences together
        truncated = self._cut.done(len(items), usage.prompt_tokens)
        sha256 = self._said.sha256
        return [
            Answer(
                Status.REFUSED if choice.finish_reason == "content_filter" else Status.ANSWERED,
                choice.text,
                None,
                choice.finish_reason,
                sha256(item.text),
                own.prompt_tokens,
                own.completion_tokens,
                truncated,
            )
            for item, choice in zip(items, choices, strict=True)
        ]


class Seq2Seq(Completions):
    """An encoder-decoder model behind the project's own server, which speaks the same format."""


def _fields(model: ModelConfig) -> list[tuple[str, object]]:
    """Return the request's fields besides model, prompt and cutting, in the order of the configuration."""
    decoding = model.decoding
    fields: list[tuple[str, object]] = [
        (name, getattr(decoding, name))
        for name in ("max_tokens", "temperature", "top_p", "seed")
        if getattr(decoding, name) is not None
    ]
    if decoding.stop:
        fields.append(("stop", list(decoding.stop)))
    return fields + sorted(decoding.extra.items())
