from __future__ import annotations

import hashlib
from typing import Any

import pytest
from fake_base import Fault
from fake_openai import CATEGORIES, FakeOpenAI, moderated
from fake_setup import PROMPT, items, model, opened

from hatevolution.domain import Status
from hatevolution.errors import FailureKind, RequestFailure

ENVIRON = {"OPENAI_API_KEY": "sk-fake-canary-0123456789"}
NAME = "omni-moderation-2024-09-26"


def configured(server: FakeOpenAI, **fields: Any) -> Any:
    return model("openai-moderation", **{"model": NAME, "base_urls": (server.base_url,), **fields})


def flags(text: str) -> str:
    return "toxic" if "bad" in text else "respectful"


async def test_a_list_of_bare_sentences() -> None:
    texts = ["a bad one", "fine", "\ud800 bad"]
    async with FakeOpenAI(answer=flags) as server, opened(configured(server, batch_size=32), None, ENVIRON) as adapter:
        assert adapter.batch_size == 32
        reply = await adapter.ask(items(*texts), server.base_url)
        assert server.bodies[0] == {"model": NAME, "input": texts}
    assert [answer.raw_text for answer in reply.answers] == ["true", "false", "true"]
    for text, answer in zip(texts, reply.answers, strict=True):
        truth = moderated(text, flags(text))
        assert answer.status is Status.ANSWERED
        assert answer.scores is not None
        assert list(answer.scores) == [*CATEGORIES, "flagged"]
        assert {name: answer.scores[name] for name in CATEGORIES} == truth["category_scores"]
        assert answer.scores["flagged"] == float(truth["flagged"])
        assert answer.prompt_sha256 == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert reply.served_model == NAME
    assert reply.request_id is not None
    assert reply.request_id.startswith("req_")
    assert reply.rate_window is not None


async def test_one_sentence_is_sent_as_a_string_and_a_prompt_around_it_where_one_is_named() -> None:
    async with FakeOpenAI(answer=flags) as server, opened(configured(server), PROMPT, ENVIRON) as adapter:
        reply = await adapter.ask(items("x"), server.base_url)
        assert server.bodies[0] == {"model": NAME, "input": PROMPT.render("x")}
    assert reply.answers[0].prompt_sha256 == PROMPT.sha256("x")


async def test_categories_that_a_model_has_not_got_are_missing_and_not_zero() -> None:
    result = moderated("x", "toxic")
    result["category_scores"]["illicit"] = None
    async with FakeOpenAI() as server, opened(configured(server), None, ENVIRON) as adapter:
        server.fail(Fault(status=200, body={"id": "modr-1", "model": NAME, "results": [result]}))
        reply = await adapter.ask(items("x"), server.base_url)
    assert reply.answers[0].scores is not None
    assert "illicit" not in reply.answers[0].scores
    assert reply.request_id == "modr-1"


@pytest.mark.parametrize(
    "body",
    [
        {"results": []},
        {"results": [moderated("x", "toxic")] * 2},
        {"results": [{"flagged": True}]},
        {"results": [{"flagged": "yes", "category_scores": {}}]},
        {"results": [{"flagged": True, "category_scores": {"hate": "high"}}]},
        '{"results": [{"flagged": true, "category_scores": {"hate": NaN}}]}',
        '{"results": [{"flagged": true, "category_scores": {"hate": 1e999}}]}',
        {"id": "modr-1"},
    ],
)
async def test_what_holds_no_result_is_malformed(body: Any) -> None:
    async with FakeOpenAI() as server, opened(configured(server), None, ENVIRON) as adapter:
        server.fail(Fault(status=200, body=body))
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.MALFORMED


async def test_estimates_count_tokens_for_the_rate_limit() -> None:
    async with FakeOpenAI() as server, opened(configured(server), None, ENVIRON) as adapter:
        (item,) = items("a" * 400)
        estimate = adapter.estimate(item)
    assert 100 <= estimate.prompt_likely <= 120
    assert estimate.completion_most == 0
