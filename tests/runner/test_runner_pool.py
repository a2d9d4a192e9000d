"""Several servers share a load; one that dies is left out until it is back, and nobody's attempts are spent on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from run_maker import Puppet, failure, model, reply, run_lanes
from virtual_loop import START_S, elapsed, run_virtually

from hatevolution.runner.pool import Endpoint, Pool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from run_maker import Outcome

    from hatevolution.domain import Item, Reply

ONE, TWO, THREE = "http://one/v1", "http://two/v1", "http://three/v1"


class Servers:
    """Servers that are down at certain (virtual) times.

    Args:
        down: URL -> intervals of seconds in which nobody listens there.
        hang: Requests in flight when a server goes down never hear of it again, instead of losing their connection.
        latency_s: URL -> seconds per answer, default 1.
    """

    def __init__(
        self,
        down: dict[str, list[tuple[float, float]]] | None = None,
        *,
        hang: bool = False,
        latency_s: dict[str, float] | None = None,
    ) -> None:
        self.down = down or {}
        self.hang = hang
        self.latency_s = latency_s or {}
        self.answered: Counter[str] = Counter()

    def is_down(self, url: str) -> bool:
        return any(begin <= elapsed() < end for begin, end in self.down.get(url, []))

    def died_since(self, url: str, since: float) -> bool:
        return any(since < begin <= elapsed() for begin, _ in self.down.get(url, []))

    async def answers(self, _number: int, items: Sequence[Item], url: str) -> Reply:
        if self.is_down(url):
            raise failure("unreachable")
        since = elapsed()
        await asyncio.sleep(self.latency_s.get(url, 1.0))
        if self.died_since(url, since):
            if self.hang:
                await asyncio.sleep(100_000)
            raise failure("transient", maybe_billed=True)
        self.answered[url] += 1
        return reply(items)

    def probe(self, url: str) -> None:
        if self.is_down(url):
            raise failure("unreachable")

    def puppet(self, *urls: str, **more: Any) -> Puppet:
        return Puppet(self.answers, base_urls=urls or (ONE,), probes=self.probe, **more)


def run(path: Path, puppet: Puppet, count: int, **endpoint: Any) -> Outcome:
    config = model(endpoint={"max_concurrency": 10, **endpoint})
    return run_virtually(run_lanes(path / "s.db", [(config, puppet, count)]))


def once_each(outcome: Outcome, count: int) -> None:
    assert outcome.crashes == []
    assert outcome.count("predictions") == count
    assert outcome.states[0].phase == "done"
    assert outcome.states[0].given_up == 0


# -- sharing ---------------------------------------------------------------------------------------------------------


def test_the_least_busy_server_is_asked_next(tmp_path: Path) -> None:
    servers = Servers(latency_s={ONE: 1.0, TWO: 4.0})
    puppet = servers.puppet(ONE, TWO)
    outcome = run(tmp_path, puppet, 500)
    once_each(outcome, 500)
    # Both are kept equally busy, so the quicker one answers four times as many.
    assert servers.answered[ONE] / servers.answered[TWO] == pytest.approx(4, rel=0.05)
    assert outcome.seconds == pytest.approx(500 / (5 / 1.0 + 5 / 4.0), rel=0.05)


def test_equal_servers_get_equal_shares(tmp_path: Path) -> None:
    servers = Servers()
    run(tmp_path, servers.puppet(ONE, TWO, THREE), 300, max_concurrency=9)
    assert servers.answered == {ONE: 100, TWO: 100, THREE: 100}


# -- dying -----------------------------------------------------------------------------------------------------------


def test_a_server_that_is_away_for_a_while_costs_nobody_an_attempt(tmp_path: Path) -> None:
    servers = Servers({ONE: [(5.5, 305.0)]})
    puppet = servers.puppet()
    outcome = run(tmp_path, puppet, 100, max_attempts=1)
    once_each(outcome, 100)
    assert 308 < outcome.seconds < 330
    # Those in flight at its death, and no more than those who asked at once.
    assert sum(outcome.kinds().values()) <= 20
    during = [at for at in puppet.times if 6.6 < at - START_S < 305]
    assert during == []


@pytest.mark.parametrize("status", [200, 500, None])
def test_a_server_that_still_probes_well_while_it_goes_costs_nobody_an_attempt(
    tmp_path: Path, status: int | None
) -> None:
    """Told to stop, vLLM breaks its answers off (200), fails them (500) or drops them; its health is good a while."""

    def away() -> bool:
        return 4.9 <= elapsed() < 30

    async def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        if away():
            raise failure("unreachable")
        await asyncio.sleep(1.0)
        if away():
            raise failure("transient", status, maybe_billed=True)
        return reply(items)

    def probe(_url: str) -> None:
        if away() and elapsed() >= 5.2:
            raise failure("unreachable")

    config = model(adapter="vllm-completions", endpoint={"max_concurrency": 10, "max_attempts": 1})
    puppet = Puppet(answers, base_urls=(ONE,), probes=probe)
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 100)]))
    once_each(outcome, 100)
    assert outcome.kinds() == {"transient": 10}


def test_a_dead_server_is_probed_and_not_hammered(tmp_path: Path) -> None:
    puppet = Servers({ONE: [(1.5, 601.5)]}).puppet()
    run(tmp_path, puppet, 100)
    probes = [at - START_S for at, _ in puppet.probed]
    assert 40 <= len(probes) <= 120  # quick at first, then every ten seconds or so
    assert max(later - earlier for earlier, later in pairwise(probes)) <= 12.1


def test_the_load_goes_to_the_others_while_one_is_away(tmp_path: Path) -> None:
    servers = Servers({TWO: [(10.5, 50.5)]})
    outcome = run(tmp_path, servers.puppet(ONE, TWO), 1_000)
    once_each(outcome, 1_000)
    # 10 in flight on one server are as fast as 5 and 5 on two.
    assert outcome.seconds == pytest.approx(100, rel=0.05)
    assert 240 <= servers.answered[TWO] <= 310  # it is looked for every ten seconds or so


def test_one_that_never_comes_back_holds_nobody_up(tmp_path: Path) -> None:
    servers = Servers({TWO: [(0.0, 1e9)]})
    outcome = run(tmp_path, servers.puppet(ONE, TWO), 100, max_attempts=1)
    once_each(outcome, 100)
    assert outcome.seconds < 13


def test_one_that_comes_back_after_hours_is_used_again_while_the_others_lived(tmp_path: Path) -> None:
    servers = Servers({TWO: [(90.0, 7_200.0)]}, latency_s={ONE: 60.0, TWO: 60.0})
    outcome = run(tmp_path, servers.puppet(ONE, TWO), 2_000, give_up_after_s=900)
    once_each(outcome, 2_000)
    assert servers.answered[TWO] > 300


def test_all_dead_for_too_long_stops_the_lane_and_names_the_server(tmp_path: Path) -> None:
    servers = Servers({ONE: [(5.5, 1e9)], TWO: [(100.5, 1e9)]})
    outcome = run(tmp_path, servers.puppet(ONE, TWO), 10_000, give_up_after_s=600)
    (state,) = outcome.states
    assert state.phase == "stopped"
    assert "did not come back within 600 s" in state.why
    assert 700 < outcome.seconds < 720
    assert outcome.count("predictions") == state.done > 900


def test_a_server_that_restarts_again_and_again_is_waited_for(tmp_path: Path) -> None:
    servers = Servers({ONE: [(10.5 + 100 * n, 60.0 + 100 * n) for n in range(5)]})
    outcome = run(tmp_path, servers.puppet(), 1_500)
    once_each(outcome, 1_500)


def test_a_request_that_kills_its_server_ends(tmp_path: Path) -> None:
    """It was in flight at every death; the others are answered."""
    deaths: list[float] = []

    async def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        if deaths and elapsed() < deaths[-1] + 30:
            raise failure("unreachable")
        await asyncio.sleep(1.0)
        if items[0].sentence == "s7":
            deaths.append(elapsed())
            raise failure("transient")
        return reply(items)

    def probe(_url: str) -> None:
        if deaths and elapsed() < deaths[-1] + 30:
            raise failure("unreachable")

    puppet = Puppet(answers, probes=probe)
    outcome = run(tmp_path, puppet, 20, max_concurrency=1, max_attempts=2)
    assert len(deaths) == 5  # three that are nobody's fault, two attempts
    assert outcome.count("predictions") == 19
    assert outcome.states[0].given_up == 1


# -- hanging ---------------------------------------------------------------------------------------------------------


def test_who_waits_for_a_server_that_is_gone_is_woken(tmp_path: Path) -> None:
    """Its connections stay open and say nothing; long before the time-out somebody looks."""
    servers = Servers({ONE: [(5.5, 60.0)]}, hang=True)
    outcome = run(tmp_path, servers.puppet(), 100, max_attempts=1)
    once_each(outcome, 100)
    assert outcome.seconds < 90
    assert outcome.rows("SELECT DISTINCT kind, maybe_billed FROM failures WHERE message LIKE '%died before%'") == [
        ("transient", 1)
    ]


def test_a_quiet_server_that_is_well_is_left_in_peace(tmp_path: Path) -> None:
    servers = Servers(latency_s={ONE: 500.0})
    puppet = servers.puppet()
    outcome = run(tmp_path, puppet, 20)
    once_each(outcome, 20)
    assert outcome.kinds() == {}
    assert len(puppet.sent) == 20
    assert len(puppet.probed) <= 120


def test_what_a_living_server_still_owes_is_not_given_up_because_it_answers_a_probe_with_an_error(
    tmp_path: Path,
) -> None:
    """Giving up an answer that is being paid for would pay for it twice."""

    async def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number <= 3:
            await asyncio.sleep(0.5)
            raise failure("transient", 500)
        await asyncio.sleep(20.0)
        return reply(items)

    def probe(_url: str) -> None:
        if elapsed() < 15:
            raise failure("transient", 503)

    puppet = Puppet(answers, probes=probe)
    outcome = run(tmp_path, puppet, 10, max_concurrency=10)
    once_each(outcome, 10)
    assert max(puppet.times_asked().values()) == 2
    assert len(puppet.sent) == 13


def test_a_probe_that_is_refused_as_too_much_finds_the_server_alive(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number <= 3:
            raise failure("transient", 500)
        return reply(items)

    def probe(_url: str) -> None:
        raise failure("rate_limit", 429)

    outcome = run(tmp_path, Puppet(answers, probes=probe), 10, max_concurrency=3, give_up_after_s=5)
    once_each(outcome, 10)
    assert outcome.told("server_down") == []


# -- servers that are there but wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wrong_model", "auth", "retired"])
def test_a_server_that_comes_back_as_another_stops_the_lane(tmp_path: Path, kind: str) -> None:
    servers = Servers({ONE: [(5.5, 60.0)]})

    def probe(url: str) -> None:
        servers.probe(url)
        if elapsed() > 60:
            raise failure(kind)

    puppet = Puppet(servers.answers, probes=probe)
    outcome = run(tmp_path, puppet, 1_000)
    (state,) = outcome.states
    assert (state.phase, state.why) == ("stopped", f"made-up {kind}")
    assert outcome.seconds < 80
    assert all(at - START_S < 7 for at in puppet.times)
    assert outcome.count("predictions") == 50


def test_one_of_several_that_comes_back_as_another_stops_the_lane_at_once(tmp_path: Path) -> None:
    """Its answers would be another model's, under this one's name."""
    servers = Servers({TWO: [(5.5, 20.0)]})

    def probe(url: str) -> None:
        servers.probe(url)
        if url == TWO and elapsed() > 20:
            raise failure("wrong_model")

    puppet = Puppet(servers.answers, base_urls=(ONE, TWO), probes=probe)
    outcome = run(tmp_path, puppet, 10_000)
    assert outcome.states[0].phase == "stopped"
    assert outcome.seconds < 40
    assert servers.answered[TWO] <= 30


def test_a_probe_with_a_bug_leaves_nobody_waiting(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number == 5:
            raise failure("unreachable")
        return reply(items)

    def probe(_url: str) -> None:
        raise ZeroDivisionError("a bug")

    outcome = run(tmp_path, Puppet(answers, probes=probe), 50, give_up_after_s=20)
    (state,) = outcome.states
    assert state.phase == "stopped"
    assert "ZeroDivisionError" in state.why
    assert outcome.seconds < 60


def test_server_errors_of_a_server_that_probes_well_use_attempts_up(tmp_path: Path) -> None:
    def answers(_number: int, _items: Sequence[Item], _url: str) -> Reply:
        raise failure("transient", 500)

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 30, max_attempts=3)
    assert set(puppet.times_asked().values()) == {3}
    assert outcome.states[0].given_up == 30
    assert outcome.told("server_down") == []


def test_an_unreachable_request_on_a_server_that_probes_well_ends(tmp_path: Path) -> None:
    def answers(_number: int, _items: Sequence[Item], _url: str) -> Reply:
        raise failure("unreachable")

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 2, max_attempts=3, max_concurrency=1)
    assert set(puppet.times_asked().values()) == {6}
    assert outcome.seconds > 1  # with pauses between them


# -- the pool by itself ------------------------------------------------------------------------------------------------


def test_everybody_is_let_go_when_the_lane_ends() -> None:
    async def go() -> None:
        servers = Servers({ONE: [(0.0, 1e9)]})
        pool = Pool(servers.puppet(), give_up_after_s=1e9)
        (endpoint,) = pool.endpoints
        assert await pool.failed(endpoint, failure("unreachable"))
        waiting = asyncio.create_task(pool.available())
        await asyncio.sleep(100)
        assert not waiting.done()
        await pool.close()
        await waiting
        assert pool.pick() is None
        assert await pool.failed(endpoint, failure("unreachable"))

    run_virtually(go())


def test_many_failures_at_once_are_one_probe() -> None:
    async def go() -> None:
        servers = Servers({ONE: [(0.0, 3.0)]})
        puppet = servers.puppet()
        changes: list[bool] = []
        pool = Pool(puppet, give_up_after_s=100, on_change=lambda endpoint: changes.append(endpoint.up))
        (endpoint,) = pool.endpoints
        verdicts = await asyncio.gather(*(pool.failed(endpoint, failure("unreachable")) for _ in range(100)))
        assert verdicts == [True] * 100
        assert len(puppet.probed) == 1
        await pool.available()
        assert pool.pick() is endpoint
        assert changes == [False, True]
        await pool.close()

    run_virtually(go())


@pytest.mark.parametrize(
    ("url", "reason", "words"),
    [
        ("http://a:8000/v1", "http://a:8000 can't be reached (refused)", "http://a:8000 can't be reached (refused)"),
        ("http://a:8000/v1", "HTTP 500", "http://a:8000/v1: HTTP 500"),
        ("in-process", "broken", "in-process: broken"),
    ],
)
def test_an_address_is_said_once(url: str, reason: str, words: str) -> None:
    endpoint = Endpoint(url)
    endpoint.reason = reason
    assert endpoint.words == words
