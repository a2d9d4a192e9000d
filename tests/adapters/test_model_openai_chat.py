from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from fake_openai import FakeOpenAI
from fake_setup import CHAT_PROMPT, items, model, opened

from hatevolution.adapters.registry import create
from hatevolution.domain import RateWindow, Status
from hatevolution.errors import FailureKind, RequestFailure

KEY = "sk-fake-canary-0123456789"
ENVIRON = {"OPENAI_API_KEY": KEY}


def configured(server: FakeOpenAI, **fields: Any) -> Any:
    return model("openai-chat", **{"model": "gpt-4o", "base_urls": (server.base_url,), "max_tokens": 10, **fields})


async def test_one_sentence_as_the_study_sent_it() -> None:
    async with (
        FakeOpenAI(answer=lambda said: " Toxic\n") as server,
        opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter,
    ):
        reply = await adapter.ask(items("hi {text}"), server.base_url)
        # No temperature, no seed: what is not set is not sent.
        assert server.bodies[0] == {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "You are a test."},
                {"role": "user", "content": "Text: hi {text}.\nOne word: "},
            ],
            "max_tokens": 10,
        }
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    (answer,) = reply.answers
    assert (answer.status, answer.raw_text, answer.finish_reason) == (Status.ANSWERED, " Toxic\n", "stop")
    assert answer.prompt_sha256 == hashlib.sha256(b"You are a test.\0Text: hi {text}.\nOne word: ").hexdigest()
    assert reply.served_model == "gpt-4o-2024-08-06"
    assert reply.system_fingerprint == "fp_fake"
    assert reply.request_id == "req_2"
    assert reply.rate_window == RateWindow(500, 499, 0.12, 30_000, 29_900, 360.0)
    body = json.loads(reply.body)
    assert body["service_tier"] == "default"
    assert body["usage"]["prompt_tokens"] == reply.prompt_tokens == answer.prompt_tokens
    assert body["usage"]["completion_tokens"] == reply.completion_tokens


async def test_decoding_fields() -> None:
    fields: dict[str, Any] = {
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 7,
        "stop": ("\n",),
        "extra": {"logprobs": True},
        "options": {"max_tokens_field": "max_completion_tokens"},
    }
    async with FakeOpenAI() as server, opened(configured(server, **fields), CHAT_PROMPT, ENVIRON) as adapter:
        await adapter.ask(items("x"), server.base_url)
        body = server.bodies[0]
    assert {name: body[name] for name in body if name not in ("model", "messages")} == {
        "max_completion_tokens": 10,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 7,
        "stop": ["\n"],
        "logprobs": True,
    }


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_a_part_of_an_answer_is_no_answer(reason: str) -> None:
    async with (
        FakeOpenAI(finish_reason=reason) as server,
        opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter,
    ):
        with pytest.raises(RequestFailure, match="broke off") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.TRANSIENT
    assert caught.value.maybe_billed


@pytest.mark.parametrize("text", ["", "\0", "\ud800 lone", "é漢🎉", '"\\{}%s', "x" * 900_000])
async def test_hard_texts_arrive_and_come_back(text: str) -> None:
    async with (
        FakeOpenAI(answer=lambda said: said) as server,
        opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter,
    ):
        reply = await adapter.ask(items(text), server.base_url)
    assert reply.answers[0].raw_text == f"You are a test.\n{CHAT_PROMPT.render(text)}"


@pytest.mark.parametrize(
    ("message", "finish_reason", "status", "text", "reason"),
    [
        ({"content": None}, "length", Status.ANSWERED, None, "length"),
        ({"content": ""}, "stop", Status.ANSWERED, "", "stop"),
        ({"content": None, "refusal": "I can't help."}, "stop", Status.REFUSED, "I can't help.", "refusal"),
        ({"content": None}, "content_filter", Status.REFUSED, None, "content_filter"),
    ],
)
async def test_empty_cut_and_refused_are_three_things(
    message: dict[str, Any], finish_reason: str, status: Status, text: str | None, reason: str
) -> None:
    async with (
        FakeOpenAI(message=message, finish_reason=finish_reason) as server,
        opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter,
    ):
        (answer,) = (await adapter.ask(items("x"), server.base_url)).answers
    assert (answer.status, answer.raw_text, answer.finish_reason) == (status, text, reason)


async def test_a_success_without_an_answer_is_malformed() -> None:
    async with (
        FakeOpenAI(message={"content": ["parts"]}) as server,
        opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter,
    ):
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
    assert (caught.value.kind, caught.value.maybe_billed) == (FailureKind.MALFORMED, True)


def test_what_is_billed_stays_below_the_estimate() -> None:
    adapter = create(model("openai-chat", model="gpt-4o", max_tokens=10), CHAT_PROMPT, ENVIRON)
    (item,) = items("a" * 1000)
    estimate = adapter.estimate(item)
    # A byte-level BPE makes at most one token of a byte; OpenAI's frame of two messages is eleven tokens.
    assert estimate.prompt_most == len("You are a test.") + len(CHAT_PROMPT.render("a" * 1000)) + 16
    assert 1000 / 4 < estimate.prompt_likely < 1000 / 3
    assert estimate.completion_most == 10
    unlimited = create(model("openai-chat", model="gpt-4o"), CHAT_PROMPT, ENVIRON)
    assert unlimited.estimate(item).completion_most == 16_384


async def test_the_default_address_is_openais_own() -> None:
    assert create(model("openai-chat", model="gpt-4o"), CHAT_PROMPT, ENVIRON).base_urls == (
        "https://api.openai.com/v1",
    )
