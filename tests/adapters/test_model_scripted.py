from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from fake_setup import PROMPT, items, model, opened

from hatevolution.adapters.models.script import parse
from hatevolution.domain import Item, Status
from hatevolution.errors import ConfigError, FailureKind, RequestFailure

HERE = "scripted"
K = FailureKind


def configured(*failures: str, **fields: Any) -> Any:
    options = {"failures": list(failures), **fields.pop("options", {})}
    return model("scripted", options=options, **fields)


async def outcomes(adapter: Any, count: int, start: int = 0) -> list[str]:
    """Ask one sentence after the other; return the answer's status or the failure's kind of each."""
    found: list[str] = []
    for number in range(start, start + count):
        try:
            reply = await adapter.ask([Item("set", f"s{number}", "text")], HERE)
        except RequestFailure as failure:
            found.append(str(failure.kind))
        else:
            found.append(str(reply.answers[0].status))
    return found


async def test_answers_depend_on_the_sentence_alone() -> None:
    asked = [Item("set", f"s{number}", "text") for number in range(300)]
    async with opened(configured(batch_size=300), PROMPT) as adapter:
        together = [answer.raw_text for answer in (await adapter.ask(asked, HERE)).answers]
        for item in random.Random(0).sample(asked, 50):
            alone = await adapter.ask([item], HERE)
            assert alone.answers[0].raw_text == together[asked.index(item)]
            assert alone.answers[0].prompt_sha256 == PROMPT.sha256("text")
    counts = Counter(together)
    assert set(counts) == {"toxic", "respectful"}
    assert min(counts.values()) > 100


async def test_answers_in_turn() -> None:
    options = {"answers": ["a", "b", "c"], "choose": "cycle"}
    async with opened(configured(options=options, batch_size=4)) as adapter:
        reply = await adapter.ask(items("1", "2", "3", "4"), HERE)
    assert [answer.raw_text for answer in reply.answers] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_every_kind_of_failure_can_be_played(kind: FailureKind) -> None:
    async with opened(configured(f"{kind} always")) as adapter:
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), HERE)
    failure = caught.value
    assert failure.kind is kind
    assert failure.maybe_billed == (kind in (K.TIMEOUT, K.MALFORMED))
    assert (failure.http_status is None) == (kind in (K.TIMEOUT, K.UNREACHABLE))


@pytest.mark.parametrize(("word", "status"), [("refused", Status.REFUSED), ("rejected", Status.REJECTED)])
async def test_sentences_can_be_declined(word: str, status: Status) -> None:
    async with opened(configured(f"{word} every 2")) as adapter:
        assert await outcomes(adapter, 4) == ["answered", str(status), "answered", str(status)]


async def test_statuses_and_waits() -> None:
    async with opened(configured("429 every 2 retry_after=1.5", "503 first 1")) as adapter:
        failures = []
        for _ in range(2):
            with pytest.raises(RequestFailure) as caught:
                await adapter.ask(items("x"), HERE)
            failures.append(caught.value)
        await adapter.ask(items("x"), HERE)
    assert [(one.kind, one.http_status, one.retry_after_s) for one in failures] == [
        (K.TRANSIENT, 503, None),
        (K.RATE_LIMIT, 429, 1.5),
    ]


async def test_when_is_counted_in_requests() -> None:
    async with opened(configured("500 first 2", "timeout between 4 and 5", "malformed every 7")) as adapter:
        assert await outcomes(adapter, 8) == [
            *["transient"] * 2,
            "answered",
            *["timeout"] * 2,
            "answered",
            "malformed",
            "answered",
        ]


async def test_a_share_of_the_sentences_fails_whenever_it_is_asked() -> None:
    async with opened(configured("too_long share 0.1", "refused share 0.1", batch_size=500)) as adapter:
        first = await outcomes(adapter, 500)
        assert await outcomes(adapter, 500) == first
        counts = Counter(first)
        assert 25 < counts["too_long"] < 80
        assert 25 < counts["refused"] < 80
        # A list holds the same fate: it fails where one of its sentences does.
        good = [number for number, outcome in enumerate(first) if outcome != "too_long"]
        reply = await adapter.ask([Item("set", f"s{number}", "text") for number in good], HERE)
        assert [str(answer.status) for answer in reply.answers] == [first[number] for number in good]
        bad = first.index("too_long")
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask([Item("set", f"s{number}", "text") for number in (good[0], bad)], HERE)
        assert caught.value.kind is K.TOO_LONG


async def test_a_dead_server_is_told_by_probes_and_comes_back() -> None:
    async with opened(configured("unreachable between 2 and 4")) as adapter:
        assert (await adapter.probe(HERE)).models == ("fake/model",)
        assert await outcomes(adapter, 2) == ["answered", "unreachable"]
        for _ in range(2):
            with pytest.raises(RequestFailure):
                await adapter.probe(HERE)
        await adapter.probe(HERE)
        assert await outcomes(adapter, 1) == ["answered"]


async def test_a_dead_server_comes_back_after_a_time() -> None:
    async with opened(configured("unreachable from 2 for 0.2 s")) as adapter:
        assert await outcomes(adapter, 3) == ["answered", "unreachable", "unreachable"]
        await asyncio.sleep(0.25)
        assert await outcomes(adapter, 2) == ["answered", "answered"]


@pytest.mark.parametrize("kind", ["auth", "retired", "wrong_model"])
async def test_probes_tell_what_would_stop_the_lane(kind: str) -> None:
    async with opened(configured(f"{kind} always")) as adapter:
        with pytest.raises(RequestFailure) as caught:
            await adapter.probe(HERE)
    assert caught.value.kind is K(kind)


async def test_latency() -> None:
    async with opened(configured(options={"latency_s": 0.1})) as adapter:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(adapter.ask(items(str(number)), HERE) for number in range(50)))
        assert 0.1 <= loop.time() - started < 0.6


async def test_what_is_used_stays_below_the_estimate() -> None:
    async with opened(configured(), PROMPT) as adapter:
        (item,) = items("some text é" * 20)
        reply = await adapter.ask([item], HERE)
        estimate = adapter.estimate(item)
    assert reply.prompt_tokens == estimate.prompt_likely <= estimate.prompt_most
    assert reply.completion_tokens is not None
    assert reply.completion_tokens <= estimate.completion_most


@pytest.mark.parametrize(
    "line",
    [
        "",
        "429",
        "429 sometimes",
        "429 every 0",
        "429 first -1",
        "429 share 1.5",
        "429 every 2 retry_after=soon",
        "418 always",
        "boom always",
        "429 from 3 for ever",
    ],
)
def test_lines_that_mean_nothing_are_one_sentence(line: str) -> None:
    with pytest.raises(ConfigError, match="'tested'"):
        parse(line, "tested")
