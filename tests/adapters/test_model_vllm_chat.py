from __future__ import annotations

import hashlib
from typing import Any

import pytest
from fake_base import Fault
from fake_setup import CHAT_PROMPT, PROMPT, items, model, opened
from fake_vllm import FakeVllm

from hatevolution.adapters.models.chat_wire import read_chat
from hatevolution.adapters.models.wire import Unreadable
from hatevolution.domain import Status
from hatevolution.errors import FailureKind, RequestFailure


def configured(server: FakeVllm, **fields: Any) -> Any:
    return model("vllm-chat", **{"base_urls": (server.base_url,), "max_tokens": 10, **fields})


async def test_system_and_user_message() -> None:
    async with FakeVllm(answer=lambda said: "Toxic.") as server, opened(configured(server), CHAT_PROMPT) as adapter:
        reply = await adapter.ask(items("hi \ud800 {text}"), server.base_url)
        assert server.bodies[0] == {
            "model": "fake/model",
            "messages": [
                {"role": "system", "content": "You are a test."},
                {"role": "user", "content": "Text: hi \ud800 {text}.\nOne word: "},
            ],
            "max_tokens": 10,
        }
    (answer,) = reply.answers
    assert (answer.status, answer.raw_text, answer.finish_reason) == (Status.ANSWERED, "Toxic.", "stop")
    said = "You are a test.\0Text: hi \ud800 {text}.\nOne word: "
    assert answer.prompt_sha256 == hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
    assert reply.prompt_tokens == answer.prompt_tokens
    assert reply.served_model == "fake/model"


async def test_without_a_system_message() -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        await adapter.ask(items("x"), server.base_url)
        assert server.bodies[0]["messages"] == [{"role": "user", "content": PROMPT.render("x")}]


async def test_options_and_cutting() -> None:
    fields: dict[str, Any] = {"options": {"enable_thinking": False}, "truncate_prompt_tokens": 6, "temperature": 0.0}
    async with FakeVllm() as server, opened(configured(server, **fields), PROMPT) as adapter:
        assert adapter.batch_size == 1
        long = await adapter.ask(items("one two three four five six"), server.base_url)
        body = server.bodies[0]
        short = await adapter.ask(items("x"), server.base_url)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["truncate_prompt_tokens"] == 6
    assert body["temperature"] == 0.0
    assert long.answers[0].truncated
    assert not short.answers[0].truncated


async def test_lists_are_never_sent() -> None:
    async with FakeVllm() as server, opened(configured(server, batch_size=32), PROMPT) as adapter:
        assert adapter.batch_size == 1


async def test_a_model_without_a_template() -> None:
    async with FakeVllm(chat_template=False) as server, opened(configured(server), PROMPT) as adapter:
        with pytest.raises(RequestFailure, match="chat template") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.PERMANENT


async def test_a_part_of_an_answer_is_no_answer() -> None:
    async with FakeVllm(finish_reason="abort") as server, opened(configured(server), PROMPT) as adapter:
        with pytest.raises(RequestFailure, match="broke off") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.TRANSIENT


async def test_a_success_without_a_message_is_malformed() -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        server.fail(Fault(status=200, body={"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]}))
        with pytest.raises(RequestFailure, match="no content") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.MALFORMED


def chat(message: str, finish_reason: str = "stop") -> bytes:
    return f'{{"choices": [{{"message": {message}, "finish_reason": "{finish_reason}"}}]}}'.encode()


@pytest.mark.parametrize(
    ("body", "status", "text", "reason"),
    [
        (chat('{"content": "toxic"}'), Status.ANSWERED, "toxic", "stop"),
        (chat('{"content": ""}'), Status.ANSWERED, "", "stop"),
        (chat('{"content": null}', "length"), Status.ANSWERED, None, "length"),
        (chat('{"content": "<think>", "reasoning": "r"}', "length"), Status.ANSWERED, "<think>", "length"),
        (chat('{"content": null, "refusal": "I can\'t."}'), Status.REFUSED, "I can't.", "refusal"),
        (chat('{"refusal": "I can\'t."}'), Status.REFUSED, "I can't.", "refusal"),
        (chat('{"content": "", "refusal": null}', "content_filter"), Status.REFUSED, "", "content_filter"),
        (chat('{"content": null}', "content_filter"), Status.REFUSED, None, "content_filter"),
        (chat(r'{"content": "a\ud800b\u0000"}'), Status.ANSWERED, "a\ud800b\0", "stop"),
    ],
)
def test_what_a_message_may_hold(body: bytes, status: Status, text: str | None, reason: str) -> None:
    answer = read_chat(body, "hash").answer
    assert (answer.status, answer.raw_text, answer.finish_reason) == (status, text, reason)
    assert answer.prompt_sha256 == "hash"


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": "a"}}, {"message": {"content": "b"}}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": ["a"]}}]}',
        b'{"choices": [{"message": {"content": 1}}]}',
        b'{"choices": [{"message": {}}]}',
    ],
)
def test_what_holds_no_answer(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_chat(body, "hash")


def test_estimates_count_both_messages() -> None:
    from hatevolution.adapters.registry import create

    adapter = create(model("vllm-chat", base_urls=("http://h/v1",)), CHAT_PROMPT, {})
    (item,) = items("abc")
    estimate = adapter.estimate(item)
    assert estimate.prompt_most >= len("You are a test.") + len("Text: abc.\nOne word: ")
    assert estimate.completion_most == 16_384
