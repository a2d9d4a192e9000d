"""Pacing, cool-downs and adaptive concurrency, as properties."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_loop import run_virtually

from hatevolution.runner.limits import AdaptiveConcurrency, Bucket, Cooldown, Throttle

GAPS = st.lists(st.floats(0, 5), min_size=1, max_size=80)


def most_in_window(sends: list[tuple[float, float]], window_s: float) -> float:
    """Most units in any half-open window of this length; a window that begins with a send is the worst."""
    return max(sum(units for at, units in sends if begin <= at < begin + window_s) for begin, _ in sends)


# -- buckets ---------------------------------------------------------------------------------------------------------


@given(gaps=GAPS, per_minute=st.floats(1, 6_000), window_s=st.floats(0.1, 120))
def test_requests_never_exceed_rate_and_burst_in_any_window(
    gaps: list[float], per_minute: float, window_s: float
) -> None:
    """Callers come at any times; each sends when its wait is over."""
    bucket, now, sends = Bucket(per_minute), 0.0, []
    for gap in gaps:
        now += gap
        sends.append((now + bucket.reserve(1, now), 1.0))
    burst = max(1.0, per_minute / 60)
    assert most_in_window(sends, window_s) <= window_s * per_minute / 60 + burst + 1e-6
    assert [at for at, _ in sends] == sorted(at for at, _ in sends)


@given(
    requests=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 300)), min_size=1, max_size=60),
    per_minute=st.floats(60, 6_000),
    burst=st.floats(1, 100),
    window_s=st.floats(0.1, 120),
)
def test_units_never_exceed_rate_burst_and_one_request_in_any_window(
    requests: list[tuple[float, float]], per_minute: float, burst: float, window_s: float
) -> None:
    """A request larger than the burst waits until its own units are earned, so that the long run holds."""
    bucket, now, sends = Bucket(per_minute, burst), 0.0, []
    for gap, units in requests:
        now += gap
        sends.append((now + bucket.reserve(units, now), units))
    largest = max(units for _, units in requests)
    assert most_in_window(sends, window_s) <= window_s * per_minute / 60 + max(burst, largest) + 1e-6


@given(gaps=GAPS, per_minute=st.floats(1, 6_000))
def test_a_bucket_is_never_slower_than_its_rate(gaps: list[float], per_minute: float) -> None:
    """Nobody waits longer than all requests so far would take one after the other."""
    bucket, now = Bucket(per_minute), 0.0
    for number, gap in enumerate(gaps):
        now += gap
        assert bucket.reserve(1, now) <= number * 60 / per_minute + 1e-6


@given(
    actual=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 200), st.floats(0, 1)), min_size=1, max_size=60),
    window_s=st.floats(0.1, 60),
)
def test_what_is_refunded_may_be_used_by_others_and_no_more(
    actual: list[tuple[float, int, float]], window_s: float
) -> None:
    """Reserved before, refunded after: what was really used never exceeds rate and burst."""
    per_minute, burst = 600.0, 50.0
    bucket, now, used = Bucket(per_minute, burst), 0.0, []
    for gap, reserved, share in actual:
        now += gap
        now += bucket.reserve(reserved, now)
        used.append((now, reserved * share))
        bucket.refund(reserved * (1 - share))
    largest = max(reserved for _, reserved, _ in actual)
    assert most_in_window(used, window_s) <= window_s * per_minute / 60 + max(burst, largest) + 1e-6


def test_refunds_are_real() -> None:
    bucket = Bucket(60, burst=10)
    assert bucket.reserve(10, 0.0) == 0
    assert bucket.reserve(10, 0.0) == pytest.approx(10)
    bucket.refund(10)
    bucket.refund(8)
    assert bucket.reserve(8, 0.0) == 0
    assert bucket.reserve(1, 0.0) == pytest.approx(1)


def test_unused_time_is_not_saved_up_beyond_the_burst() -> None:
    bucket = Bucket(60)
    bucket.reserve(1, 0.0)
    waits = [bucket.reserve(1, 1000.0) for _ in range(3)]
    assert waits == pytest.approx([0, 1, 2])


def test_a_throttle_takes_the_longer_of_its_two_waits() -> None:
    throttle = Throttle(60, 600)
    assert throttle.reserve(100, 0.0).wait_s == 0
    assert throttle.reserve(100, 0.0).wait_s == pytest.approx(10)
    few = Throttle(6, 60_000)
    assert few.reserve(1, 0.0).wait_s == 0
    assert few.reserve(1, 0.0).wait_s == pytest.approx(10)


def test_a_throttle_gives_back_what_was_not_used_and_takes_what_was_used_more() -> None:
    throttle = Throttle(None, 600)  # 10 a second, burst 100
    first = throttle.reserve(100, 0.0)
    throttle.settle(first, 40)
    assert throttle.reserve(60, 0.0).wait_s == 0
    second = throttle.reserve(0, 0.0)
    throttle.settle(second, 50)
    assert throttle.reserve(0, 0.0).wait_s == pytest.approx(5)


def test_a_throttle_keeps_what_is_not_known() -> None:
    throttle = Throttle(None, 600)
    throttle.settle(throttle.reserve(100, 0.0), None)
    assert throttle.reserve(10, 0.0).wait_s == pytest.approx(1)


def test_a_request_that_was_not_sent_gives_all_back() -> None:
    throttle = Throttle(60, 600)
    throttle.cancel(throttle.reserve(100, 0.0))
    assert throttle.reserve(100, 0.0).wait_s == 0


def test_without_limits_there_is_nothing_to_wait_for() -> None:
    throttle = Throttle(None, None)
    assert throttle.unlimited
    assert all(throttle.reserve(10**9, 0.0).wait_s == 0 for _ in range(100))


# -- cool-down -------------------------------------------------------------------------------------------------------


def test_a_storm_is_one_pause_and_counts_once() -> None:
    cooldown = Cooldown()
    fresh = [cooldown.begin(100.0 + n / 1000, 2.0, "r", sent_at=99.9) for n in range(50)]
    assert fresh == [True, *[False] * 49]
    assert cooldown.remaining(100.049) == pytest.approx(2.0)
    assert cooldown.remaining(102.1) == 0


def test_a_refusal_of_a_request_sent_before_the_pause_belongs_to_its_storm() -> None:
    cooldown = Cooldown()
    assert cooldown.begin(10.0, 1.0, "r", sent_at=9.0)
    assert not cooldown.begin(12.0, None, "r", sent_at=9.5)
    assert cooldown.remaining(12.0) == 0
    assert not cooldown.begin(12.0, 3.0, "r", sent_at=9.5)  # but what it asks for is obeyed
    assert cooldown.remaining(12.0) == 3


def test_the_latest_word_counts_and_never_shortens() -> None:
    cooldown = Cooldown()
    cooldown.begin(0.0, 2.0, "two", sent_at=0.0)
    cooldown.begin(1.0, 5.0, "five", sent_at=0.0)
    assert (cooldown.remaining(1.0), cooldown.reason) == (5.0, "five")
    cooldown.begin(1.5, 1.0, "one", sent_at=0.0)
    assert (cooldown.remaining(1.5), cooldown.reason) == (4.5, "five")


def test_without_a_word_pauses_double_up_to_a_minute_and_start_anew_after_an_answer() -> None:
    cooldown, now, pauses = Cooldown(), 0.0, []
    for _ in range(9):
        cooldown.begin(now, None, "r", sent_at=now)
        pauses.append(cooldown.remaining(now))
        now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    cooldown.success()
    cooldown.begin(now, None, "r", sent_at=now)
    assert cooldown.remaining(now) == 1


@given(
    st.lists(
        st.tuples(st.floats(0, 3), st.one_of(st.none(), st.floats(0, 10)), st.floats(0, 20)), min_size=1, max_size=50
    )
)
def test_a_new_storm_needs_a_request_sent_after_the_last_pause(
    events: list[tuple[float, float | None, float]],
) -> None:
    cooldown, now = Cooldown(), 0.0
    for gap, asked, age in events:
        now += gap
        until = cooldown.until
        fresh = cooldown.begin(now, asked, "r", sent_at=now - age)
        assert fresh == (now >= until and now - age >= until)
        assert cooldown.until >= until
        assert cooldown.remaining(now) >= (asked or 0.0) - 1e-9


# -- adaptive concurrency --------------------------------------------------------------------------------------------


@given(
    maximum=st.integers(1, 500),
    events=st.lists(st.sampled_from(["take", "leave", "cut", "answer"]), max_size=200),
)
def test_the_limit_stays_between_one_and_the_maximum(maximum: int, events: list[str]) -> None:
    gate = AdaptiveConcurrency(maximum)
    for event in events:
        before = gate.limit
        if event == "take" and not gate.full:
            gate.in_flight += 1
        elif event == "leave" and gate.in_flight:
            gate.leave()
        elif event == "cut":
            gate.cut()
            assert gate.limit <= max(1, before // 2)
        elif event == "answer":
            grew = gate.success()
            assert grew == (gate.limit > before)
            assert not grew or gate.in_flight >= before
        assert 1 <= gate.limit <= maximum


def test_growth_needs_saturation() -> None:
    gate = AdaptiveConcurrency(100)
    gate.in_flight = 100
    gate.cut()
    assert gate.limit == 50
    gate.in_flight = 49
    assert not any(gate.success() for _ in range(1_000))
    gate.in_flight = 50
    assert sum(gate.success() for _ in range(50)) == 1
    assert gate.limit == 55


@pytest.mark.parametrize("maximum", [2, 10, 64, 256, 1000])
def test_a_recovery_takes_about_twenty_rounds_at_any_size(maximum: int) -> None:
    gate = AdaptiveConcurrency(maximum)
    gate.in_flight = maximum
    for _ in range(12):
        gate.cut()
    assert gate.limit == 1
    rounds = 0
    while gate.limit < maximum:
        gate.in_flight = gate.limit
        for _ in range(gate.limit):
            gate.success()
        rounds += 1
    assert rounds <= math.ceil(20 * 1.3)


def test_a_cut_counts_from_what_is_in_flight() -> None:
    gate = AdaptiveConcurrency(1000)
    gate.in_flight = 10
    gate.cut()
    assert gate.limit == 5


def test_a_canary_goes_alone_until_it_is_home() -> None:
    gate = AdaptiveConcurrency(8, canary=True)
    gate.in_flight = 1
    assert gate.full
    gate.open()
    assert not gate.full
    assert gate.limit == 8


@settings(deadline=None)
@given(maximum=st.integers(1, 20), workers=st.integers(1, 60), seed=st.integers(0, 1000))
def test_whoever_waits_gets_a_place_and_no_place_is_given_twice(maximum: int, workers: int, seed: int) -> None:
    import random

    rng = random.Random(seed)
    served: list[int] = []

    async def go() -> None:
        gate = AdaptiveConcurrency(maximum)

        async def worker(number: int) -> None:
            while gate.full:
                await gate.place()
            gate.in_flight += 1
            assert gate.in_flight <= gate.limit or gate.cuts
            await asyncio.sleep(rng.random())
            if rng.random() < 0.1:
                gate.cut()
            gate.success()
            gate.leave()
            served.append(number)

        await asyncio.gather(*map(worker, range(workers)))

    run_virtually(go())
    assert sorted(served) == list(range(workers))
