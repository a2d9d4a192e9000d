"""Submitting: nothing twice and nothing lost, whatever the provider and its network do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from batch_desk import ENVIRON, FAST, Desk
from fake_base import Fault
from fake_openai import QUOTA, RATE_LIMITED, error_body
from fake_openai_batch import FakeOpenAIBatch

from hatevolution.adapters.batch.files import Limits
from hatevolution.errors import ConfigError, StoreError, UserError

if TYPE_CHECKING:
    from pathlib import Path

DROP = Fault(action="drop")
BROKEN_DOWN = Fault(status=500, body="oops")
LOST = pytest.param(DROP, id="lost")
BROKEN = pytest.param(BROKEN_DOWN, id="500")
CUT = pytest.param(Fault(action="cut"), id="cut", marks=pytest.mark.slow)


def submitted(server: FakeOpenAIBatch) -> list[int]:
    """How many requests each batch of the provider has."""
    return [server.files[batch.input_file_id].content.count(b"\n") for batch in server.batches.values()]


def answered_once(desk: Desk, server: FakeOpenAIBatch, count: int = 12) -> None:
    """Everything is answered, and nothing was asked twice."""
    assert desk.collect_all().exit_code == 0
    assert desk.statuses() == {"answered": count}
    assert set(server.sent.values()) == {1}
    assert sum(server.sent.values()) == count


# -- what is submitted -----------------------------------------------------------------------------------------------


def test_files_hold_what_is_pending_and_a_second_start_adds_nothing(desk: Desk, server: FakeOpenAIBatch) -> None:
    result = desk.submit(limits=Limits(5, 10**6))
    assert submitted(server) == [5, 5, 2]
    assert (result.exit_code, result.in_batches, result.pending) == (0, 12, 0)
    assert {row.run for row in desk.batches()} == {result.run}
    assert desk.submit().batches == []
    assert len(server.batches) == 3
    answered_once(desk, server)
    assert desk.submit().in_batches == 0


def test_a_file_is_cut_at_its_bytes_too(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit(limits=Limits(50_000, 1_700))
    assert max(len(file.content) for file in server.files.values()) <= 1_700
    assert sum(submitted(server)) == 12
    assert len(server.batches) > 2
    answered_once(desk, server)


def test_a_batch_tells_the_provider_our_name_and_nothing_else(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    (batch,), (row,) = server.batches.values(), desk.batches()
    assert batch.metadata == {"hatevolution_batch": row.name, "hatevolution_input_sha256": row.input_sha256}
    assert (batch.endpoint, row.provider_id, row.file_id) == ("/v1/chat/completions", batch.id, batch.input_file_id)


def test_only_the_first_sentences_where_a_limit_says_so(desk: Desk, server: FakeOpenAIBatch) -> None:
    assert desk.submit(limit=5).in_batches == 5
    assert submitted(server) == [5]
    assert desk.submit(limit=7).in_batches == 7
    assert submitted(server) == [5, 2]


def test_a_budget_bounds_what_is_submitted(desk: Desk, server: FakeOpenAIBatch) -> None:
    whole = desk.submit(budget_usd=0.0)
    assert (whole.in_batches, whole.pending, whole.exit_code, server.uploads) == (0, 12, 1, 0)
    assert "--budget-usd 0 is not enough" in whole.problems[0].why
    part = desk.submit(budget_usd=0.002)
    assert 0 < part.in_batches < 12
    assert part.most_usd <= 0.002
    desk.collect_all()
    (spent,) = desk.rows("SELECT sum(cost_usd) FROM responses")[0]
    assert 0 < spent <= part.most_usd


def test_what_is_no_unicode_is_left_to_live_runs(desk: Desk, server: FakeOpenAIBatch) -> None:
    lines = [{"id": f"s{n}", "text": "odd \ud800" if n == 4 else f"text {n}.", "label": "0"} for n in range(8)]
    (desk.folder / "odd.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (desk.folder / "mine.set.toml").write_text(
        'name = "mine"\nformat = "jsonl"\npath = "odd.jsonl"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
        '[labels]\nrespectful = ["0"]\ntoxic = ["1"]\n'
    )
    result = desk.submit()
    assert (result.in_batches, result.pending) == (7, 1)
    assert "1 sentences can't stand in a batch file" in result.problems[0].why
    desk.collect_all()
    assert desk.run().exit_code == 0


def test_other_models_are_left_to_live_runs_unless_they_were_named(desk: Desk) -> None:
    desk.model("toxic", adapter="embedded", model="always-toxic")
    said: list[str] = []
    assert desk.submit(tell=said.append).exit_code == 0
    assert said[0] == "left to `hatevolution run`, since they can't go into these batches: toxic"
    with pytest.raises(ConfigError, match="can't go into a batch"):
        desk.submit(models=["toxic"], named=True)
    with pytest.raises(ConfigError, match="has no model that can go into a batch"):
        desk.submit(models=["toxic"])


def test_a_changed_model_is_refused_before_anything_is_sent(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit(limit=3)
    desk.chat(server.base_url, options={"max_tokens_field": "max_completion_tokens"})
    with pytest.raises(StoreError, match="another specification under the model name 'gpt'"):
        desk.submit()
    assert server.uploads == 1


def test_a_run_leaves_the_sentences_of_open_batches(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit(limit=5)
    result = desk.run()
    assert (result.asked, result.pending, result.in_batches, result.exit_code) == (7, 0, 5, 1)
    again = desk.run()
    assert (again.asked, again.in_batches, again.exit_code) == (0, 5, 1)
    assert (server.requests, desk.count("predictions")) == (7, 7)
    desk.collect_all()
    assert desk.run().exit_code == 0
    assert set(server.sent.values()) == {1}


# -- a network that loses things -------------------------------------------------------------------------------------


PLACES = [("POST", "/files"), ("POST", "/batches")]


@pytest.mark.parametrize("fault", [LOST, BROKEN, CUT])
@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("place", PLACES, ids=["upload", "create"])
def test_an_answer_that_never_came_is_looked_for_before_anything_is_sent_again(
    desk: Desk, server: FakeOpenAIBatch, place: tuple[str, str], after: bool, fault: Fault
) -> None:
    server.fail_at(*place, fault, after=after)
    result = desk.submit()
    assert result.exit_code == 0
    assert submitted(server) == [12]
    assert len([file for file in server.files.values() if file.purpose == "batch"]) == 1
    assert f"GET {place[1]}" in server.calls
    answered_once(desk, server)


def test_a_provider_that_never_answers_leaves_it_open_and_the_next_start_finds_out(
    desk: Desk, server: FakeOpenAIBatch
) -> None:
    server.fail_at("POST", "/batches", BROKEN_DOWN, after=True)
    server.fail_at("GET", "/batches", BROKEN_DOWN, times=10)
    result = desk.submit()
    assert (result.in_batches, result.pending, result.batches) == (12, 0, [])
    assert "the same command again goes on from here" in result.problems[0].why
    assert desk.run().asked == 0  # it may be in a batch
    server.faults_at.clear()
    assert [row.name for row in desk.submit().batches] == [desk.batches()[0].name]
    assert submitted(server) == [12]
    answered_once(desk, server)


def test_too_fast_is_waited_out(desk: Desk, server: FakeOpenAIBatch) -> None:
    limited = Fault(status=429, headers={"retry-after-ms": "1"}, body=RATE_LIMITED.body)
    for place in PLACES:
        server.fail_at(*place, limited, times=2)
    assert desk.submit().exit_code == 0
    answered_once(desk, server)


def test_a_file_that_is_not_seen_at_once_is_tried_again(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.unseen = 2
    assert desk.submit().exit_code == 0
    answered_once(desk, server)


def test_a_batch_that_was_created_twice_all_the_same_is_stopped(desk: Desk, server: FakeOpenAIBatch) -> None:
    """The first creation arrives only after it was looked for."""
    server.fail_at("POST", "/batches", BROKEN_DOWN, after=True, times=1)
    server.fail_at("GET", "/batches", Fault(body='{"object":"list","data":[],"has_more":false}', status=200), times=1)
    server.fail_at("POST", "/batches", BROKEN_DOWN, after=True, times=1)
    desk.submit()
    first, second = server.batches.values()
    assert (first.status, second.status) == ("validating", "cancelling")
    assert desk.batches()[0].provider_id == first.id
    answered_once(desk, server)


# -- refusals --------------------------------------------------------------------------------------------------------


REFUSALS: dict[str, tuple[Fault, str]] = {
    "no money": (QUOTA, "The account has no money or quota left, nothing was submitted"),
    "billing limit": (
        Fault(status=400, body=error_body("Billing hard limit has been reached", "x", "billing_hard_limit_reached")),
        "The account has no money or quota left, nothing was submitted",
    ),
    "key": (Fault(status=401, body=error_body("no", "x", "invalid_api_key")), "The provider refuses the key"),
    "queue": (
        Fault(status=429, body=error_body("Enqueued token limit reached", "x", "token_limit_exceeded")),
        "The account may not have so many tokens in open batches at once",
    ),
    "size": (Fault(status=413, body="too large"), "HTTP 413"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("place", [pytest.param(PLACES[0], id="upload", marks=pytest.mark.slow), PLACES[1]])
def test_what_the_provider_refuses_is_pending_again_and_nothing_more_is_sent(
    desk: Desk, server: FakeOpenAIBatch, place: tuple[str, str], name: str
) -> None:
    fault, words = REFUSALS[name]
    server.fail_at(*place, fault)
    result = desk.submit(limits=Limits(5, 10**6))
    assert (result.exit_code, result.pending, result.in_batches) == (1, 12, 0)
    (problem,) = result.problems
    assert problem.why.startswith(words)
    assert server.calls.count(f"{place[0]} {place[1]}") == 1
    assert [(row.outcome, row.note) for row in desk.batches()] == [("not_taken", problem.why)]
    assert desk.submit().exit_code == 0
    answered_once(desk, server)


def test_a_missing_key_is_told_before_anything_is_begun(desk: Desk, server: FakeOpenAIBatch) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        desk.submit(environ={})
    assert not desk.store.exists()


def test_a_wrong_key_at_collecting_changes_nothing(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    right, server.api_key = server.api_key, "another"
    report = desk.collect()
    assert (report.exit_code, report.hopeful, report.waiting) == (1, False, [])
    assert "The provider refuses the key" in report.problems[0].why
    assert desk.outcomes() == {"open": 12}
    server.api_key = right
    answered_once(desk, server)


# -- looking and giving up -------------------------------------------------------------------------------------------


def test_status_adopts_what_a_lost_submission_left(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.fail_at("POST", "/batches", BROKEN_DOWN, after=True)
    server.fail_at("GET", "/batches", BROKEN_DOWN, times=10)
    desk.submit()
    assert desk.look().problems
    server.faults_at.clear()
    seen = desk.look()
    assert (seen.problems, seen.writer) == ([], False)
    ((row, datasets),) = seen.rows
    assert (row.provider_id, row.provider_status, datasets) == (next(iter(server.batches)), "completed", {"mine": 12})
    answered_once(desk, server)


def test_status_submits_nothing(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.fail_at("POST", "/batches", BROKEN_DOWN, times=10)
    desk.submit()
    server.faults_at.clear()
    (problem,) = desk.look().problems
    assert "`hatevolution batch submit` goes on with it" in problem.why
    assert not server.batches
    assert "cut short" in desk.collect().problems[0].why
    desk.submit()
    answered_once(desk, server)


def test_a_cancelled_batch_brings_home_what_was_done(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.done_before_the_end = 4
    desk.submit()
    row = desk.cancel(desk.batches()[0].name)
    assert (row.provider_status, row.closed_at) == ("cancelling", None)
    assert desk.run().asked == 0  # not before it is known what was done
    report = desk.collect_all()
    assert (report.pending, desk.statuses()) == (8, {"answered": 4})
    assert desk.run().asked == 8
    assert set(server.sent.values()) == {1}


def test_a_batch_that_never_got_there_ends_at_once(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.fail_at("POST", "/batches", BROKEN_DOWN, times=10)
    desk.submit()
    server.faults_at.clear()
    row = desk.cancel(desk.batches()[0].name)
    assert row.outcome == "cancelled"
    assert desk.run().asked == 12


def test_a_batch_of_another_account_is_given_up_only_when_told_so(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    server.batches.clear()
    report = desk.collect()
    assert "use the key that it was submitted with" in report.problems[0].why
    assert desk.outcomes() == {"open": 12}
    name = desk.batches()[0].name
    assert desk.cancel(name, forget=True).outcome == "given_up"
    with pytest.raises(UserError, match="is over"):
        desk.cancel(name)
    with pytest.raises(UserError, match="is none of this store"):
        desk.cancel("hb000000000000")
    assert desk.run().asked == 12


def test_a_provider_that_says_absurd_things_is_survived(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    (batch,) = server.batches.values()
    odd = {**batch.document(), "status": "\x1b[31m\ud800" * 100, "request_counts": {"completed": 2**80, "failed": -1}}
    server.fail_at("GET", "/batches/id", Fault(status=200, body=json.dumps(odd)))
    (row,) = desk.collect().waiting
    assert (row.done, row.failed) == (None, None)
    assert (row.provider_status or "").isprintable()
    for body in ("nonsense", "[]", json.dumps({**odd, "id": "../../files"}), json.dumps({"id": batch.id})):
        server.fail_at("GET", "/batches/id", Fault(status=200, body=body), times=FAST.attempts)
        assert "HTTP 200, but the body does not hold an answer" in desk.collect().problems[0].why
    answered_once(desk, server)


def test_a_batch_that_was_begun_elsewhere_is_not_begun_again_here(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.fail_at("POST", "/batches", BROKEN_DOWN, after=True, times=10)
    server.fail_at("GET", "/batches", BROKEN_DOWN, times=10)
    desk.submit()
    server.faults_at.clear()
    desk.chat(server.base_url.replace("127.0.0.1", "localhost"))
    (problem,) = desk.submit().problems
    assert "set endpoint.base_urls back" in problem.why
    assert len(server.batches) == 1


def test_results_that_are_gone_are_told(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    server.fail_at("GET", "/content", Fault(status=404, body=error_body("No such File object", "x", None)))
    report = desk.collect()
    assert "its results are not there any more" in report.problems[0].why
    assert desk.outcomes() == {"open": 12}
    answered_once(desk, server)


@pytest.mark.parametrize("fault", [LOST, BROKEN, CUT])
def test_a_download_that_breaks_off_is_done_again(desk: Desk, server: FakeOpenAIBatch, fault: Fault) -> None:
    desk.submit()
    server.fail_at("GET", "/content", fault, after=True, times=2)
    answered_once(desk, server)


def test_a_download_that_never_succeeds_stores_nothing(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    server.fail_at("GET", "/content", Fault(action="cut"), after=True, times=20)
    report = desk.collect()
    assert (report.exit_code, report.hopeful) == (1, True)
    assert desk.outcomes() == {"open": 12}
    server.faults_at.clear()
    answered_once(desk, server)


def test_a_store_from_before_batches_is_shown_without_any(tmp_path: Path) -> None:
    import sqlite3

    from hatevolution.runner.batch.look import look

    desk = Desk(tmp_path)
    desk.dataset(count=2)
    desk.model("toxic", adapter="embedded", model="always-toxic")
    desk.run()
    connection = sqlite3.connect(desk.store)
    for name in ("batch_lines", "batches"):
        connection.execute(f"DROP TABLE {name}")
    connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm004_batches'")
    connection.commit()
    connection.close()
    assert look(desk.store, environ=ENVIRON, pace=FAST).rows == []


def test_progress_is_told(desk: Desk, server: FakeOpenAIBatch) -> None:
    said: list[Any] = []
    desk.submit(tell=said.append)
    name = desk.batches()[0].name
    assert said[0].startswith(f"{name}: 12 requests of gpt, ")
    assert said[-1] == f"{name}: submitted as {next(iter(server.batches))} (validating)"
