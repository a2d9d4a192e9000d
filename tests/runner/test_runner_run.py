"""Whole runs against servers that speak the documented wire formats, over loopback."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from fake_base import Fault, in_thread
from fake_openai import CONTEXT, FILTERED, QUOTA, RATE_LIMITED, TOO_LARGE, FakeOpenAI
from fake_vllm import FakeVllm
from run_files import KEY, Project

import hatevolution
from hatevolution.errors import UserError
from hatevolution.runner.display import PlainEvents
from hatevolution.store.reader import connect
from hatevolution.store.status import cells

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset(count=50)
    return made


@pytest.fixture
def vllm() -> Iterator[FakeVllm]:
    server = FakeVllm()
    with in_thread(server):
        yield server


@pytest.fixture
def openai() -> Iterator[FakeOpenAI]:
    server = FakeOpenAI(limits={})
    with in_thread(server):
        yield server


def asked(server: FakeVllm | FakeOpenAI) -> dict[str, int]:
    """How often each sentence was sent, by its id."""
    return {f"s{number}": count for number in range(50) if (count := server.asked(f"sentence number {number}."))}


EVERY = {f"s{number}": 1 for number in range(50)}


# -- the plain way ---------------------------------------------------------------------------------------------------


def test_every_sentence_is_answered_once_and_a_second_start_sends_nothing(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    result = project.run()
    assert (result.exit_code, result.asked, result.pending, result.problems) == (0, 50, 0, [])
    assert asked(vllm) == EVERY
    before = project.snapshot()
    assert len(before) == 50
    requests = vllm.requests
    again = project.run()
    assert (again.exit_code, again.asked, again.pending) == (0, 0, 0)
    assert vllm.requests == requests
    assert project.snapshot() == before
    assert project.rows("SELECT outcome FROM runs ORDER BY rowid") == [("complete",), ("complete",)]
    assert project.count("intents") == 0


def test_a_large_set_says_how_far_its_reading_is(
    project: Project, vllm: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatevolution.runner.register._TELL_S", 0.0)
    monkeypatch.setattr("hatevolution.runner.register._TELL_ROWS", 20)
    project.vllm(vllm.base_url)
    told: list[str] = []
    stream = io.StringIO()
    listeners = [lambda event, **fields: told.append(fields["sentences"]) if event == "reading" else None]
    project.run(listeners=[*listeners, PlainEvents(stream)])
    assert told == ["0", "20", "40"]
    assert "reading mine into the store: 40 sentences so far" in stream.getvalue()
    assert project.count("sentences") == 50
    # What the store has already is not read again.
    project.run(listeners=listeners)
    assert len(told) == 3


def test_what_was_said_is_stored_exactly(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    project.run()
    rows = project.rows(
        "SELECT s.text, p.raw_text, p.status, p.finish_reason, r.served_model, r.http_status, r.base_url "
        "FROM predictions AS p JOIN sentences AS s USING (dataset, sentence) JOIN responses AS r USING (response)"
    )
    prompt = "Classify the input text as 'respectful' or 'toxic'.\nInput text: {}.\nAnswer: "
    assert len(rows) == 50
    for text, *rest in rows:
        expected = [vllm.answer(prompt.format(text)), "answered", "stop", "fake/model", 200, vllm.base_url]
        assert rest == expected
    assert all(body["prompt"].startswith("Classify the input text as") for body in vllm.bodies)


def test_lists_are_sent_where_the_endpoint_takes_them(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url, batch_size=16)
    assert project.run().exit_code == 0
    assert vllm.requests == 4
    assert asked(vllm) == EVERY
    assert project.count("responses") == 4
    assert project.count("predictions") == 50


def test_the_bad_one_in_a_list_of_32_is_found_and_the_others_are_kept(tmp_path: Path, vllm: FakeVllm) -> None:
    project = Project(tmp_path)
    project.dataset(count=32, text=lambda n: "word " * 5_000 if n == 20 else f"sentence number {n}.")
    project.vllm(vllm.base_url, batch_size=32)
    result = project.run()
    assert (result.exit_code, result.pending) == (0, 0)
    assert vllm.requests == 11
    assert project.rows("SELECT sentence, finish_reason FROM predictions WHERE status = 'rejected'") == [("s20", "400")]
    assert project.count("predictions", "status = 'answered'") == 31


def test_models_and_sets_can_be_chosen_and_limited(project: Project, vllm: FakeVllm) -> None:
    project.dataset("other", 20)
    project.vllm(vllm.base_url, name="a")
    project.vllm(vllm.base_url, name="b")
    result = project.run(models=["b"], datasets=["other"], limit=7)
    assert (result.exit_code, result.asked) == (0, 7)
    assert project.rows("SELECT model, dataset, count(*) FROM predictions GROUP BY 1, 2") == [("b", "other", 7)]
    connection = connect(project.store)
    assert [tuple(cell)[:3] for cell in cells(connection)] == [("b", "other", 20)]
    connection.close()
    assert project.run(models=["b"], datasets=["other"], limit=7).asked == 0
    assert project.run(models=["b"], datasets=["other"]).asked == 13
    assert project.run().asked == 20 + 2 * 50


def test_a_set_that_grows_by_the_limit_is_asked_in_its_order(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    for limit in (3, 10, 10, 50, 99):
        project.run(limit=limit)
        found = {sentence for (sentence,) in project.rows("SELECT sentence FROM predictions")}
        assert found == {f"s{number}" for number in range(min(limit, 50))}
    assert asked(vllm) == EVERY


# -- faults ----------------------------------------------------------------------------------------------------------


def test_500_until_attempts_are_used_up_leaves_rows_pending_and_the_next_run_asks_only_those(
    project: Project, vllm: FakeVllm
) -> None:
    vllm.fail_when(lambda texts: "number 7." in texts[0] or "number 31." in texts[0], Fault(status=500, body="oops"))
    project.vllm(vllm.base_url, max_attempts=2)
    result = project.run()
    assert (result.exit_code, result.pending) == (1, 2)
    assert sum(state.given_up for state in result.states) == 2
    assert asked(vllm) == {**EVERY, "s7": 2, "s31": 2}
    assert project.rows(
        "SELECT sentence, attempt, kind, http_status, body FROM failures ORDER BY sentence, attempt"
    ) == [("s31", 1, "transient", 500, "oops"), ("s31", 2, "transient", 500, "oops"),
          ("s7", 1, "transient", 500, "oops"), ("s7", 2, "transient", 500, "oops")]  # fmt: skip
    assert project.rows("SELECT outcome FROM runs") == [("incomplete",)]
    before = project.snapshot()

    vllm._rules.clear()
    again = project.run()
    assert (again.exit_code, again.asked) == (0, 2)
    assert asked(vllm) == {**EVERY, "s7": 3, "s31": 3}
    after = project.snapshot()
    assert {key: after[key] for key in before} == before
    assert len(after) == 50


def test_malformed_successes_are_never_answers(project: Project, vllm: FakeVllm) -> None:
    for body in ("", "{", '{"choices": []}', '{"choices": [{"index": 1, "text": "toxic"}]}', "null", b"\xff\xfe", "[]"):
        vllm.fail(Fault(status=200, body=body))
    vllm.fail(Fault(action="cut"))
    project.vllm(vllm.base_url)
    assert project.run().exit_code == 0
    kinds = dict(project.rows("SELECT kind, count(*) FROM failures GROUP BY 1"))
    assert kinds == {"malformed": 7, "transient": 1}
    assert project.rows("SELECT DISTINCT raw_text FROM predictions ORDER BY 1") == [("respectful",), ("toxic",)]


def test_numbers_that_no_database_holds_are_not_the_end(project: Project, vllm: FakeVllm) -> None:
    huge = (
        '{"model": "\\ud800", "choices": [{"index": 0, "text": "toxic"}], "usage": {"prompt_tokens": 1'
        + "0" * 30
        + "}}"
    )
    vllm.fail(Fault(status=200, body=huge))
    project.vllm(vllm.base_url)
    result = project.run()
    assert (result.exit_code, result.pending) == (1, 1)
    assert project.count("predictions") == 49
    assert project.rows("SELECT body FROM failures") == [(huge,)]
    assert project.run().exit_code == 0


def test_dropped_connections_and_timeouts_are_tried_again(project: Project, vllm: FakeVllm) -> None:
    vllm.fail(Fault(action="drop"), times=2)
    vllm.fail(Fault(action="hang", seconds=30))
    project.vllm(vllm.base_url, timeout_s=0.5)
    assert project.run().exit_code == 0
    kinds = dict(project.rows("SELECT kind, max(maybe_billed) FROM failures GROUP BY 1"))
    assert kinds == {"transient": 1, "timeout": 1}
    assert project.count("predictions") == 50


def test_a_storm_of_rate_limits_is_one_pause(project: Project, vllm: FakeVllm) -> None:
    times: list[float] = []

    def note(_texts: object) -> bool:
        times.append(time.monotonic())
        return False

    vllm.fail_when(note, Fault())
    vllm.fail(
        Fault(status=429, headers={"Retry-After": "1"}, body={"error": {"message": "slow", "code": 429}}), times=8
    )
    vllm.latency_s = 0.2
    project.vllm(vllm.base_url)
    assert project.run().exit_code == 0
    assert dict(project.rows("SELECT kind, count(*) FROM failures GROUP BY 1")) == {"rate_limit": 8}
    assert times[8] - times[7] > 0.9
    assert max(times[:8]) - times[0] < 0.9
    assert len([at for at in times[8:] if at < times[8] + 0.19]) <= 4  # half of eight, before the first of them answers


# -- what stops ------------------------------------------------------------------------------------------------------


def test_a_port_that_nobody_listens_on_is_one_sentence(project: Project) -> None:
    project.vllm("http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"The model m can't be asked: .*127\.0\.0\.1:9") as caught:
        project.run()
    assert "\n" not in str(caught.value)
    assert not project.store.exists()  # a run that could not begin leaves nothing behind


def test_a_model_that_the_server_has_not_got_is_one_sentence(project: Project) -> None:
    with in_thread(FakeVllm(model="other/model")) as server:
        project.vllm(server.base_url)
        with pytest.raises(UserError, match=r"does not serve 'fake/model' but 'other/model'"):
            project.run()
        assert server.requests == 0


def test_a_wrong_key_is_told_before_any_sentence_is_sent(project: Project) -> None:
    with in_thread(FakeVllm(api_key="right")) as server:
        project.vllm(server.base_url, api_key_env="MY_KEY")
        with pytest.raises(UserError, match="401") as caught:
            project.run(environ={"MY_KEY": "wrong-key-123"})
        assert "wrong-key-123" not in str(caught.value)
        assert server.requests == 0
        assert project.run(environ={"MY_KEY": "right"}).exit_code == 0


def test_a_key_that_is_turned_down_at_the_first_request_costs_one_request(project: Project) -> None:
    with in_thread(FakeOpenAI(may_list=False)) as server:
        server.fail_when(
            lambda _texts: True, Fault(status=401, body={"error": {"message": "no", "code": "invalid_api_key"}})
        )
        project.openai(server.base_url)
        result = project.run()
        assert (result.exit_code, result.pending) == (1, 50)
        assert server.requests == 1
        assert [problem.model for problem in result.problems] == ["gpt"]
        assert project.count("failures") == 1


def test_an_exhausted_quota_is_not_retried_and_the_other_lanes_go_on(
    project: Project, openai: FakeOpenAI, vllm: FakeVllm
) -> None:
    openai.fail_when(lambda _texts: True, QUOTA)
    project.openai(openai.base_url)
    project.vllm(vllm.base_url)
    result = project.run()
    assert (result.exit_code, result.pending) == (1, 50)
    assert openai.requests == 1
    assert asked(vllm) == EVERY
    assert "quota" in result.problems[0].why


def test_the_rest_is_asked_once_the_quota_is_back(project: Project, openai: FakeOpenAI) -> None:
    project.openai(openai.base_url, max_concurrency=1)
    seen = 0

    def after_twenty(_texts: Any) -> bool:
        nonlocal seen
        seen += 1
        return seen > 20

    openai.fail_when(after_twenty, QUOTA)
    assert project.run().exit_code == 1
    assert (openai.requests, project.count("predictions")) == (21, 20)
    before = project.snapshot()
    openai._rules.clear()
    assert project.run().exit_code == 0
    assert openai.requests == 21 + 30
    after = project.snapshot()
    assert {key: after[key] for key in before} == before


def test_sentences_of_their_own_kind_are_recorded_as_such_and_the_run_is_complete(
    project: Project, openai: FakeOpenAI
) -> None:
    openai.fail_when(lambda texts: "number 3." in texts[0], FILTERED)
    openai.fail_when(lambda texts: "number 4." in texts[0], CONTEXT)
    openai.fail_when(lambda texts: "number 5." in texts[0], TOO_LARGE)
    project.openai(openai.base_url)
    result = project.run()
    assert (result.exit_code, result.pending) == (0, 0)
    assert asked(openai) == EVERY
    rows = project.rows("SELECT sentence, status, finish_reason FROM predictions WHERE status <> 'answered' ORDER BY 1")
    assert rows == [
        ("s3", "refused", "content_filter"),
        ("s4", "rejected", "context_length_exceeded"),
        ("s5", "rejected", "rate_limit_exceeded"),
    ]


def test_the_wait_in_a_message_is_used_where_no_header_says_it(project: Project, openai: FakeOpenAI) -> None:
    openai.fail(RATE_LIMITED)  # "Please try again in 644ms."
    project.openai(openai.base_url, max_concurrency=1)
    told: list[tuple[str, dict[str, Any]]] = []
    assert project.run(listeners=[lambda event, **fields: told.append((event, fields))]).exit_code == 0
    (pause,) = [fields["seconds"] for event, fields in told if event == "cooldown"]
    assert pause == pytest.approx(0.644, abs=0.01)


def test_a_retired_model_is_named_with_its_successor_and_never_asked(project: Project, openai: FakeOpenAI) -> None:
    project.model(
        "old",
        adapter="openai-chat",
        model="gpt-3.5-turbo",
        prompt="paper-chat",
        retired={"date": "2026-10-23", "successor": "gpt-4o"},
        endpoint={"base_urls": [openai.base_url]},
    )
    path = project.folder / "old.model.toml"
    path.write_text(path.read_text().replace('"2026-10-23"', "2026-10-23"))
    with pytest.raises(UserError, match=r"old .*2026-10-23.*successor is gpt-4o"):
        project.run()
    assert (openai.requests, openai.probes) == (0, 0)


def test_a_retired_model_among_others_costs_the_others_nothing(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    project.model("old", adapter="scripted", retired={"date": "2020-01-01", "successor": "new"})
    path = project.folder / "old.model.toml"
    path.write_text(path.read_text().replace('"2020-01-01"', "2020-01-01"))
    result = project.run()
    assert (result.exit_code, result.pending) == (1, 50)
    assert asked(vllm) == EVERY
    assert "successor is new" in result.problems[0].why


def test_a_model_that_is_retired_later_is_asked_today(project: Project) -> None:
    project.model("old", adapter="scripted", retired={"date": "2999-01-01", "successor": "new"})
    path = project.folder / "old.model.toml"
    path.write_text(path.read_text().replace('"2999-01-01"', "2999-01-01"))
    assert project.run().exit_code == 0


# -- money -----------------------------------------------------------------------------------------------------------


def test_what_was_spent_is_what_the_endpoint_counted(project: Project, openai: FakeOpenAI) -> None:
    project.openai(openai.base_url)
    result = project.run()
    tokens = project.rows("SELECT sum(prompt_tokens), sum(completion_tokens) FROM responses")[0]
    assert result.spent_usd == pytest.approx(tokens[0] * 2.5e-6 + tokens[1] * 10e-6)
    assert project.rows("SELECT sum(cost_usd) FROM responses")[0][0] == pytest.approx(result.spent_usd)


def test_a_budget_stops_the_lane_and_a_second_run_goes_on(project: Project, openai: FakeOpenAI) -> None:
    project.openai(openai.base_url, price={"usd_per_request": 0.01})
    first = project.run(budget_usd=0.2)
    assert (first.exit_code, openai.requests) == (1, 20)
    assert first.spent_usd == pytest.approx(0.2)
    assert "budget of 0.2 USD" in first.problems[0].why
    assert project.run().exit_code == 0
    assert openai.requests == 50
    assert asked(openai) == EVERY


# -- servers that come and go ------------------------------------------------------------------------------------------


async def test_a_server_that_restarts_during_a_run_costs_no_attempt(project: Project) -> None:
    server = FakeVllm(latency_s=0.02)
    async with server:
        project.vllm(server.base_url, max_attempts=1)
        project.dataset(count=200)
        running = asyncio.create_task(project.run_beside())
        for _ in range(2):
            target = server.requests + 40
            while server.requests < target:  # noqa: ASYNC110 - the fake counts, and signals nothing
                await asyncio.sleep(0.005)
            await server.stop()
            await asyncio.sleep(0.5)
            await server.start()
        result = await running
    assert (result.exit_code, result.pending) == (0, 0)
    assert project.count("predictions") == 200
    assert sum(state.given_up for state in result.states) == 0
    twice = sum(server.sent.values()) - 200
    assert 0 <= twice <= 2 * 8  # those in flight


async def test_a_server_that_comes_back_with_another_model_stops_the_lane(project: Project) -> None:
    server = FakeVllm(latency_s=0.02)
    async with server:
        project.vllm(server.base_url)
        project.dataset(count=500)
        running = asyncio.create_task(project.run_beside())
        while server.requests < 50:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await server.stop()
        server.model = "other/model"
        await server.start()
        result = await running
    assert result.exit_code == 1
    assert result.pending == 500 - project.count("predictions")
    assert "does not serve 'fake/model' but 'other/model'" in result.problems[0].why


async def test_one_of_two_servers_dies_for_good(project: Project) -> None:
    one, two = FakeVllm(latency_s=0.02), FakeVllm(latency_s=0.02)
    async with one, two:
        project.vllm(one.base_url, two.base_url, max_attempts=1)
        project.dataset(count=300)
        running = asyncio.create_task(project.run_beside())
        while two.requests < 40:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await two.stop()
        result = await asyncio.wait_for(running, 20)
    assert (result.exit_code, result.pending) == (0, 0)
    assert one.requests > two.requests
    assert sum((one.sent + two.sent).values()) <= 300 + 8


def test_one_of_two_servers_is_not_there_from_the_beginning(project: Project, vllm: FakeVllm) -> None:
    project.vllm("http://127.0.0.1:9/v1", vllm.base_url, max_attempts=1)
    assert project.run().exit_code == 0
    assert asked(vllm) == EVERY


# -- secrets and records -----------------------------------------------------------------------------------------------


def test_the_key_is_written_nowhere(project: Project, openai: FakeOpenAI) -> None:
    openai.fail(Fault(status=500, body=f"your key {KEY} is odd"), times=2)
    project.openai(openai.base_url)
    told: list[str] = []
    project.run(listeners=[lambda event, **fields: told.append(f"{event} {fields}")])
    assert KEY not in " ".join(told)
    for path in project.folder.glob("s.db*"):
        assert KEY.encode() not in path.read_bytes(), path
    assert project.count("failures") == 2


def test_a_run_remembers_who_when_and_with_what(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    project.run(command=("hatevolution", "run", "x.toml"))
    (row,) = project.rows("SELECT started_at, ended_at, who, command, configuration, versions FROM runs")
    assert row[0] < row[1]
    assert f"pid {os.getpid()}" in row[2]
    assert json.loads(row[3]) == ["hatevolution", "run", "x.toml"]
    configuration = json.loads(row[4])
    assert configuration["models"][0]["endpoint"]["base_urls"] == [vllm.base_url]
    assert configuration["datasets"][0]["name"] == "mine"
    assert json.loads(row[5])["hatevolution"] == hatevolution.__version__


def test_a_changed_model_under_the_same_name_stops_before_the_first_request(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    project.run(limit=5)
    requests = vllm.requests
    project.model("m", decoding={"temperature": 0.5}, endpoint={"base_urls": [vllm.base_url]})
    with pytest.raises(UserError, match=r"decoding\.temperature: null -> 0\.5"):
        project.run()
    assert vllm.requests == requests
    project.model("m", title="Another title", endpoint={"base_urls": [vllm.base_url], "max_concurrency": 2})
    assert project.run().exit_code == 0


def test_a_typo_pins_no_name_under_which_nothing_was_asked(project: Project, vllm: FakeVllm) -> None:
    project.model("toxic", adapter="embedded", model="always-toxic")
    project.model("m", model="org/typo", endpoint={"base_urls": [vllm.base_url]})
    first = project.run()
    assert ([problem.model for problem in first.problems], first.exit_code) == (["m"], 1)
    project.model("m", endpoint={"base_urls": [vllm.base_url]})
    assert "org/typo" not in project.command("--dry-run").stderr
    notes: list[str] = []
    again = project.run(listeners=[lambda event, **fields: notes.append(fields["text"]) if event == "note" else None])
    assert again.exit_code == 0
    assert notes == [
        '\'m\' stands for another specification from now on (model: "org/typo" -> "fake/model"); nothing was asked '
        "under the one before"
    ]
    project.model("m", model="org/typo", endpoint={"base_urls": [vllm.base_url]})
    with pytest.raises(UserError, match="another specification under the model name 'm'"):
        project.run()


def test_a_changed_data_set_stops_before_the_first_request(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    project.run(limit=5)
    requests = vllm.requests
    project.dataset(count=50, text=lambda n: f"sentence number {n}{'!' if n == 40 else '.'}")
    with pytest.raises(UserError, match=r"sentence number 41 \(id 's40', changed: text\)"):
        project.run()
    assert vllm.requests == requests
    assert project.count("predictions") == 5


def test_nothing_is_left_of_a_store_whose_first_run_could_not_begin(project: Project) -> None:
    project.openai("http://127.0.0.1:9/v1")
    (project.folder / "mine.csv").write_text("id,text,label\n1,a,1\n1,b,0\n")
    with pytest.raises(UserError, match="row 3: the id '1'"):
        project.run()
    assert not project.store.exists()
