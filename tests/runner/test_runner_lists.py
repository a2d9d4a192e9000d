"""Requests that carry many sentences: a bad one is found by halving, and the others are kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_maker import Puppet, failure, model, reply, run_lanes
from virtual_loop import run_virtually

from hatevolution.domain import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from run_maker import Outcome

    from hatevolution.domain import Item


def bad_ones(bad: set[str], kind: str, size: int = 32) -> Puppet:
    """Refuses each list that holds one of these sentences."""

    def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        if bad & {item.sentence for item in items}:
            raise failure(kind, 400)
        return reply(items)

    return Puppet(answers, batch_size=size)


def run(path: Path, puppet: Puppet, count: int, **endpoint: Any) -> Outcome:
    config = model(endpoint={"max_concurrency": 4, "batch_size": puppet.batch_size, **endpoint})
    return run_virtually(run_lanes(path / "s.db", [(config, puppet, count)]))


def test_full_lists_are_sent_and_each_sentence_gets_its_own_answer(tmp_path: Path) -> None:
    def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        said = reply(items)
        return said._replace(
            answers=[a._replace(raw_text=item.text) for a, item in zip(said.answers, items, strict=True)]
        )

    puppet = Puppet(answers, batch_size=32)
    outcome = run(tmp_path, puppet, 1_000)
    assert sorted(len(request.sentences) for request in puppet.sent) == [8, *[32] * 31]
    assert outcome.count("responses") == 32
    wrong = outcome.rows(
        "SELECT p.sentence FROM predictions AS p JOIN sentences AS s USING (dataset, sentence) "
        "WHERE s.text <> p.raw_text"
    )
    assert wrong == []
    assert outcome.count("predictions") == 1_000


@pytest.mark.parametrize("kind", ["too_long", "unsendable", "filtered"])
def test_the_bad_one_in_a_list_of_32_is_found_and_the_others_are_kept(tmp_path: Path, kind: str) -> None:
    puppet = bad_ones({"s13"}, kind)
    outcome = run(tmp_path, puppet, 32)
    assert len(puppet.sent) == 1 + 2 * 5  # both halves at each of the five levels
    status = "refused" if kind == "filtered" else "rejected"
    assert outcome.rows("SELECT sentence FROM predictions WHERE status = ?", status) == [("s13",)]
    assert outcome.count("predictions", "status = 'answered'") == 31
    assert outcome.rows("SELECT attempts FROM predictions WHERE sentence = 's13'") == [(6,)]
    assert outcome.states[0].given_up == 0


def test_a_request_that_is_refused_as_a_whole_leaves_only_its_bad_sentence_pending(tmp_path: Path) -> None:
    outcome = run(tmp_path, bad_ones({"s13"}, "permanent"), 64)
    assert outcome.count("predictions") == 63
    assert outcome.states[0].given_up == 1
    assert outcome.rows("SELECT DISTINCT kind FROM failures") == [("permanent",)]


@settings(max_examples=10, deadline=None)
@given(
    bad=st.sets(st.integers(0, 99), max_size=8),
    size=st.integers(1, 40),
    kind=st.sampled_from(["too_long", "filtered", "permanent"]),
)
def test_halving_finds_all_bad_ones_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, bad: set[int], size: int, kind: str
) -> None:
    names = {f"s{number}" for number in bad}
    puppet = bad_ones(names, kind, size)
    outcome = run(tmp_path_factory.mktemp("halving"), puppet, 100)
    good = {name for (name,) in outcome.rows("SELECT sentence FROM predictions WHERE status = 'answered'")}
    assert good == {f"s{number}" for number in range(100)} - names
    others = {name for (name,) in outcome.rows("SELECT sentence FROM predictions WHERE status <> 'answered'")}
    assert others == (set() if kind == "permanent" else names)
    assert outcome.states[0].given_up == (len(names) if kind == "permanent" else 0)
    lists = math.ceil(100 / size)
    assert len(puppet.sent) <= lists + 2 * len(bad) * math.ceil(math.log2(size) if size > 1 else 0)


def test_a_list_that_fails_for_a_passing_reason_is_sent_again_whole(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number == 1:
            raise failure("transient", 500)
        return reply(items)

    puppet = Puppet(answers, batch_size=16)
    outcome = run(tmp_path, puppet, 16)
    assert [len(request.sentences) for request in puppet.sent] == [16, 16]
    assert outcome.count("predictions") == 16
    assert outcome.count("failures") == 16  # an attempt of each


def test_a_list_never_mixes_data_sets(tmp_path: Path) -> None:
    """Ids are unique within their set alone."""
    from run_maker import RUN, fill, sentences

    from hatevolution.runner.assembly import Job, Kit, build_lane
    from hatevolution.runner.budget import Budget
    from hatevolution.runner.events import Listeners
    from hatevolution.store.opened import WritableStore
    from hatevolution.store.writer import GroupCommitWriter

    puppet = Puppet(batch_size=10)
    config = model(endpoint={"max_concurrency": 2, "batch_size": 10})

    async def go() -> None:
        from concurrent.futures import ThreadPoolExecutor

        with WritableStore(tmp_path / "s.db", RUN) as store, ThreadPoolExecutor(1) as executor:
            fill(store, [config], {"a": sentences(15), "b": sentences(15)})
            writer = GroupCommitWriter(store.connection, RUN)
            kit = Kit(store.path, writer, executor, Budget(None), 12, Listeners(), str, 1_000)
            lane = build_lane(Job(config, puppet, {"a": 15, "b": 15}), kit)
            await lane.run()
            await writer.close()
            counts = store.connection.execute("SELECT dataset, count(*) FROM predictions GROUP BY 1").fetchall()
            assert counts == [("a", 12), ("b", 12)]

    run_virtually(go())
    assert sorted(len(request.sentences) for request in puppet.sent) == [2, 2, 10, 10]


@pytest.mark.parametrize("wrong", [lambda items: items[:-1], lambda items: [*items, items[0]], lambda _items: []])
def test_an_adapter_that_gives_another_number_of_answers_loses_nothing(
    tmp_path: Path, wrong: Callable[[Sequence[Item]], Sequence[Item]]
) -> None:
    """A bug of ours; what came is kept as a failure with its body, and nothing passes for an answer."""

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        return reply(wrong(items) if number == 1 else items)

    puppet = Puppet(answers, batch_size=8)
    outcome = run(tmp_path, puppet, 16)
    assert outcome.count("predictions") == 8
    assert outcome.rows("SELECT kind, count(*), count(body) FROM failures GROUP BY kind") == [("malformed", 8, 8)]
