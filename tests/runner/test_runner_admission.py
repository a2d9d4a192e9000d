"""Who may send when, seen from the endpoint: storms, rates, headers, several lanes, stopping. In virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_maker import Puppet, failure, model, reply, run_lanes
from virtual_loop import START_S, elapsed, run_virtually

from hatevolution.domain import RateWindow, TokenEstimate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from run_maker import Outcome

    from hatevolution.domain import Item, Reply
    from hatevolution.runner.lane import ModelLane


def run(path: Path, puppet: Puppet, count: int, **endpoint: Any) -> Outcome:
    config = model(endpoint={"max_concurrency": 50, **endpoint})
    return run_virtually(run_lanes(path / "s.db", [(config, puppet, count)]))


def within(puppet: Puppet, begin: float, end: float) -> int:
    """How many requests were sent in this span of virtual seconds."""
    return sum(begin <= at - START_S < end for at in puppet.times)


def busiest(puppet: Puppet, window_s: float) -> int:
    times = puppet.times
    return max(sum(begin <= at < begin + window_s for at in times) for begin in times)


# -- storms ----------------------------------------------------------------------------------------------------------


def test_fifty_refusals_at_once_are_one_pause_and_one_cut(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number <= 50:
            raise failure("rate_limit", 429, after=10.0)
        return reply(items)

    puppet = Puppet(answers, latency_s=1.0)
    outcome = run(tmp_path, puppet, 400)
    assert within(puppet, 0.5, 10.99) == 0
    assert within(puppet, 10.99, 11.99) <= 25  # half of what was too much
    assert len(outcome.told("cooldown")) == 1
    assert outcome.count("predictions") == 400


def test_refusals_that_trickle_in_late_are_the_same_storm(tmp_path: Path) -> None:
    async def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number <= 50:
            await asyncio.sleep(number / 10)  # 0.1 to 5 s: after the pause of 1 s that the first one starts
            raise failure("rate_limit", 429)
        return reply(items)

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 200)
    assert len(outcome.told("cooldown")) == 1
    assert outcome.states[0].limit >= 24
    assert outcome.count("predictions") == 200


def test_an_endpoint_with_a_fixed_capacity_is_found_and_kept_busy(tmp_path: Path) -> None:
    """It serves 20 at once and refuses the rest; we come down to it from 64 and stay near it."""
    serving = 0

    async def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        nonlocal serving
        if serving >= 20:
            raise failure("rate_limit", 429)
        serving += 1
        try:
            await asyncio.sleep(1.0)
        finally:
            serving -= 1
        return reply(items)

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 2_000, max_concurrency=64)
    assert outcome.count("predictions") == 2_000
    assert outcome.kinds()["rate_limit"] < 0.1 * 2_000
    assert outcome.seconds < 2.2 * 2_000 / 20


def test_overload_pauses_and_uses_an_attempt(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number <= 20:
            raise failure("transient", 503)
        return reply(items)

    puppet = Puppet(answers, latency_s=0.1)
    outcome = run(tmp_path, puppet, 100, max_concurrency=20)
    assert within(puppet, 0.2, 1.0) == 0
    assert within(puppet, 1.0, 1.19) <= 10
    assert outcome.count("predictions") == 100


# -- rates -----------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(
    concurrency=st.integers(1, 40),
    per_minute=st.sampled_from([30.0, 60.0, 600.0]),
    latency_s=st.sampled_from([0.05, 1.0, 7.0]),
    storms=st.lists(st.tuples(st.integers(1, 90), st.floats(0.5, 20)), max_size=3),
)
def test_no_window_ever_holds_more_than_the_rate_allows(
    tmp_path_factory: pytest.TempPathFactory,
    concurrency: int,
    per_minute: float,
    latency_s: float,
    storms: list[tuple[int, float]],
) -> None:
    """Whatever else holds requests back meanwhile: pauses, cuts, slow answers."""
    waits = dict(storms)

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number in waits:
            raise failure("rate_limit", 429, after=waits[number])
        return reply(items)

    puppet = Puppet(answers, latency_s=latency_s)
    path = tmp_path_factory.mktemp("rate")
    outcome = run(path, puppet, 100, max_concurrency=concurrency, requests_per_minute=per_minute)
    assert outcome.count("predictions") == 100
    burst = max(1.0, per_minute / 60)
    for window_s in (1.0, 5.0, 20.0, 60.0):
        assert busiest(puppet, window_s) <= window_s * per_minute / 60 + burst + 1e-6


def test_a_pause_does_not_make_everybody_send_at_once_afterwards(tmp_path: Path) -> None:
    """All workers had waited for their turns when the pause began."""

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number == 3:
            raise failure("rate_limit", 429, after=20.0)
        return reply(items)

    puppet = Puppet(answers, latency_s=0.1)
    outcome = run(tmp_path, puppet, 150, max_concurrency=30, requests_per_minute=60)
    assert busiest(puppet, 10.0) <= 11
    assert outcome.seconds == pytest.approx(150 + 20, rel=0.02)


def test_the_rate_is_used_to_the_full(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=5.0)  # 50 in flight
    outcome = run(tmp_path, puppet, 300, max_concurrency=64, requests_per_minute=600)
    assert outcome.seconds <= 1.03 * (300 / 10 + 5)


def test_tokens_are_reserved_before_and_refunded_after(tmp_path: Path) -> None:
    """Estimated 105 each, used 20 each, 600 a minute: reserves alone would take 17 minutes, real use takes 3."""
    puppet = Puppet(
        lambda _n, items, _u: reply(items, prompt_tokens=15, completion_tokens=5),
        latency_s=0.5,
        tokens=lambda _item: TokenEstimate(100, 200, 5),
    )
    outcome = run(tmp_path, puppet, 100, tokens_per_minute=600)
    used = [(at, 20) for at in puppet.times]
    for begin, _ in used:
        assert sum(tokens for at, tokens in used if begin <= at < begin + 60) <= 600 + 105
    assert outcome.seconds < 1.3 * 100 * 20 / 10


def test_a_request_larger_than_the_burst_is_sent_in_its_time(tmp_path: Path) -> None:
    def tokens(item: Item) -> TokenEstimate:
        return TokenEstimate(1_000 if item.sentence == "s2" else 10, 1_000, 0)

    puppet = Puppet(lambda _n, items, _u: reply(items, prompt_tokens=10), tokens=tokens)
    outcome = run(tmp_path, puppet, 5, tokens_per_minute=600)
    assert outcome.count("predictions") == 5
    assert outcome.seconds == pytest.approx((1_000 - 100) / 10, rel=0.1)


def test_turns_are_first_come_first_served(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.1)
    run(tmp_path, puppet, 60, requests_per_minute=60)
    assert [request.sentences[0] for request in puppet.sent] == [f"s{number}" for number in range(60)]


# -- what headers say ------------------------------------------------------------------------------------------------


def test_an_allowance_that_is_used_up_pauses_before_it_is_refused(tmp_path: Path) -> None:
    """The endpoint allows 10, one more every 6 s, and says so in its headers."""
    level, filled_at, refused = 10.0, 0.0, 0

    def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        nonlocal level, filled_at, refused
        level, filled_at = min(10.0, level + (elapsed() - filled_at) / 6), elapsed()
        if level < 1 - 1e-6:
            refused += 1
            raise failure("rate_limit", 429, after=(1 - level) * 6)
        level -= 1
        return reply(items, rate_window=RateWindow(10, int(level), (10 - level) * 6))

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 40, max_concurrency=1)
    assert outcome.count("predictions") == 40
    assert refused <= 3
    assert outcome.seconds <= 1.2 * (40 - 10) * 6


# -- lanes side by side ------------------------------------------------------------------------------------------------


def test_a_slow_lane_holds_nobody_up_and_nobody_holds_it_up(tmp_path: Path) -> None:
    slow = Puppet(latency_s=0.3)
    quick = [Puppet(latency_s=0.05, base_urls=(f"http://{n}/v1",)) for n in range(3)]
    models = [(model("slow", endpoint={"max_concurrency": 16, "requests_per_minute": 60}), slow, 60)]
    models += [
        (model(f"quick{n}", endpoint={"max_concurrency": 16, "requests_per_minute": 6_000}), puppet, 600)
        for n, puppet in enumerate(quick)
    ]
    outcome = run_virtually(run_lanes(tmp_path / "s.db", models))
    bound = 59 * 1.0 + 0.3  # sixty requests, one a second, and the last answer
    assert outcome.seconds <= 1.03 * bound
    for state in outcome.states[1:]:
        assert state.ended_at is not None
        assert state.ended_at - START_S < 6.5
    assert outcome.count("predictions") == 60 + 3 * 600


def test_models_behind_one_local_server_are_asked_one_after_the_other(tmp_path: Path) -> None:
    shared = ("http://gpu/v1",)
    first, second = (Puppet(latency_s=1.0, base_urls=shared) for _ in range(2))
    other = Puppet(latency_s=1.0, base_urls=("http://elsewhere/v1",))
    models = [
        (model(name, adapter="vllm-completions", endpoint={"max_concurrency": 10}), puppet, 50)
        for name, puppet in (("a", first), ("b", second), ("c", other))
    ]
    outcome = run_virtually(run_lanes(tmp_path / "s.db", models))
    assert max(first.times) < min(second.times)
    assert min(other.times) == min(first.times)
    assert outcome.seconds == pytest.approx(10.0)


def test_tasks_do_not_grow_with_the_number_of_sentences(tmp_path: Path) -> None:
    most = 0

    async def count(_lanes: list[ModelLane]) -> None:
        nonlocal most
        while True:
            most = max(most, len(asyncio.all_tasks()))
            await asyncio.sleep(0.05)

    async def go(sentences: int, path: Path) -> int:
        nonlocal most
        most = 0
        config = model(endpoint={"max_concurrency": 20})
        await run_lanes(path, [(config, Puppet(latency_s=0.1), sentences)], meanwhile=count)
        return most

    few, many = run_virtually(go(100, tmp_path / "a.db")), run_virtually(go(4_000, tmp_path / "b.db"))
    assert many <= few + 3
    assert many <= 20 + 12


# -- stopping --------------------------------------------------------------------------------------------------------


async def stop_after(lanes: list[ModelLane], seconds: float) -> None:
    await asyncio.sleep(seconds)
    for lane in lanes:
        lane.stop()


@pytest.mark.parametrize(
    "endpoint",
    [{}, {"requests_per_minute": 60}, {"tokens_per_minute": 600}],
    ids=["free", "requests", "tokens"],
)
def test_a_lane_that_is_stopped_sends_nothing_more_and_keeps_what_comes_home(
    tmp_path: Path, endpoint: dict[str, Any]
) -> None:
    puppet = Puppet(latency_s=2.0)
    config = model(endpoint={"max_concurrency": 10, **endpoint})
    outcome = run_virtually(
        run_lanes(tmp_path / "s.db", [(config, puppet, 500)], meanwhile=lambda lanes: stop_after(lanes, 7.0))
    )
    assert max(puppet.times) - START_S <= 7.0
    assert outcome.count("predictions") == len(puppet.sent)
    assert outcome.count("intents") == 0
    assert outcome.seconds <= 9.0
    assert (outcome.states[0].phase, outcome.states[0].why) == ("stopped", "interrupted")


@pytest.mark.parametrize("reason", ["cooldown", "server", "budget", "backoff", "store"])
def test_whatever_a_lane_waits_for_it_can_be_stopped(tmp_path: Path, reason: str) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number > 5 and reason == "cooldown":
            raise failure("rate_limit", 429, after=3_000.0)
        if number > 5 and reason == "server":
            raise failure("unreachable")
        if number > 5 and reason == "backoff":
            raise failure("transient", 500, after=3_000.0)
        return reply(items, prompt_tokens=1)

    def probe(_url: str) -> None:
        if reason == "server":
            raise failure("unreachable")

    async def hangs(number: int, items: Sequence[Item], url: str) -> Reply:
        await asyncio.sleep(10.0 if number > 5 else 0.0)  # money is set aside for ten seconds
        return answers(number, items, url)

    puppet = Puppet(hangs if reason == "budget" else answers, probes=probe)
    config = model(price={"usd_per_request": 0.1} if reason == "budget" else None, endpoint={"max_concurrency": 10})
    budget = 0.9 if reason == "budget" else None
    outcome = run_virtually(
        run_lanes(
            tmp_path / "s.db",
            [(config, puppet, 500 if reason != "store" else 5)],
            budget_usd=budget,
            meanwhile=lambda lanes: stop_after(lanes, 5.0),
        )
    )
    assert outcome.seconds <= 11.0
    assert outcome.count("predictions") >= 5
    assert outcome.count("intents") == 0


def test_what_holds_a_lane_back_is_told(tmp_path: Path) -> None:
    seen: list[tuple[float, str, str, float | None]] = []

    async def look(lanes: list[ModelLane]) -> None:
        while True:
            state = lanes[0].state
            seen.append((elapsed(), state.phase, state.why, state.paused_until))
            await asyncio.sleep(1.0)

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number == 2:
            raise failure("rate_limit", 429, after=30.0)
        return reply(items)

    config = model(endpoint={"max_concurrency": 2, "requests_per_minute": 6})
    run_virtually(run_lanes(tmp_path / "s.db", [(config, Puppet(answers), 6)], meanwhile=look))
    pauses = {(phase, why.split(":")[0]) for at, phase, why, _ in seen if at > 1}
    assert ("paused", "rate limit") in pauses  # the endpoint's
    assert ("paused", "rate limit of the configuration") in pauses
    for at, phase, _why, until in seen:
        if phase == "paused" and until is not None:
            assert until - START_S > at - 1.01
