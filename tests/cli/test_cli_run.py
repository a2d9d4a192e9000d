"""``hatevolution run``: its options, what it prints where, its exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_base import Fault, in_thread
from fake_openai import QUOTA, FakeOpenAI
from fake_vllm import FakeVllm
from rich.console import Console
from run_files import KEY, Project, environment, hatevolution, wait_until

from hatevolution.cli._dry_run import forecast_table
from hatevolution.runner.forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset(count=30)
    return made


@pytest.fixture
def vllm() -> Iterator[FakeVllm]:
    with in_thread(FakeVllm()) as server:
        assert isinstance(server, FakeVllm)
        yield server


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Exit code 2, one line on standard error, nothing on standard output."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("hatevolution: ")
    assert "Traceback" not in done.stderr
    return done.stderr


# -- the plain way ---------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_does_on_standard_error_alone(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    done = project.process()
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert re.search(r"^\d\d:\d\d:\d\d  m: 30 of 30, done", done.stderr, re.MULTILINE)
    assert f"30 answers came into {project.store}; of the 30 asked for, 0 are still missing." in done.stderr
    assert "hatevolution score --store" in done.stderr
    again = project.command()
    assert again.returncode == 0
    assert "Nothing was left to do" in again.stderr
    assert vllm.requests == 30


def test_json_is_one_document_and_nothing_else_on_standard_output(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    for asked in (30, 0):
        done = project.command("--json")
        document = json.loads(done.stdout)
        run = document.pop("run")
        assert project.rows("SELECT count(*) FROM runs WHERE run = ?", run) == [(1,)]
        assert document == {
            "store": str(project.store),
            "asked": asked,
            "pending": 0,
            "in_batches": 0,
            "interrupted": False,
            "spent_usd": 0.0,
            "possibly_billed_usd": 0.0,
            "problems": [],
            "exit_code": 0,
        }


def test_what_is_missing_is_said_with_its_reason_and_the_exit_code_is_1(project: Project, vllm: FakeVllm) -> None:
    vllm.fail_when(lambda texts: "number 7." in texts[0], Fault(status=400, body={"message": "odd\x1b[31m request"}))
    project.vllm(vllm.base_url)
    done = project.command("--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["pending"], document["exit_code"]) == (1, 1)
    assert "29 answers came into" in done.stderr
    assert "1 are still missing" in done.stderr
    assert "kind permanent" in done.stderr
    assert "Start the same command again" in done.stderr
    assert "\x1b" not in done.stderr


def test_names_separated_by_commas_choose(project: Project, vllm: FakeVllm) -> None:
    project.dataset("other", 5)
    project.vllm(vllm.base_url, name="a")
    project.vllm(vllm.base_url, name="b")
    project.vllm(vllm.base_url, name="c")
    done = project.command("--models", "a, c", "--datasets", "other", "--limit", "2")
    assert done.returncode == 0, done.stderr
    assert project.rows("SELECT model, dataset, sentence FROM predictions ORDER BY 1, 3") == [
        (name, "other", sentence) for name in ("a", "c") for sentence in ("s0", "s1")
    ]


# -- the dry run -----------------------------------------------------------------------------------------------------


def test_a_dry_run_sends_nothing_and_writes_nothing(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url, batch_size=4, requests_per_minute=30)
    with in_thread(FakeOpenAI()) as openai:
        project.openai(openai.base_url, price={"usd_per_request": 0.01}, tokens_per_minute=600)
        before = files(project.folder) | {"x.toml"}
        done = project.command("--dry-run", "--json", environ={"OPENAI_API_KEY": ""})
        assert done.returncode == 0, done.stderr
        lanes = {lane["model"]: lane for lane in json.loads(done.stdout)["lanes"]}
        assert (openai.requests, openai.probes) == (0, 0)
    assert (vllm.requests, vllm.probes) == (0, 0)
    assert files(project.folder) == before
    free, paid = lanes["m"], lanes["gpt"]
    assert (free["dataset"], free["sentences"], free["pending"], free["requests"]) == ("mine", 30, 30, 8)
    assert free["least_s"] == pytest.approx(8 * 2)
    assert (free["usd_likely"], free["usd_most"]) == (0, 0)
    assert paid["usd_likely"] == pytest.approx(0.3)
    assert paid["least_s"] == pytest.approx((paid["prompt_tokens"] + paid["completion_tokens_most"]) / 10)


def test_a_dry_run_counts_what_is_pending_and_changes_no_byte_of_the_store(project: Project, vllm: FakeVllm) -> None:
    project.vllm(vllm.base_url)
    assert project.command("--limit", "12").returncode == 0
    before = project.store.read_bytes()
    requests = vllm.requests
    lane = json.loads(project.command("--dry-run", "--json").stdout)["lanes"][0]
    assert (lane["sentences"], lane["pending"]) == (30, 18)
    lane = json.loads(project.command("--dry-run", "--json", "--limit", "15").stdout)["lanes"][0]
    assert (lane["sentences"], lane["pending"]) == (15, 3)
    assert project.store.read_bytes() == before
    assert vllm.requests == requests


def test_a_dry_run_for_people_is_a_table(project: Project) -> None:
    project.openai("http://127.0.0.1:9/v1", tokens_per_minute=600)
    done = project.command("--dry-run", environ={"OPENAI_API_KEY": ""})
    assert done.returncode == 0, done.stderr
    assert re.search(r"gpt\s+mine\s+30\s+30\s+30\s+\d+", done.stdout)
    assert "30 answers pending, about 0.0" in done.stdout


def test_a_dry_run_sums_up_each_model_and_the_time_of_the_slowest(project: Project) -> None:
    project.dataset("other", count=1970)
    project.model("m", adapter="scripted", endpoint={"requests_per_minute": 100})
    project.openai("http://127.0.0.1:9/v1", price={"usd_per_request": 0.01}, requests_per_minute=40)
    done = project.command("--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"m +all its sets +2,000 +2,000 +2,000 .* - +- +- +20 min 00 s", done.stdout)
    assert re.search(r"gpt +all its sets +2,000 .* 20\.0000 +20\.0000 +20\.0000 +50 min 00 s", done.stdout)
    assert "4,000 answers pending, about 20.0000 USD" in done.stdout
    assert "The run takes 50 min 00 s at least" in done.stdout
    assert json.loads(project.command("--dry-run", "--json").stdout)["least_s"] == pytest.approx(3000)
    one = project.command("--dry-run", "--datasets", "mine").stdout
    assert "all its sets" not in one


@pytest.mark.parametrize(("width", "left_out"), [(80, 4), (95, 2), (130, 0), (200, 0)])
def test_a_dry_run_breaks_no_word_on_a_narrow_terminal(width: int, left_out: int) -> None:
    names, sets = ("timelms-hate-multiclass-latest", "gpt-4o"), ("singapore-online-attacks", "neobench")
    numbers = (15600, 15600, 0, 15600, 1275520, 31200, 123.4567, 234.5678, 61.7283, None, 11220.0)
    lines = [Forecast(name, data, *numbers) for name in names for data in sets]
    console = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    table, missing = forecast_table(lines, [Forecast(name, "", *numbers) for name in names], (), console)
    console.print(table)
    shown = [line.rstrip() for line in console.export_text().splitlines()]
    assert len(missing) == left_out
    assert max(map(len, shown)) <= width
    words = " ".join(shown).split()
    assert words.count("singapore-online-attacks") == words.count("neobench") == 2
    assert names[0] in words
    assert words.count("123.4567") == words.count("234.5678") == words.count("61.7283") == 6
    assert " ".join(shown).count("3 h 07 min") == 6


def test_the_dry_runs_cost_bounds_what_the_run_costs(project: Project) -> None:
    with in_thread(FakeOpenAI(limits={})) as openai:
        project.openai(openai.base_url)
        lane = json.loads(project.command("--dry-run", "--json").stdout)["lanes"][0]
        spent = json.loads(project.command("--json").stdout)["spent_usd"]
    assert 0 < spent <= lane["usd_most"]
    assert spent == pytest.approx(lane["usd_likely"], rel=0.5)


def test_a_retired_model_is_marked_in_the_dry_run(project: Project) -> None:
    project.model("old", adapter="scripted", retired={"date": "2020-01-01", "successor": "new"})
    path = project.folder / "old.model.toml"
    path.write_text(path.read_text().replace('"2020-01-01"', "2020-01-01"))
    done = project.command("--dry-run")
    assert done.returncode == 0
    assert "its successor is new" in done.stdout
    # What is not known is not said to be nothing.
    assert "Not in these sums, since they can't be asked as things are: old." in done.stdout
    (lane,) = json.loads(project.command("--dry-run", "--json").stdout)["lanes"]
    assert (lane["pending"], lane["requests"], lane["usd_likely"], lane["usd_most"]) == (30, None, None, None)


# -- money -----------------------------------------------------------------------------------------------------------


def test_the_budget_is_kept_and_said(project: Project) -> None:
    with in_thread(FakeOpenAI(limits={})) as openai:
        project.openai(openai.base_url, price={"usd_per_request": 0.01})
        done = project.command("--budget-usd", "0.1", "--json")
        assert done.returncode == 1
        assert openai.requests == 10
        assert json.loads(done.stdout)["spent_usd"] == pytest.approx(0.1)
        assert "Spent 0.1000 USD" in done.stderr
        assert "of the budget of 0.1 USD (0.1000 spent, 0.0000 possibly billed)" in done.stderr


@pytest.mark.parametrize(
    "option",
    [
        *(("--budget-usd", value) for value in ("-1", "much", "nan", "inf")),
        *(("--limit", "0"), ("--limit", "x"), ("--models", ",")),
        *(("--log", f"s.db{end}") for end in ("", "-wal", "-shm", ".lock", ".reserve")),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(
    project: Project, option: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.model("m", adapter="scripted")
    monkeypatch.chdir(project.folder)
    done = project.command(*option)
    assert done.returncode == 2
    assert option[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert not project.store.exists()


# -- what a person can put right ---------------------------------------------------------------------------------------


def test_a_missing_key_is_one_sentence_that_names_the_variable(project: Project) -> None:
    project.openai("http://127.0.0.1:9/v1")
    said = one_sentence(project.command(environ={"OPENAI_API_KEY": ""}))
    assert "OPENAI_API_KEY" in said
    assert "gpt" in said


def test_a_port_nobody_listens_on_is_one_sentence(project: Project) -> None:
    project.vllm("http://127.0.0.1:9/v1")
    done = project.process()
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("hatevolution: ")]
    assert len(said) == 1
    assert "127.0.0.1:9" in said[0]
    assert "Traceback" not in done.stderr


def test_an_unknown_key_is_one_sentence_that_names_file_key_and_the_nearest_known_one(project: Project) -> None:
    project.model("m", adapter="scripted", endpoint={"max_concurency": 5})
    said = one_sentence(project.command())
    assert all(part in said for part in ("m.model.toml", "max_concurency", "did you mean 'max_concurrency'?"))


def test_an_unknown_model_or_set_is_one_sentence(project: Project) -> None:
    project.model("alpha", adapter="scripted")
    assert "did you mean 'alpha'?" in one_sentence(project.command("--models", "alpa"))
    assert "it has: mine" in one_sentence(project.command("--datasets", "yours"))
    assert not project.store.exists()


def test_an_experiment_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    assert "nothing.toml" in one_sentence(hatevolution("run", str(tmp_path / "nothing.toml")))
    assert "did you mean 'quickstart'?" in one_sentence(hatevolution("run", "quikstart"))


def test_a_bad_label_names_file_row_and_value_and_nothing_is_kept(project: Project) -> None:
    (project.folder / "mine.csv").write_text("id,text,label\n1,a,1\n2,b,maybe\n")
    project.model("m", adapter="scripted")
    said = one_sentence(project.command())
    assert all(part in said for part in ("mine.csv", "row 3", "maybe"))
    assert not project.store.exists()


def test_a_store_of_another_specification_is_one_sentence(project: Project) -> None:
    project.model("m", adapter="scripted")
    assert project.command("--limit", "3").returncode == 0
    project.model("m", adapter="scripted", decoding={"seed": 3})
    said = one_sentence(project.command())
    assert "decoding.seed: null -> 3" in said
    assert project.count("predictions") == 3


def test_a_store_that_is_none_is_one_sentence(project: Project) -> None:
    project.model("m", adapter="scripted")
    project.store.write_text("id,text\n" * 1000)
    assert "s.db" in one_sentence(project.command())
    assert project.store.read_text() == "id,text\n" * 1000


def test_the_wrong_key_is_never_shown(project: Project) -> None:
    with in_thread(FakeOpenAI(api_key="another")) as openai:
        project.openai(openai.base_url)
        done = project.command("--log", str(project.folder / "log.jsonl"))
        assert done.returncode == 2
        assert KEY not in done.stdout + done.stderr + (project.folder / "log.jsonl").read_text()
        assert openai.requests == 0


def test_one_lane_without_quota_does_not_stop_the_others_and_is_named(project: Project, vllm: FakeVllm) -> None:
    with in_thread(FakeOpenAI()) as openai:
        openai.fail_when(lambda _texts: True, QUOTA)
        project.openai(openai.base_url)
        project.vllm(vllm.base_url)
        done = project.command("--json")
        assert done.returncode == 1
        assert openai.requests == 1
    document = json.loads(done.stdout)
    assert document["pending"] == 30
    assert [problem["model"] for problem in document["problems"]] == ["gpt"]
    assert "Missing of gpt: " in done.stderr


# -- the log ---------------------------------------------------------------------------------------------------------


def test_the_log_is_json_lines_with_times_and_is_added_to(project: Project, vllm: FakeVllm) -> None:
    vllm.fail(Fault(status=500, body="odd \x1b[0m \ud83d"), times=2)
    project.vllm(vllm.base_url)
    log = project.folder / "log.jsonl"
    assert project.command("--log", str(log)).returncode == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    names = [event["event"] for event in events]
    assert names[0] == "run_started"
    assert names[-1] == "run_ended"
    assert names.count("failure") == 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["at"]) for event in events)
    failure = next(event for event in events if event["event"] == "failure")
    assert (failure["model"], failure["kind"], failure["http_status"]) == ("m", "transient", 500)
    assert project.command("--log", str(log)).returncode == 0
    assert len(log.read_text().splitlines()) >= len(events)


def test_the_log_tells_how_each_lane_went(project: Project) -> None:
    project.model("fast", adapter="scripted")
    with in_thread(FakeOpenAI(limits={})) as openai:
        openai.fail_when(lambda texts: "number 5." in texts[0], Fault(status=500, body=""))
        project.openai(openai.base_url, price={"usd_per_request": 0.01}, max_attempts=1)
        assert project.command("--log", str(project.folder / "log.jsonl")).returncode == 1
    events = [json.loads(line) for line in (project.folder / "log.jsonl").read_text().splitlines()]
    started = {event["model"]: event["pending"] for event in events if event["event"] == "lane_started"}
    assert started == {"fast": 30, "gpt": 30}
    ended = {event["model"]: event for event in events if event["event"] == "lane_ended"}
    counts = ("phase", "recorded", "pending", "given_up", "failed_attempts")
    assert [ended["fast"][name] for name in counts] == ["done", 30, 0, 0, 0]
    assert [ended["gpt"][name] for name in counts] == ["done", 29, 1, 1, 1]
    assert (ended["fast"]["spent_usd"], ended["gpt"]["spent_usd"]) == (0, pytest.approx(0.29))
    for event in ended.values():
        assert event["per_second"] == pytest.approx(event["recorded"] / event["seconds"], rel=0.05)


def test_a_log_that_cannot_be_written_is_one_sentence(project: Project) -> None:
    project.model("m", adapter="scripted")
    assert "log.jsonl" in one_sentence(project.command("--log", str(project.folder / "no" / "log.jsonl")))


def test_a_log_on_a_full_disk_does_not_end_the_run(project: Project) -> None:
    project.model("m", adapter="scripted")
    assert project.process("--log", "/dev/full").returncode == 0
    assert project.count("predictions") == 30


# -- where people look -------------------------------------------------------------------------------------------------


def on_a_terminal(project: Project, *more: str, until: str | None = None) -> tuple[str, int]:
    """Run with standard error on a terminal; return what it showed, and the exit code."""
    ours, theirs = pty.openpty()
    process = project.start(
        *more, stdout=subprocess.DEVNULL, stderr=theirs, environ={"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:
            break
        if not part:
            break
        shown += part
        if until is not None and until in shown.decode(errors="replace"):
            process.send_signal(signal.SIGINT)
            until = None
    os.close(ours)
    return shown.decode(errors="replace"), process.wait(timeout=30)


def test_a_terminal_shows_lanes_that_live(project: Project) -> None:
    project.model("m", adapter="scripted", options={"latency_s": 0.2}, endpoint={"max_concurrency": 8})
    project.model("n", adapter="scripted", title="[bold]Odd[/bold] \x1b[31mtitle", endpoint={"max_concurrency": 1})
    shown, code = on_a_terminal(project)
    assert code == 0
    assert "30/30" in shown
    assert "Rate/s" in shown
    assert "[bold]Odd[/bold]" in shown
    assert "\x1b[31mtitle" not in shown


def test_a_pause_is_shown_with_its_reason_and_how_long(project: Project) -> None:
    project.model("m", adapter="scripted", options={"failures": ["429 first 1 retry_after=3"]})
    shown, code = on_a_terminal(project)
    assert code == 0
    assert re.search(r"for \d s more: rate limit: ", shown)


def test_ctrl_c_on_a_terminal_leaves_it_in_order(project: Project) -> None:
    project.model("m", adapter="scripted", options={"latency_s": 0.5}, endpoint={"max_concurrency": 1})
    shown, code = on_a_terminal(project, until="1/30")
    assert code == 130
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor is shown again
    assert "Start the same command again" in shown


def test_a_pipe_that_nobody_reads_any_more_does_not_end_the_run(project: Project, vllm: FakeVllm) -> None:
    """A terminal that is closed during the night."""
    vllm.latency_s = 0.2
    vllm.fail(Fault(status=500, body="to be told"), times=3)
    project.vllm(vllm.base_url, max_concurrency=4)
    process = project.start()
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    process.stdout.close()
    wait_until(lambda: process.poll() is not None)
    assert project.count("predictions") == 30
    assert project.rows("SELECT outcome FROM runs") == [("complete",)]
    assert process.returncode == 0


def test_what_to_do_next_can_be_typed_as_it_stands(project: Project) -> None:
    """The command that was called by its path is named by its path, unless its name alone would find it."""
    project.model("m", adapter="scripted", prompt="paper-open")
    program = str(Path(sys.executable).with_name("hatevolution"))
    call = [program, *project.arguments()[4:]]  # what follows the Python and its options
    elsewhere = {**environment(), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=elsewhere)
    assert f"Tables: {program} score --store" in done.stderr
    found = {**environment(), "PATH": f"{Path(program).parent}:/usr/bin:/bin"}
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=found)
    assert "Tables: hatevolution score --store" in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", ">&-", ">&- 2>&-"])
def test_what_cannot_be_shown_changes_nothing_else(project: Project, closed: str) -> None:
    project.model("m", adapter="scripted", prompt="paper-open")
    line = f"{shlex.join(project.arguments())} {closed}"
    assert subprocess.run(["sh", "-c", line], check=False, env=environment()).returncode == 0
    assert project.count("predictions") == 30


@pytest.mark.parametrize("line", ["[price]\nusd_per_request = inf", "[endpoint]\nbatch_size = 99999999999999999999"])
def test_numbers_that_nothing_can_hold_are_refused(project: Project, line: str) -> None:
    project.model("m", adapter="scripted")
    path = project.folder / "m.model.toml"
    path.write_text(f"{path.read_text()}\n{line}\n")
    assert line.split()[1] in one_sentence(project.command())
    assert not project.store.exists()


@pytest.mark.parametrize("url", ["http://", "http://host:99999/v1", "host/v1", "http://me:hunter2@host/v1"])
def test_a_dry_run_refuses_what_is_no_address(project: Project, url: str) -> None:
    project.model("m", adapter="openai-chat", prompt="paper-chat", endpoint={"base_urls": [url]})
    assert "m.model.toml: base URL 1 is not an address" in (said := one_sentence(project.command("--dry-run")))
    assert "hunter2" not in said


def test_a_name_with_an_escape_code_is_refused(project: Project) -> None:
    project.model("m", adapter="scripted")
    path = project.folder / "m.model.toml"
    path.write_text(path.read_text().replace('name = "m"', r'name = "m\u001b[31m"'))
    assert "holds U+001B" in one_sentence(project.command())
    assert not project.store.exists()


def test_progress_is_told_in_lines_where_there_is_no_terminal(project: Project) -> None:
    project.model("m", adapter="scripted", options={"latency_s": 0.25}, endpoint={"max_concurrency": 2})
    begun = time.monotonic()
    done = project.process()
    assert done.returncode == 0
    assert time.monotonic() - begun > 3.5
    assert re.search(r"^\d\d:\d\d:\d\d  m: \d+ of 30 \(\d+\.\d/s, \d in flight\), left: ", done.stderr, re.MULTILINE)


def test_a_lane_that_was_told_to_wait_says_for_how_long(project: Project) -> None:
    project.model("m", adapter="scripted", options={"failures": ["429 first 1 retry_after=3"]})
    done = project.command()
    assert done.returncode == 0
    assert "pause of 3.0 s" in done.stderr
    assert re.search(r"m: 0 of 30 .*for \d s more: rate limit: ", done.stderr)


def test_the_experiments_store_is_used_and_the_option_wins(project: Project) -> None:
    project.model("m", adapter="scripted")
    path = project.experiment
    text = path.read_text()
    path.write_text(f'store = "{project.folder / "named.db"}"\n{text}')
    assert hatevolution("run", str(path)).returncode == 0
    assert (project.folder / "named.db").exists()
    environ: dict[str, Any] = {"HATEVOLUTION_STORE": str(project.folder / "env.db")}
    assert hatevolution("run", str(path), environ=environ).returncode == 0
    assert (project.folder / "env.db").exists()
    assert hatevolution("run", str(path), "--store", str(project.store), environ=environ).returncode == 0
    assert project.store.exists()
