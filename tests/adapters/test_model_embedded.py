from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import random
import sys
from collections import Counter
from typing import Any

import pytest
from fake_setup import items, model, opened

from hatevolution.adapters.models import embedded_judges
from hatevolution.adapters.models.embedded_judges import ProfanityCheck
from hatevolution.adapters.registry import create
from hatevolution.domain import Item, Status, TokenEstimate
from hatevolution.errors import ConfigError

HERE = "in-process"
TEXTS = ["you are such an idiot", "what a lovely day", "", " ", "\0", "\ud800 lone", "é漢🎉", "damn " * 5000]


def configured(name: str, **fields: Any) -> Any:
    return model("embedded", **{"model": name, **fields})


@pytest.mark.parametrize(("name", "word"), [("always-toxic", "toxic"), ("always-respectful", "respectful")])
async def test_the_constant_rows(name: str, word: str) -> None:
    async with opened(configured(name, batch_size=16)) as adapter:
        assert adapter.base_urls == (HERE,)
        assert adapter.batch_size == 16
        reply = await adapter.ask(items(*TEXTS), HERE)
        served = await adapter.probe(HERE)
    assert {answer.raw_text for answer in reply.answers} == {word}
    assert all(answer.status is Status.ANSWERED and answer.scores is None for answer in reply.answers)
    assert json.loads(reply.body) == [word] * len(TEXTS)
    assert reply.served_model == name
    assert served.models == (name,)


async def test_the_random_row_is_fair_and_depends_on_nothing_but_seed_and_key() -> None:
    asked = [Item("set", f"s{number}", "text") for number in range(2000)]
    async with opened(configured("seeded-random")) as adapter:
        together = [answer.raw_text for answer in (await adapter.ask(asked, HERE)).answers]
        shuffled = random.Random(1).sample(asked, len(asked))
        alone = {item: (await adapter.ask([item], HERE)).answers[0].raw_text for item in shuffled[:200]}
    assert all(alone[item] == together[asked.index(item)] for item in alone)
    counts = Counter(together)
    assert set(counts) == {"toxic", "respectful"}
    # Five standard deviations of a fair coin, sqrt(2000) / 2 = 22.4.
    assert abs(counts["toxic"] - 1000) < 112
    async with opened(configured("seeded-random", options={"seed": 1})) as adapter:
        other = [answer.raw_text for answer in (await adapter.ask(asked, HERE)).answers]
    assert 800 < sum(one != two for one, two in zip(together, other, strict=True)) < 1200
    # By hand: the lowest bit of the first byte of SHA-256 over seed, set and id.
    first = hashlib.sha256(b"0\0set\0s0").digest()[0] & 1
    assert together[0] == ("toxic" if first else "respectful")


async def test_the_linear_model_gives_what_its_package_gives() -> None:
    async with opened(configured("alt-profanity-check", batch_size=64)) as adapter:
        reply = await adapter.ask(items(*TEXTS), HERE)
        served = await adapter.probe(HERE)
        alone = [(await adapter.ask(items(text), HERE)).answers[0].scores for text in TEXTS]
    import profanity_check

    expected = [{"toxic": float(value)} for value in profanity_check.predict_prob(TEXTS)]
    assert [answer.scores for answer in reply.answers] == expected == alone
    assert all(answer.raw_text is None for answer in reply.answers)
    assert expected[0]["toxic"] > 0.5 > expected[1]["toxic"]
    assert [int(row["toxic"] > 0.5) for row in expected] == list(profanity_check.predict(TEXTS))
    assert json.loads(reply.body) == expected
    assert served.version
    assert reply.served_model == f"alt-profanity-check {served.version}"
    assert adapter.estimate(items("x")[0]) == TokenEstimate(0, 0, 0)


async def test_the_event_loop_goes_on_while_it_thinks() -> None:
    async with opened(configured("alt-profanity-check", batch_size=6_000)) as adapter:
        asking = asyncio.ensure_future(adapter.ask(items(*(["some words to count " * 20] * 6_000)), HERE))
        ticks = 0
        while not asking.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert len(asking.result().answers) == 6_000
    assert ticks > 10


def test_a_missing_package_gives_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(embedded_judges, "find_spec", lambda name: None if name == "profanity_check" else find(name))
    with pytest.raises(ConfigError, match=r"'alt-profanity-check'.*pip install 'hatevolution\[embedded\]'"):
        create(configured("alt-profanity-check"), None, {})
    create(configured("always-toxic"), None, {})


def test_a_package_that_does_not_load_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ProfanityCheck()
    monkeypatch.setitem(sys.modules, "profanity_check", None)
    with pytest.raises(ConfigError, match=r"can't be loaded.*force-reinstall"):
        judge.load()


async def test_asking_before_opening_is_a_mistake_of_the_program() -> None:
    adapter = create(configured("always-toxic"), None, {})
    with pytest.raises(RuntimeError, match="not open"):
        await adapter.ask(items("x"), HERE)
