from __future__ import annotations

import hashlib
from typing import Any

import pytest
from fake_base import Fault
from fake_setup import items, model, opened
from fake_vllm import FakeVllm, hashed_probabilities

from hatevolution.domain import Status
from hatevolution.errors import FailureKind, RequestFailure


def configured(server: FakeVllm, **fields: Any) -> Any:
    return model("vllm-classify", **{"base_urls": (server.base_url,), **fields})


def pooling(**fields: Any) -> FakeVllm:
    return FakeVllm(**{"runner": "pooling", "max_model_len": 512, **fields})


async def test_all_probabilities_in_the_models_own_order() -> None:
    texts = ["first", "second", "", "\ud800\0"]
    config_fields = {"batch_size": 8, "options": {"classes": ["nothate", "hate"]}}
    async with pooling() as server, opened(configured(server, **config_fields), None) as adapter:
        reply = await adapter.ask(items(*texts), server.base_url)
        assert server.bodies[0] == {"model": "fake/model", "input": texts}
        assert server.requests == 1
    for text, answer in zip(texts, reply.answers, strict=True):
        probabilities = hashed_probabilities(text)
        assert answer.status is Status.ANSWERED
        assert answer.scores is not None
        assert list(answer.scores.items()) == [("nothate", probabilities[0]), ("hate", probabilities[1])]
        assert answer.raw_text == ("hate" if probabilities[1] > probabilities[0] else "nothate")
        assert answer.prompt_sha256 == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        assert answer.prompt_tokens is None
    assert reply.prompt_tokens == 3 + 3 + 2 + 3
    assert reply.served_model == "fake/model"


async def test_one_sentence_is_sent_as_a_string() -> None:
    async with pooling() as server, opened(configured(server), None) as adapter:
        reply = await adapter.ask(items("hello"), server.base_url)
        assert server.bodies[0] == {"model": "fake/model", "input": "hello"}
    assert reply.answers[0].prompt_tokens == 3


async def test_without_class_names_the_places_are_the_names() -> None:
    async with (
        pooling(classes=None, probabilities=lambda text: [0.2, 0.5, 0.3]) as server,
        opened(configured(server), None) as adapter,
    ):
        (answer,) = (await adapter.ask(items("x"), server.base_url)).answers
    assert answer.raw_text == "LABEL_1"
    assert answer.scores == {"0": 0.2, "1": 0.5, "2": 0.3}


async def test_names_of_the_file_go_with_a_server_that_has_none() -> None:
    async with (
        pooling(classes=None, probabilities=lambda text: [0.2, 0.8]) as server,
        opened(configured(server, options={"classes": ["nothate", "hate"]}), None) as adapter,
    ):
        (answer,) = (await adapter.ask(items("x"), server.base_url)).answers
    assert (answer.raw_text, answer.scores) == ("LABEL_1", {"nothate": 0.2, "hate": 0.8})


@pytest.mark.parametrize(
    ("classes", "says"), [(["hate", "nothate"], "orders its classes differently"), (["a", "b", "c"], "has 2 classes")]
)
async def test_a_model_whose_classes_are_others_stops_the_lane(classes: list[str], says: str) -> None:
    async with (
        pooling(probabilities=lambda text: [0.2, 0.8]) as server,
        opened(configured(server, options={"classes": classes}), None) as adapter,
    ):
        with pytest.raises(RequestFailure, match=says) as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.WRONG_MODEL


def row(index: int = 0, probs: Any = (0.5, 0.5), count: int = 2) -> dict[str, Any]:
    return {"index": index, "label": "hate", "probs": list(probs), "num_classes": count}


@pytest.mark.parametrize(
    "body",
    [
        {"data": []},
        {"data": [row(1)]},
        {"data": [row(0), row(0)]},
        {"data": [row(count=3)]},
        {"data": [row(probs=(), count=0)]},
        {"data": [row(probs=("a", "b"))]},
        {"data": [row(probs=(None, 0.5))]},
        '{"data": [{"index": 0, "label": "hate", "probs": [NaN, 0.5], "num_classes": 2}]}',
        '{"data": [{"index": 0, "label": "hate", "probs": [1e999, 0.5], "num_classes": 2}]}',
        "",
    ],
)
async def test_what_holds_no_probabilities_is_malformed(body: Any) -> None:
    async with pooling() as server, opened(configured(server), None) as adapter:
        server.fail(Fault(status=200, body=body))
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.MALFORMED


LONG = "word " * 600  # 602 tokens
NEARLY = "word " * 400  # 402 tokens, 2000 bytes


async def test_long_sentences_are_cut_alone_and_marked() -> None:
    async with (
        pooling() as server,
        opened(configured(server, truncate_prompt_tokens=512, batch_size=4), None) as adapter,
    ):
        await adapter.probe(server.base_url)
        # The server's own window is the limit: it refuses the list, and the runner halves it.
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items(LONG, "short"), server.base_url)
        assert caught.value.kind is FailureKind.TOO_LONG
        assert "truncate_prompt_tokens" not in server.bodies[-1]
        alone = await adapter.ask(items(LONG), server.base_url)
        assert server.bodies[-1]["truncate_prompt_tokens"] == 512
        assert alone.answers[0].truncated
        assert alone.answers[0].prompt_tokens == 512
        together = await adapter.ask(items(NEARLY, "short"), server.base_url)
        assert [answer.truncated for answer in together.answers] == [False, False]


async def test_a_server_with_a_larger_window_is_not_left_to_read_more_than_the_limit() -> None:
    async with (
        pooling(max_model_len=4096) as server,
        opened(configured(server, truncate_prompt_tokens=512, batch_size=4), None) as adapter,
    ):
        await adapter.probe(server.base_url)
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items(LONG, "short"), server.base_url)
        assert caught.value.kind is FailureKind.TOO_LONG
        assert server.requests == 0
        assert (await adapter.ask(items(LONG), server.base_url)).answers[0].truncated
        assert not (await adapter.ask(items(NEARLY), server.base_url)).answers[0].truncated


async def test_without_a_limit_what_does_not_fit_is_too_long() -> None:
    async with pooling() as server, opened(configured(server), None) as adapter:
        with pytest.raises(RequestFailure, match="maximum model length") as caught:
            await adapter.ask(items(LONG), server.base_url)
    assert caught.value.kind is FailureKind.TOO_LONG
    assert caught.value.http_status == 400


async def test_a_generating_server_has_no_such_route() -> None:
    async with FakeVllm() as server, opened(configured(server), None) as adapter:
        with pytest.raises(RequestFailure, match="Not Found") as caught:
            await adapter.ask(items("x"), server.base_url)
    assert caught.value.kind is FailureKind.WRONG_MODEL


async def test_an_address_without_v1_is_the_same_server() -> None:
    async with pooling() as server, opened(configured(server, base_urls=(server.root,)), None) as adapter:
        assert (await adapter.probe(server.root)).models == ("fake/model",)
        assert (await adapter.ask(items("x"), server.root)).answers[0].scores
