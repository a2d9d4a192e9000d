from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from fake_base import Fault
from fake_setup import PROMPT, items, model, opened
from fake_vllm import FakeVllm

from hatevolution.domain import Status
from hatevolution.errors import FailureKind, RequestFailure

MEAN = {"max_tokens": 20, "temperature": 0.0}


def configured(server: FakeVllm, kind: str = "vllm-completions", **fields: Any) -> Any:
    return model(kind, **{"base_urls": (server.base_url,), **MEAN, **fields})


@pytest.mark.parametrize("kind", ["vllm-completions", "seq2seq"])
async def test_one_sentence(kind: str) -> None:
    async with (
        FakeVllm(answer=lambda said: " 'toxic'\n") as server,
        opened(configured(server, kind), PROMPT) as adapter,
    ):
        reply = await adapter.ask(items("hello {there}"), server.base_url)
        (answer,) = reply.answers
        assert answer.status is Status.ANSWERED
        assert answer.raw_text == " 'toxic'\n"
        assert answer.finish_reason == "stop"
        said = "Say: {hello {there}}.\nAnswer: "
        assert answer.prompt_sha256 == hashlib.sha256(said.encode()).hexdigest()
        assert server.sent == {said: 1}
        assert server.bodies[0] == {"model": "fake/model", "prompt": said, "max_tokens": 20, "temperature": 0.0}
        assert server.headers[0]["Content-Type"] == "application/json"
        assert (reply.prompt_tokens, reply.completion_tokens) == (6, 1)
        assert (answer.prompt_tokens, answer.completion_tokens) == (6, 1)
        assert (reply.served_model, reply.system_fingerprint) == ("fake/model", "vllm-0.32.0-tp1-fake")
        assert reply.http_status == 200
        body = json.loads(reply.body)
        assert body["choices"][0]["text"] == " 'toxic'\n"
        assert reply.request_id == body["id"]


async def test_a_list_is_matched_by_index_and_not_by_order() -> None:
    texts = [f"sentence {number}" for number in range(32)]
    config_fields: dict[str, Any] = {"batch_size": 32}
    async with (
        FakeVllm(answer=lambda said: f"echo {said}") as server,
        opened(configured(server, **config_fields), PROMPT) as adapter,
    ):
        assert adapter.batch_size == 32
        reply = await adapter.ask(items(*texts), server.base_url)
        assert server.requests == 1
        assert json.loads(reply.body)["choices"][0]["index"] == 31  # the fake turns the order round
        assert [answer.raw_text for answer in reply.answers] == [f"echo {PROMPT.render(text)}" for text in texts]
        assert [answer.prompt_sha256 for answer in reply.answers] == [PROMPT.sha256(text) for text in texts]
        # The usage is that of the whole request; no sentence may claim it.
        assert reply.prompt_tokens == 32 * 6
        assert all(answer.prompt_tokens is None and answer.completion_tokens is None for answer in reply.answers)


async def test_every_decoding_field_is_sent_and_nothing_else() -> None:
    fields: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "stop": ("\n", "."),
        "extra": {"repetition_penalty": 1.1, "add_special_tokens": False},
    }
    async with FakeVllm() as server, opened(configured(server, **fields), PROMPT) as adapter:
        await adapter.ask(items("x"), server.base_url)
        assert server.bodies[0] == {
            "model": "fake/model",
            "prompt": PROMPT.render("x"),
            "max_tokens": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "stop": ["\n", "."],
            "repetition_penalty": 1.1,
            "add_special_tokens": False,
        }


async def test_no_temperature_is_sent_where_none_is_set() -> None:
    async with (
        FakeVllm() as server,
        opened(model("vllm-completions", base_urls=(server.base_url,)), PROMPT) as adapter,
    ):
        await adapter.ask(items("x"), server.base_url)
        assert server.bodies[0] == {"model": "fake/model", "prompt": PROMPT.render("x")}


HARD = [
    "",
    " ",
    "\0nul\0",
    "\ud800 lone",
    "lone \udfff",
    "\x1b[31mred\x1b[0m",
    '"quotes" \\ back',
    "é漢🎉",
    "[red]",
    "%s {x}",
]


@pytest.mark.parametrize("text", HARD)
async def test_hard_texts_arrive_and_come_back(text: str) -> None:
    async with FakeVllm(answer=lambda said: said) as server, opened(configured(server), PROMPT) as adapter:
        reply = await adapter.ask(items(text), server.base_url)
        assert reply.answers[0].raw_text == PROMPT.render(text)
        assert server.sent == {PROMPT.render(text): 1}


async def test_hard_texts_in_a_list() -> None:
    async with (
        FakeVllm(answer=lambda said: said) as server,
        opened(configured(server, batch_size=20), PROMPT) as adapter,
    ):
        reply = await adapter.ask(items(*HARD), server.base_url)
        assert [answer.raw_text for answer in reply.answers] == [PROMPT.render(text) for text in HARD]


async def test_empty_answers_stay_empty() -> None:
    async with (
        FakeVllm(answer=lambda said: "", finish_reason="length") as server,
        opened(configured(server), PROMPT) as adapter,
    ):
        (answer,) = (await adapter.ask(items("x"), server.base_url)).answers
    assert (answer.status, answer.raw_text, answer.finish_reason) == (Status.ANSWERED, "", "length")


async def test_huge_sentences_and_answers() -> None:
    huge = "word " * 600_000  # three megabytes
    async with (
        FakeVllm(answer=lambda said: huge, max_model_len=10**7) as server,
        opened(configured(server), PROMPT) as adapter,
    ):
        reply = await adapter.ask(items(huge), server.base_url)
    assert reply.answers[0].raw_text == huge


async def test_a_content_filter_is_a_refusal() -> None:
    async with FakeVllm(finish_reason="content_filter") as server, opened(configured(server), PROMPT) as adapter:
        (answer,) = (await adapter.ask(items("x"), server.base_url)).answers
    assert (answer.status, answer.finish_reason) == (Status.REFUSED, "content_filter")


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_a_part_of_an_answer_is_no_answer(reason: str) -> None:
    async with FakeVllm(finish_reason=reason) as server, opened(configured(server), PROMPT) as adapter:
        with pytest.raises(RequestFailure, match="broke off") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.TRANSIENT
    assert caught.value.maybe_billed


def choice(index: Any, text: Any = "toxic") -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": "stop"}


MALFORMED = [
    "",
    "not json",
    "<html>ok</html>",
    "{}",
    "[]",
    {"choices": []},
    {"choices": [choice(1)]},
    {"choices": [choice(0), choice(1)]},
    {"choices": [choice(0), choice(0)]},
    {"choices": [choice(0, None)]},
    {"choices": [choice("0")]},
    {"choices": [{"index": 0}]},
    {"choices": None},
    {"error": {"message": "a failure that says it is a success"}},
    b'{"choices": [{"index": 0, "text": "tox',
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("body", MALFORMED)
async def test_a_success_without_an_answer_is_malformed(body: Any) -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        server.fail(Fault(status=200, body=body))
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
    failure = caught.value
    assert failure.kind is FailureKind.MALFORMED
    assert failure.http_status == 200
    assert failure.maybe_billed
    assert failure.body is not None


async def test_a_list_with_an_answer_missing_is_malformed() -> None:
    async with FakeVllm() as server, opened(configured(server, batch_size=3), PROMPT) as adapter:
        server.fail(Fault(status=200, body={"choices": [choice(0), choice(2)]}))
        with pytest.raises(RequestFailure, match=r"asked about 3 sentences, it answers \[0, 2\]"):
            await adapter.ask(items("a", "b", "c"), server.base_url)


async def test_cutting_is_asked_for_and_told() -> None:
    config_fields: dict[str, Any] = {"truncate_prompt_tokens": 8, "batch_size": 4}
    async with FakeVllm() as server, opened(configured(server, **config_fields), PROMPT) as adapter:
        long = await adapter.ask(items("one two three four five six seven eight"), server.base_url)
        assert server.bodies[-1]["truncate_prompt_tokens"] == 8
        assert long.answers[0].truncated
        short = await adapter.ask(items("one"), server.base_url)
        assert not short.answers[0].truncated


async def test_a_list_in_which_something_may_have_to_be_cut_is_halved_without_being_sent() -> None:
    config_fields: dict[str, Any] = {"truncate_prompt_tokens": 100, "batch_size": 4}
    async with FakeVllm() as server, opened(configured(server, **config_fields), PROMPT) as adapter:
        with pytest.raises(RequestFailure, match="asked alone") as caught:
            await adapter.ask(items("short", "x" * 200), server.base_url)
        assert caught.value.kind is FailureKind.TOO_LONG
        assert server.requests == 0
        reply = await adapter.ask(items("short", "x" * 50), server.base_url)
        assert "truncate_prompt_tokens" not in server.bodies[-1]
        assert [answer.truncated for answer in reply.answers] == [False, False]


def test_estimates() -> None:
    from hatevolution.adapters.registry import create

    adapter = create(model("vllm-completions", base_urls=("http://h/v1",), max_tokens=20), PROMPT, {})
    (item,) = items("é" * 100)
    estimate = adapter.estimate(item)
    assert estimate.prompt_most == 200 + len(PROMPT.before) + len(PROMPT.after) + 2
    assert estimate.completion_most == 20
    assert 25 < estimate.prompt_likely < 50
    unlimited = create(model("vllm-completions", base_urls=("http://h/v1",)), PROMPT, {})
    assert unlimited.estimate(item).completion_most == 16
