"""Compares what comes through the whole path (prompt, wire, server) with transformers called directly."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hatevolution.adapters.serving import reference
from hatevolution.adapters.serving.commands import weights
from hatevolution.adapters.serving.programs import python_for
from hatevolution.configs.schema import Server
from hatevolution.domain import Item
from hatevolution.errors import ConfigError, FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hatevolution.adapters.base import Adapter
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Reply

__all__ = ["SENTENCES", "Compared", "Told", "ask", "checked_model", "compare", "refer"]

SENTENCES = (
    "Good morning, dear neighbours!",
    "you people never say thank you",
    "This soup is cold; nobody likes cold soup.",
    "My café serves naïve jalapeños \N{PILE OF POO} \N{THUMBS UP SIGN}\N{ZERO WIDTH JOINER}\u4f60\u597d",
    'A {brace}, a %s, a \\ and "quotes"\tand a tab,\n\nand  two  blanks ',
    "#NoMoreMondays @everybody sooo tired lol",
    "He said that she said that they said that " * 30 + "it was fine.",
)
"""Mild, made up, and awkward: accents, emoji, joiners, braces, blanks, a long one."""

_LONG = "word " * 700 + "end"
"""For models whose inputs are cut."""

_TIE = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.25}
"""Differences of log probabilities that the number format alone explains: a few units in the last place of a logit of
about 20, which has 24, 11 or 8 significant bits. Elsewhere the same greedy choice has to be made."""
_QUANTIZED_TIE = 0.5
_PROBABILITY = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
_QUANTIZED_PROBABILITY = 5e-2


class Told(NamedTuple):
    """What came through the whole path for one sentence."""

    text: str
    """The sentence."""
    raw_text: str | None
    scores: Mapping[str, float] | None
    prompt_token_ids: list[int] | None
    token_ids: list[int] | None
    rejected: str | None
    """Why the server did not take it; None where it did."""


class Compared(NamedTuple):
    """How one sentence fared."""

    sentence: str
    verdict: str
    """``equal``, ``tie`` (another choice where two were equally good within the number format), ``differs`` or
    ``rejected``."""
    detail: str
    server: str
    reference: str


def checked_model(model: ModelConfig) -> ModelConfig:
    """Return the model as it is asked for a check: greedily, and with the token ids in the answers."""
    if model.adapter == "vllm-classify":
        return model
    decoding = model.decoding
    extra = {**decoding.extra, "return_token_ids": True}
    return msgspec.structs.replace(model, decoding=msgspec.structs.replace(decoding, temperature=0.0, extra=extra))


async def ask(model: ModelConfig, adapter: Adapter, base_url: str) -> list[Told]:
    """Send the sentences as the runner would, in lists where the route takes them.

    Args:
        model: As :func:`checked_model` returns it.
        adapter: Its adapter, open.
        base_url: Which server.
    """
    texts = [*SENTENCES, _LONG] if model.decoding.truncate_prompt_tokens is not None else list(SENTENCES)
    items = [Item("check", str(number), text) for number, text in enumerate(texts)]
    told: list[Told] = []
    size = adapter.batch_size
    for start in range(0, len(items), size):
        told += await _ask(model, adapter, base_url, items[start : start + size])
    return told


async def _ask(model: ModelConfig, adapter: Adapter, base_url: str, items: Sequence[Item]) -> list[Told]:
    try:
        reply = await adapter.ask(items, base_url)
    except RequestFailure as failure:
        if failure.kind is not FailureKind.TOO_LONG:
            raise
        if len(items) == 1:
            return [Told(items[0].text, None, None, None, None, str(failure))]
        middle = len(items) // 2
        first = await _ask(model, adapter, base_url, items[:middle])
        return first + await _ask(model, adapter, base_url, items[middle:])
    return _told(model, items, reply)


def _told(model: ModelConfig, items: Sequence[Item], reply: Reply) -> list[Told]:
    if model.adapter == "vllm-classify":
        return [
            Told(item.text, answer.raw_text, answer.scores, None, None, None)
            for item, answer in zip(items, reply.answers, strict=True)
        ]
    body = json.loads(reply.body)
    choices = sorted(body["choices"], key=lambda choice: int(choice["index"]))
    return [
        Told(
            item.text,
            answer.raw_text,
            None,
            choice.get("prompt_token_ids", body.get("prompt_token_ids")),
            choice.get("token_ids"),
            None,
        )
        for item, answer, choice in zip(items, reply.answers, choices, strict=True)
    ]


async def refer(
    model: ModelConfig, prompt: Prompt | None, told: Sequence[Told], environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Ask transformers, in the server's environment, about the same sentences.

    Raises:
        ConfigError: It can't be asked there.
    """
    server = model.server or Server()
    question = {
        "kind": model.adapter.removeprefix("vllm-"),
        "weights": weights(model, environ),
        "revision": model.revision,
        "dtype": server.dtype,
        "quantization": server.quantization,
        "truncate": model.decoding.truncate_prompt_tokens,
        "max_tokens": model.decoding.max_tokens or 16,
        "template": {key: value for key, value in model.options.items() if key == "enable_thinking"},
        "asked": [
            {"prompt": _said(model, prompt, one.text), "token_ids": one.token_ids} for one in told if not one.rejected
        ],
    }
    process = await asyncio.create_subprocess_exec(
        python_for(model, environ),
        "-P",
        reference.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environ),
    )
    try:
        answer, complaints = await process.communicate(json.dumps(question).encode("ascii"))
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        last = complaints.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise ConfigError(f"transformers could not be asked about the model {model.name!r}: {last[0]}")
    answers: list[dict[str, Any]] = json.loads(answer)
    return answers


def _said(model: ModelConfig, prompt: Prompt | None, text: str) -> object:
    said = text if prompt is None else prompt.render(text)
    if model.adapter != "vllm-chat":
        return said
    system = [] if prompt is None or prompt.system is None else [{"role": "system", "content": prompt.system}]
    return [*system, {"role": "user", "content": said}]


def compare(model: ModelConfig, told: Sequence[Told], answers: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """Return how each sentence fared.

    Args:
        model: The model.
        told: What came through the whole path.
        answers: What transformers says to those that were not rejected, in their order.
    """
    rest = iter(answers)
    compared = []
    for one in told:
        if one.rejected is not None:
            compared.append(Compared(one.text, "rejected", one.rejected, "", ""))
        elif model.adapter == "vllm-classify":
            compared.append(_probabilities(model, one, next(rest)))
        else:
            compared.append(_tokens(model, one, next(rest)))
    return compared


def _bound(model: ModelConfig, by_format: Mapping[str, float], quantized: float) -> float:
    server = model.server or Server()
    if server.quantization is not None:
        return quantized
    # "auto" may be any of them, and most often is bfloat16.
    return by_format.get(server.dtype, by_format["bfloat16"])


def _probabilities(model: ModelConfig, one: Told, answer: Mapping[str, Any]) -> Compared:
    scores = dict(one.scores or {})
    expected = dict(zip(answer["labels"], answer["probs"], strict=True))
    said = ", ".join(f"{name} {value:.5f}" for name, value in scores.items())
    meant = ", ".join(f"{name} {value:.5f}" for name, value in expected.items())
    named = set(scores) == set(expected)
    if not named and list(scores) != [str(index) for index in range(len(expected))]:
        detail = f"the model's config calls its classes {answer['labels']}, options.classes says {list(scores)}"
        return Compared(one.text, "differs", detail, said, meant)
    values = [scores[name] for name in expected] if named else list(scores.values())
    worst = max(abs(value - other) for value, other in zip(values, expected.values(), strict=True))
    verdict = "equal" if worst <= _bound(model, _PROBABILITY, _QUANTIZED_PROBABILITY) else "differs"
    return Compared(one.text, verdict, f"probabilities differ by {worst:.1e} at most", said, meant)


def _tokens(model: ModelConfig, one: Told, answer: Mapping[str, Any]) -> Compared:
    def verdict(word: str, detail: str) -> Compared:
        return Compared(one.text, word, detail, one.raw_text or "", answer["text"])

    if one.prompt_token_ids is None or one.token_ids is None:
        return verdict("differs", "the server gives no token ids (return_token_ids), so nothing can be compared")
    if one.prompt_token_ids != answer["prompt_token_ids"]:
        mine, theirs = one.prompt_token_ids, answer["prompt_token_ids"]
        at = next(
            (n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
        )
        return verdict("differs", f"the prompts' tokens differ at {at} ({len(mine)} here, {len(theirs)} there)")
    at = answer["differs_at"]
    if at is not None:
        gap = answer["gap"]
        tie = gap <= _bound(model, _TIE, _QUANTIZED_TIE)
        return verdict("tie" if tie else "differs", f"token {at} is another one; log probabilities {gap:.4f} apart")
    mine, theirs = (_without_end(ids, answer["ends"]) for ids in (one.token_ids, answer["token_ids"]))
    if mine != theirs and not (model.decoding.stop and theirs[: len(mine)] == mine):
        return verdict("differs", f"{len(mine)} tokens here, {len(theirs)} there")
    # vLLM holds back a character of which not all bytes have come, where transformers shows U+FFFD at the end.
    here, there = ((text or "").strip().rstrip("\ufffd") for text in (one.raw_text, answer["text"]))
    if here != there and not model.decoding.stop:
        return verdict("differs", "the same tokens, but another text")
    return verdict("equal", f"{len(mine)} tokens")


def _without_end(ids: list[int], ends: list[int]) -> list[int]:
    return ids[:-1] if ids and ids[-1] in ends else ids
