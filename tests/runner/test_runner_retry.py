"""What happens after a failure, by its kind; waits are obeyed at the sleep, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from run_maker import Puppet, failure, model, reply, run_lanes
from virtual_loop import START_S, run_virtually

from hatevolution.errors import FailureKind
from hatevolution.runner.retry import FATAL, OF_THE_SENTENCE, Attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from run_maker import Outcome

    from hatevolution.domain import Item, Reply
    from hatevolution.errors import RequestFailure

Fault = tuple[str, int | None, float | None]


def script(*faults: Fault | None) -> Callable[[int, Sequence[Item], str], Reply]:
    """Fail with the n-th of these at request n (None: answer); answer everything after them."""

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        fault = faults[number - 1] if number <= len(faults) else None
        if fault is not None:
            kind, status, after = fault
            raise failure(kind, status, after=after)
        return reply(items)

    return answers


def always(kind: str, status: int | None = None, **more: Any) -> Callable[[int, Sequence[Item], str], Reply]:
    def answers(_number: int, _items: Sequence[Item], _url: str) -> Reply:
        raise failure(kind, status, **more)

    return answers


def run(path: Path, puppet: Puppet, count: int = 1, **endpoint: Any) -> Outcome:
    config = model(endpoint={"max_concurrency": 1, **endpoint})
    return run_virtually(run_lanes(path / "s.db", [(config, puppet, count)]))


def gaps(puppet: Puppet) -> list[float]:
    return [later - earlier for earlier, later in zip(puppet.times, puppet.times[1:], strict=False)]


# -- waiting as told -------------------------------------------------------------------------------------------------


def test_retry_after_is_obeyed_at_the_sleep_and_the_latest_counts(tmp_path: Path) -> None:
    puppet = Puppet(script(("rate_limit", 429, 2.0), ("rate_limit", 429, 5.0)))
    outcome = run(tmp_path, puppet)
    assert gaps(puppet) == pytest.approx([2.0, 5.0])
    assert outcome.count("predictions") == 1
    assert outcome.rows("SELECT attempts FROM predictions") == [(3,)]
    assert outcome.kinds() == {"rate_limit": 2}


def test_everybody_keeps_the_pause_that_one_was_told(tmp_path: Path) -> None:
    """One of ten requests in flight is told to wait: none of the others is followed by a new one meanwhile."""
    puppet = Puppet(script(None, None, None, ("rate_limit", 429, 30.0)), latency_s=1.0)
    run(tmp_path, puppet, 40, max_concurrency=10)
    after = [at - START_S for at in puppet.times if at > START_S + 1.0001]
    assert min(after) == pytest.approx(31.0)


@pytest.mark.parametrize(("status", "kind"), [(503, "transient"), (529, "transient"), (500, "transient")])
def test_retry_after_is_obeyed_with_any_status(tmp_path: Path, status: int, kind: str) -> None:
    puppet = Puppet(script((kind, status, 12.0)))
    run(tmp_path, puppet)
    assert gaps(puppet)[0] >= 12.0


def test_a_wait_longer_than_the_cap_stops_the_lane_instead_of_sleeping(tmp_path: Path) -> None:
    puppet = Puppet(script(("rate_limit", 429, 86_400.0)))
    outcome = run(tmp_path, puppet, 5)
    assert len(puppet.sent) == 1
    assert outcome.seconds < 1
    (state,) = outcome.states
    assert state.phase == "stopped"
    assert "86400 s, longer than max_retry_after_s = 3600" in state.why
    assert outcome.count("predictions") == 0


def test_a_wait_within_a_raised_cap_is_slept(tmp_path: Path) -> None:
    puppet = Puppet(script(("rate_limit", 429, 86_400.0)))
    outcome = run(tmp_path, puppet, 2, max_retry_after_s=90_000)
    assert outcome.count("predictions") == 2
    assert gaps(puppet)[0] == pytest.approx(86_400)


def test_the_other_lanes_go_on_while_one_waits(tmp_path: Path) -> None:
    slow = Puppet(script(("rate_limit", 429, 1_000.0)))
    quick = Puppet(latency_s=1.0)
    run_virtually(
        run_lanes(
            tmp_path / "s.db",
            [(model("slow"), slow, 1), (model("quick", endpoint={"max_concurrency": 1}), quick, 100)],
        )
    )
    assert max(quick.times) - START_S == pytest.approx(99.0)


# -- rate limits cost no attempt, but do not go on for ever ------------------------------------------------------------


def test_rate_limits_use_no_attempts(tmp_path: Path) -> None:
    puppet = Puppet(script(*[("rate_limit", 429, 1.0)] * 40))
    outcome = run(tmp_path, puppet, max_attempts=2)
    assert outcome.count("predictions") == 1
    assert outcome.rows("SELECT attempts FROM predictions") == [(41,)]


def test_nothing_but_rate_limits_stops_the_lane_in_the_end(tmp_path: Path) -> None:
    puppet = Puppet(always("rate_limit", 429))
    outcome = run(tmp_path, puppet, 3, give_up_after_s=900)
    (state,) = outcome.states
    assert state.phase == "stopped"
    assert "nothing but rate limit errors" in state.why
    assert 900 <= outcome.seconds < 1_000
    assert len(puppet.sent) < 30


def test_a_lane_that_is_slow_by_itself_is_not_given_up_at_its_first_rate_limit(tmp_path: Path) -> None:
    """One request in twenty minutes: the first refusal comes long after the last answer."""
    puppet = Puppet(script(None, ("rate_limit", 429, 5.0)))
    outcome = run(tmp_path, puppet, 3, requests_per_minute=0.05, give_up_after_s=60)
    assert outcome.count("predictions") == 3


def test_answers_in_between_reset_the_patience(tmp_path: Path) -> None:
    faults: list[Fault | None] = []
    for _ in range(10):
        faults += [("rate_limit", 429, 50.0), None]
    puppet = Puppet(script(*faults))
    outcome = run(tmp_path, puppet, 12, give_up_after_s=60)
    assert outcome.count("predictions") == 12


# -- what ends a lane ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(FATAL))
def test_what_no_sentence_would_survive_is_never_retried_and_stops_the_lane(tmp_path: Path, kind: FailureKind) -> None:
    puppet = Puppet(always(kind, 429))
    outcome = run(tmp_path, puppet, 50)
    assert len(puppet.sent) == 1
    (state,) = outcome.states
    assert (state.phase, state.given_up, state.done) == ("stopped", 1, 0)
    assert outcome.lanes[0].stopped is not None
    assert outcome.lanes[0].stopped.kind is kind
    assert outcome.kinds() == {kind.value: 1}
    assert outcome.count("predictions") == 0
    assert outcome.count("intents") == 0


@pytest.mark.parametrize(
    "fields", [{"price": {"usd_per_request": 0.1}}, {"endpoint": {"api_key_env": "KEY"}}, {"adapter": "openai-chat"}]
)
@pytest.mark.parametrize("kind", ["auth", "quota"])
def test_a_key_or_an_account_that_is_turned_down_is_tried_once_whatever_the_concurrency(
    tmp_path: Path, fields: dict[str, Any], kind: str
) -> None:
    config = model(**{**fields, "endpoint": {"max_concurrency": 64, **fields.get("endpoint", {})}})
    puppet = Puppet(always(kind, 401), latency_s=0.5)
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 500)]))
    assert len(puppet.sent) == 1
    assert outcome.states[0].phase == "stopped"


def test_a_lane_with_a_key_goes_at_full_width_after_its_first_answer(tmp_path: Path) -> None:
    config = model(endpoint={"max_concurrency": 64, "api_key_env": "KEY"})
    puppet = Puppet(latency_s=1.0)
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 1 + 64 * 3)]))
    assert outcome.seconds == pytest.approx(4.0)
    assert puppet.peak == 64


@pytest.mark.parametrize("kind", ["transient", "rate_limit", "timeout", "malformed", "permanent", "too_long"])
def test_a_first_request_that_fails_otherwise_does_not_hold_the_others_back(tmp_path: Path, kind: str) -> None:
    config = model(endpoint={"max_concurrency": 8, "api_key_env": "KEY"})
    puppet = Puppet(script((kind, 500 if kind == "transient" else None, None)), latency_s=1.0)
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 80)]))
    assert puppet.peak >= 4
    assert outcome.count("predictions") == 80 - (kind == "permanent")


def test_quota_in_the_middle_lets_what_is_in_flight_come_home(tmp_path: Path) -> None:
    puppet = Puppet(script(*[None] * 29, ("quota", 429, None)), latency_s=1.0)
    outcome = run(tmp_path, puppet, 100, max_concurrency=10)
    assert 30 <= len(puppet.sent) < 40
    assert outcome.count("predictions") == len(puppet.sent) - 1


# -- attempts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "status"), [("transient", 500), ("timeout", None), ("malformed", 200)])
def test_attempts_are_bounded_and_every_one_is_recorded(tmp_path: Path, kind: str, status: int | None) -> None:
    puppet = Puppet(always(kind, status))
    outcome = run(tmp_path, puppet, 3, max_attempts=4)
    assert puppet.times_asked() == {"s0": 4, "s1": 4, "s2": 4}
    assert outcome.kinds() == {kind: 12}
    assert outcome.rows("SELECT sentence, group_concat(attempt) FROM failures GROUP BY sentence") == [
        ("s0", "1,2,3,4"),
        ("s1", "1,2,3,4"),
        ("s2", "1,2,3,4"),
    ]
    assert outcome.count("predictions") == 0
    (state,) = outcome.states
    assert (state.phase, state.given_up, state.failures) == ("done", 3, 12)


def test_one_attempt_means_no_second(tmp_path: Path) -> None:
    puppet = Puppet(always("transient", 500))
    run(tmp_path, puppet, 2, max_attempts=1)
    assert len(puppet.sent) == 2


def test_pauses_between_attempts_grow_with_jitter_and_stay_bounded(tmp_path: Path) -> None:
    puppet = Puppet(always("malformed", 200))
    run(tmp_path, puppet, max_attempts=12)
    pauses = gaps(puppet)
    assert all(0 <= pause <= min(30, 0.5 * 2**number) + 0.01 for number, pause in enumerate(pauses))
    assert max(pauses) > 1
    assert len(set(pauses)) == len(pauses)


@pytest.mark.parametrize("kind", sorted(OF_THE_SENTENCE))
def test_what_is_the_sentences_own_fault_is_sent_once(tmp_path: Path, kind: FailureKind) -> None:
    puppet = Puppet(always(kind, 400))
    outcome = run(tmp_path, puppet, 3)
    assert puppet.times_asked() == {"s0": 1, "s1": 1, "s2": 1}
    status = {"too_long": "rejected", "unsendable": "rejected", "filtered": "refused", "permanent": None}[kind]
    expected = [] if status is None else [(status, 3)]
    assert outcome.rows("SELECT status, count(*) FROM predictions GROUP BY status") == expected
    assert outcome.states[0].given_up == (3 if status is None else 0)


def test_what_becomes_of_a_sentence_that_can_not_be_sent_says_why(tmp_path: Path) -> None:
    puppet = Puppet(always("too_long", 400, code="context_length_exceeded", body='{"error": 1}', request_id="r7"))
    outcome = run(tmp_path, puppet)
    rows = outcome.rows(
        "SELECT p.status, p.raw_text, p.finish_reason, r.body, r.http_status, r.request_id, r.cost_usd "
        "FROM predictions AS p JOIN responses AS r USING (response)"
    )
    assert rows == [("rejected", None, "context_length_exceeded", '{"error": 1}', 400, "r7", None)]


def test_an_error_of_our_own_is_one_failure_and_no_retry(tmp_path: Path) -> None:
    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if number == 2:
            raise ZeroDivisionError("a bug")
        return reply(items)

    puppet = Puppet(answers)
    outcome = run(tmp_path, puppet, 4)
    assert outcome.crashes == []
    assert outcome.count("predictions") == 3
    assert outcome.rows("SELECT kind, message FROM failures") == [
        ("permanent", "internal error: ZeroDivisionError: a bug")
    ]


# -- the bookkeeping of attempts ---------------------------------------------------------------------------------------


def note(attempts: Attempts, kind: str, *, dead: bool = False) -> RequestFailure:
    error = failure(kind)
    attempts.note(error, dead=dead)
    return error


def test_deaths_of_a_server_are_not_counted_up_to_three(tmp_path: Path) -> None:
    attempts = Attempts(2)
    for _ in range(3):
        assert attempts.worth_another(note(attempts, "transient", dead=True))
    assert attempts.worth_another(note(attempts, "transient", dead=True))  # the fourth counts
    assert not attempts.worth_another(note(attempts, "transient", dead=True))


def test_a_server_that_is_not_there_costs_nothing_however_often(tmp_path: Path) -> None:
    attempts = Attempts(1)
    assert all(attempts.worth_another(note(attempts, "unreachable", dead=True)) for _ in range(1000))


def test_a_server_that_only_probes_reach_ends(tmp_path: Path) -> None:
    attempts = Attempts(3)
    tries = 0
    while attempts.worth_another(note(attempts, "unreachable")):
        tries += 1
        assert tries < 20
    assert tries >= 3


def test_other_errors_are_never_worth_another_attempt() -> None:
    assert not Attempts(5).worth_another(ValueError("x"))
    for kind in (*FATAL, *OF_THE_SENTENCE):
        assert not Attempts(5).worth_another(failure(kind))


def test_every_kind_of_failure_has_its_consequence() -> None:
    """A new kind has to be put into one of the sets on purpose."""
    retried = {"rate_limit", "transient", "timeout", "unreachable", "malformed"}
    assert {kind.value for kind in FATAL | OF_THE_SENTENCE} | retried == {kind.value for kind in FailureKind}
    assert not FATAL & OF_THE_SENTENCE
