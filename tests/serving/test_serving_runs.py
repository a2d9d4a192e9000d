"""Runs that start the servers of their models; the servers are fakes, processes and command lines are not."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_base import in_thread
from fake_serving import STARTS, fake_python, starts, value
from fake_vllm import FakeVllm

from hatevolution.runner.plan import make_plan
from hatevolution.runner.run import RunOptions, RunResult, execute

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timeout(120)
SENTENCES = 40


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Study:
    """A folder with an experiment over one made-up set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.store = folder / "night.db"
        self.models: list[str] = []
        self.environ = {**os.environ, "HATEVOLUTION_VLLM_PYTHON": str(fake_python(folder))}
        self.environ[STARTS] = str(folder / "starts.jsonl")
        self.events: list[tuple[str, dict[str, Any]]] = []
        rows = "".join(f"s{n},a made-up sentence number {n},{n % 2}\n" for n in range(SENTENCES))
        (folder / "set.csv").write_text(f"id,text,label\n{rows}", encoding="utf-8")
        (folder / "set.toml").write_text(
            'name = "set"\nformat = "csv"\npath = "set.csv"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
            '[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n',
            encoding="utf-8",
        )

    def model(
        self, name: str, *, adapter: str = "vllm-completions", port: int | None = None, behaviour: str = "",
        server: str = "", endpoint: str = "max_concurrency = 4",
    ) -> None:  # fmt: skip
        prompt = "" if adapter == "vllm-classify" else 'prompt = "paper-open"\n'
        (self.folder / f"{name}.toml").write_text(
            f'name = "{name}"\nadapter = "{adapter}"\nmodel = "org/{name}"\n{prompt}[endpoint]\n'
            f'base_urls = ["http://127.0.0.1:{port or self.port}/v1"]\n{endpoint}\n[server]\n'
            f"stop_timeout_s = 2\nstartup_timeout_s = 30\n{server}\n"
            f"[server.env]\nFAKE_SERVING = {json.dumps(behaviour)}\n"
            f"FAKE_SERVING_STRAY = {json.dumps(str(self.folder / 'stray'))}\n",
            encoding="utf-8",
        )
        self.models.append(f"./{name}.toml")
        (self.folder / "night.toml").write_text(
            f'name = "night"\nmodels = {json.dumps(self.models)}\ndatasets = ["./set.toml"]\n', encoding="utf-8"
        )

    def run(self) -> RunResult:
        plan = make_plan(str(self.folder / "night.toml"), store=str(self.store), data=None, models=None, datasets=None)
        return execute(plan, RunOptions(environ=self.environ), listeners=[self])

    def __call__(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def told(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]

    @property
    def starts(self) -> list[list[str]]:
        return starts(self.folder / "starts.jsonl")

    def start_times(self) -> list[float]:
        return [json.loads(line)["at"] for line in (self.folder / "starts.jsonl").read_text().splitlines()]

    def rows(self, model: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.store) as store:
            return store.execute(
                "SELECT sentence, status, attempts FROM predictions WHERE model = ? ORDER BY sentence", [model]
            ).fetchall()

    def failures(self) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.store) as store:
            return store.execute("SELECT kind, http_status, message FROM failures").fetchall()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


@pytest.fixture(autouse=True)
def no_orphan(tmp_path: Path) -> Any:
    yield
    deadline = time.monotonic() + 5
    left = []
    while time.monotonic() < deadline:
        left = [
            one.info["cmdline"]
            for one in psutil.process_iter(["cmdline", "status"])
            if any("fake_serving" in part or str(tmp_path) in part for part in one.info["cmdline"] or ())
            and one.info["status"] != psutil.STATUS_ZOMBIE
        ]
        if not left:
            return
        time.sleep(0.05)
    pytest.fail(f"left running: {left}")


def test_three_models_one_after_the_other(study: Study) -> None:
    study.model("one")
    study.model("two", adapter="vllm-classify")
    study.model("three", adapter="vllm-chat")
    result = study.run()
    assert (result.exit_code, result.pending, result.problems) == (0, 0, [])
    for name in ("one", "two", "three"):
        rows = study.rows(name)
        assert [(status, attempts) for _, status, attempts in rows] == [("answered", 1)] * SENTENCES
    asked = [(value(start, "--served-model-name"), value(start, "--runner")) for start in study.starts]
    assert asked == [("org/one", "generate"), ("org/two", "pooling"), ("org/three", "generate")]
    order = [event for event, _ in study.events if event in ("server_starting", "server_ready")]
    assert order == ["server_starting", "server_ready"] * 3
    again = study.run()
    assert (again.exit_code, again.asked, len(study.starts)) == (0, 0, 3)


@pytest.mark.slow
def test_models_on_different_gpus_run_side_by_side(study: Study) -> None:
    study.model("one", server="gpus = [0]", behaviour="slow=1 latency=0.3")
    study.model("two", server="gpus = [1]", port=free_port(), behaviour="slow=1 latency=0.3")
    study.model("three", server="gpus = [1]", port=free_port())
    assert study.run().exit_code == 0
    first, second, third = study.start_times()
    assert second - first < 1 < third - first


def test_a_server_that_somebody_runs_is_used_as_it_is(study: Study) -> None:
    study.model("one", endpoint="max_concurrency = 4")
    server = FakeVllm(model="org/one")
    server.port = study.port
    with in_thread(server):
        assert study.run().exit_code == 0
        assert server.requests == SENTENCES
    assert study.starts == []


def test_a_server_of_another_model_is_left_alone_and_told(study: Study) -> None:
    study.model("one")
    study.model("two", port=free_port())
    server = FakeVllm(model="org/other")
    server.port = study.port
    with in_thread(server):
        result = study.run()
    assert (result.exit_code, result.pending) == (1, SENTENCES)
    assert [(problem.model, "does not serve 'org/one'" in problem.why) for problem in result.problems] == [
        ("one", True)
    ]
    assert len(study.rows("two")) == SENTENCES


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("die", "ended while it was starting (exit code 3): ValueError: these weights are nonsense. Its log is "),
        ("gated", "the weights are gated: accept their licence on their page at huggingface.co and set HF_TOKEN"),
    ],
)
def test_a_server_that_does_not_start_is_told_and_the_others_go_on(study: Study, behaviour: str, said: str) -> None:
    study.model("one", behaviour=behaviour)
    study.model("two")
    result = study.run()
    assert (result.exit_code, result.pending) == (1, SENTENCES)
    (problem,) = result.problems
    assert problem.model == "one"
    assert said in problem.why
    assert Path(problem.why.rsplit("Its log is ", 1)[1].rstrip(".")).is_file()
    assert any("Error" in fields["line"] for fields in study.told("server_log"))
    assert not any("\x1b" in fields["line"] for fields in study.told("server_log"))
    assert (len(study.rows("one")), len(study.rows("two"))) == (0, SENTENCES)
    assert study.failures() == []


@pytest.mark.slow
def test_a_server_that_takes_too_long(study: Study) -> None:
    study.model("one", behaviour="slow=60", server="")
    text = (study.folder / "one.toml").read_text().replace("startup_timeout_s = 30", "startup_timeout_s = 1")
    (study.folder / "one.toml").write_text(text)
    result = study.run()
    assert result.exit_code == 1
    assert "did not come up within 1 s" in result.problems[0].why


def test_a_missing_package_is_told_before_anything_is_asked(study: Study) -> None:
    study.model("one")
    study.model("two")
    text = (study.folder / "one.toml").read_text()
    lame = fake_python(study.folder, without="vllm")
    (study.folder / "one.toml").write_text(text.replace("[server]\n", f"[server]\npython = {json.dumps(str(lame))}\n"))
    result = study.run()
    assert result.exit_code == 1
    assert "pip install 'hatevolution[vllm]' brings it" in result.problems[0].why
    assert len(study.rows("two")) == SENTENCES


def while_running(study: Study, act: Callable[[], None], *, after: int) -> RunResult:
    """Run, and act once so many answers are stored."""

    def wait_and_act() -> None:
        for _ in range(2000):
            try:
                if len(study.rows("one")) >= after:
                    break
            except sqlite3.Error:
                pass
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        return study.run()
    finally:
        thread.join()


def server_pid(study: Study) -> int:
    return int(json.loads((study.folder / "starts.jsonl").read_text().splitlines()[-1])["pid"])


@pytest.mark.parametrize(
    ("how", "behaviour"),
    [
        (signal.SIGKILL, "latency=0.1"),
        pytest.param(signal.SIGTERM, "latency=0.1", marks=pytest.mark.slow),
        (signal.SIGTERM, "latency=0.1 deaf"),
        (signal.SIGUSR1, "latency=0.1"),  # its engine dies: 500 to all, then the end
    ],
)
def test_a_server_that_dies_in_mid_run_is_started_again(study: Study, how: int, behaviour: str) -> None:
    # One attempt is all a sentence has: if a death burnt it, the sentence would stay pending.
    study.model("one", behaviour=behaviour, endpoint="max_concurrency = 4\nmax_attempts = 1")
    result = while_running(study, lambda: os.kill(server_pid(study), how), after=8)
    assert (result.exit_code, result.problems) == (0, [])
    assert len(study.starts) == 2
    rows = study.rows("one")
    assert [row[0] for row in rows] == sorted(f"s{n}" for n in range(SENTENCES))
    assert {status for _, status, _ in rows} == {"answered"}
    assert len(study.told("server_died")) == 1
    # What was in flight failed, once, and was asked again; nobody else noticed.
    assert len([row for row in rows if row[2] > 1]) <= 4
    assert max(row[2] for row in rows) <= 3


@pytest.mark.slow
def test_restarts_are_bounded(study: Study) -> None:
    study.model("one", behaviour="latency=0.05", server="restarts = 0")
    study.model("two")
    result = while_running(study, lambda: os.kill(server_pid(study), signal.SIGKILL), after=8)
    assert result.exit_code == 1
    assert "died (signal 9)" in result.problems[0].why
    assert "It was started again 0 times, as server.restarts allows." in result.problems[0].why
    assert 8 <= len(study.rows("one")) < SENTENCES
    assert len(study.rows("two")) == SENTENCES


@pytest.mark.slow
def test_a_restart_that_fails_counts_too(study: Study) -> None:
    study.model("one", behaviour="latency=0.05", server="restarts = 2")
    poisoned = {"done": False}

    def act() -> None:
        fake = study.folder / "python-with-fakes"
        pid = server_pid(study)
        fake.write_text("#!/bin/sh\necho 'OSError: no'; exit 5\n", encoding="utf-8")
        poisoned["done"] = True
        os.kill(pid, signal.SIGKILL)

    result = while_running(study, act, after=8)
    assert poisoned["done"]
    assert result.exit_code == 1
    assert "ended while it was starting (exit code 5): OSError: no" in result.problems[0].why


def cli(study: Study) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "hatevolution", "run", str(study.folder / "night.toml"), "--store",
         str(study.store)],
        env=study.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def some_rows(study: Study) -> bool:
    try:
        return len(study.rows("one")) >= 4
    except sqlite3.Error:
        return False


@pytest.mark.parametrize(
    "signals",
    [pytest.param([signal.SIGINT], marks=pytest.mark.slow), [signal.SIGINT, signal.SIGINT], [signal.SIGKILL]],
)
def test_however_the_runner_ends_no_server_is_left(study: Study, signals: list[int]) -> None:
    study.model("one", behaviour="latency=0.4 stray")
    study.model("two")
    with cli(study) as run:
        wait_for(lambda: some_rows(study))
        pid, stray = server_pid(study), int((study.folder / "stray").read_text())
        for number in signals:
            run.send_signal(number)
            time.sleep(0.1)
        run.communicate(timeout=30)
    assert run.returncode == (-signal.SIGKILL if signal.SIGKILL in signals else 130)
    wait_for(lambda: not psutil.pid_exists(pid))
    if sys.platform == "linux":
        wait_for(lambda: not psutil.pid_exists(stray))
    assert len(study.starts) == 1  # the second model's server is not started for nothing


@pytest.mark.slow
def test_an_interrupt_while_the_server_starts(study: Study) -> None:
    study.model("one", behaviour="slow=60")
    with cli(study) as run:
        wait_for(lambda: len(study.starts) == 1)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
    assert run.returncode == 130
