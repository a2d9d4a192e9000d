"""Runs over a Ray cluster of two nodes on this machine: real processes, which are killed.

The command runs in a process of its own, as a person starts it; only the cluster is the tests'.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_serving import STARTS, fake_python
from run_files import KEY, Project, RemoteServer, hatevolution, remote, toml, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LATENCY_S = 0.05
UNSENT_S = 0.4
"""How long answers may be on their way to the disk: batches of 20 ms and commits of 50 ms, on a very busy machine."""

STORE_BYTES = 80 * 1024 * 1024


class TwoNodes:
    """A head with one processor, and a node with one that can be killed and replaced."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.starts = folder / "starts.jsonl"
        os.environ[STARTS] = str(self.starts)  # the nodes hand their environment on
        os.environ["HATEVOLUTION_VLLM_PYTHON"] = str(fake_python(folder))
        os.environ.pop("OPENAI_API_KEY", None)
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE_BYTES},
        )
        self.second: Any = None

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def whole(self, **more: Any) -> None:
        """See to it that both nodes are there."""
        if self.second is None:
            self.second = self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **more)

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None

    @property
    def session(self) -> Path:
        head: Any = self.cluster.head_node
        return Path(head.get_session_dir_path())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch:
        for name in (STARTS, "HATEVOLUTION_VLLM_PYTHON", "OPENAI_API_KEY"):
            patch.setenv(name, "")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")  # else it depends on whether this user's home holds a token
        two = TwoNodes(tmp_path_factory.mktemp("ray"))
        yield two
        two.cluster.shutdown()


@pytest.fixture
def cluster(nodes: TwoNodes) -> TwoNodes:
    nodes.whole()
    return nodes


@pytest.fixture
def vllm() -> Iterator[RemoteServer]:
    with remote("fake_vllm.py", "--latency", str(LATENCY_S)) as server:
        yield server


@pytest.fixture
def openai() -> Iterator[RemoteServer]:
    with remote("fake_openai.py", "--latency", "0.05") as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def over(cluster: TwoNodes, project: Project, *more: str) -> subprocess.CompletedProcess[str]:
    return project.process("--ray", cluster.address, *more)


def rows(project: Project) -> int:
    try:
        return project.count("predictions") if project.store.exists() else 0
    except sqlite3.OperationalError:
        return 0


def check_whole(project: Project, count: int) -> None:
    assert project.rows("PRAGMA integrity_check") == [("ok",)]
    assert project.rows("PRAGMA foreign_key_check") == []
    twice = project.rows("SELECT model, dataset, sentence FROM predictions GROUP BY 1, 2, 3 HAVING count(*) > 1")
    assert twice == []
    assert rows(project) == count


def workers(text: str) -> list[int]:
    """The process ids of the workers that a run said were ready."""
    return [int(pid) for pid in re.findall(r"a worker of the cluster is ready: .*\(pid (\d+)\)", text)]


def test_all_sentences_are_answered_once_and_ray_says_nothing(
    cluster: TwoNodes, project: Project, vllm: RemoteServer
) -> None:
    project.dataset(count=600)
    project.vllm(vllm.base_url, max_concurrency=8)
    done = over(cluster, project, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pending"] == 0
    assert len(workers(done.stderr)) == 2
    assert "ray" not in done.stderr.replace(str(project.folder), "").lower()
    said = re.compile(r"\d\d:\d\d:\d\d  |Tables: |Answers that broke|Report: |600 answers came")
    assert [line for line in done.stderr.splitlines() if not said.match(line)] == []
    log = vllm.log()
    assert set(log["sent"].values()) == {1}
    assert log["peak"] == 16
    assert project.count("intents") == 0
    check_whole(project, 600)
    again = over(cluster, project)
    assert "Nothing was left to do" in again.stderr


def test_a_worker_and_a_node_killed_in_the_middle_lose_nothing(
    cluster: TwoNodes, project: Project, vllm: RemoteServer
) -> None:
    count = 2_400
    project.dataset(count=count)
    project.vllm(vllm.base_url, max_concurrency=8)
    log = project.folder / "log"
    with log.open("w") as file:
        process = project.start("--ray", cluster.address, stdout=subprocess.DEVNULL, stderr=file)
        wait_until(lambda: rows(project) > 100)
        os.kill(workers(log.read_text())[0], signal.SIGKILL)
        wait_until(lambda: len(workers(log.read_text())) == 3 or process.poll() is not None)  # Ray brought it back
        before = rows(project)
        wait_until(lambda: rows(project) > before + 100 or process.poll() is not None)
        cluster.kill_second()
        process.wait(timeout=120)
    said = log.read_text()
    assert process.returncode == 0, said
    assert said.count("was lost") == 2
    check_whole(project, count)
    assert project.count("intents") == 0
    sent = vllm.log()["sent"]
    assert len(sent) == count
    # What was in flight at each of the two that died, and what it had not yet sent on.
    assert sum(sent.values()) - count <= 2 * (8 + UNSENT_S * 8 / LATENCY_S)


def test_the_server_never_sees_more_than_the_configured_rate(
    cluster: TwoNodes, project: Project, vllm: RemoteServer
) -> None:
    per_second = 20
    project.dataset(count=100)
    project.vllm(vllm.base_url, max_concurrency=16, requests_per_minute=60 * per_second)
    done = over(cluster, project)
    assert done.returncode == 0, done.stderr
    check_whole(project, 100)
    times = vllm.log()["arrivals"]
    assert len(times) == 100
    for first in range(100):
        for last in range(first, 100):
            # One second's worth may go out at once, as on one machine; a busy machine may delay some by a moment.
            assert last - first + 1 <= per_second * (times[last] - times[first] + 0.3) + per_second


def test_money_and_keys(cluster: TwoNodes, project: Project, openai: RemoteServer) -> None:
    """The nodes have no key: it comes from the driver, and is seen nowhere, Ray's own files included."""
    project.dataset(count=400)
    project.openai(openai.base_url, price={"usd_per_request": 0.01})
    done = over(cluster, project, "--budget-usd", "1.5", "--json")
    assert done.returncode == 1, done.stderr
    spent = json.loads(done.stdout)["spent_usd"]
    assert spent == pytest.approx(1.5)
    assert openai.log()["requests"] == 150
    assert "budget of 1.5 USD" in done.stderr
    assert KEY not in done.stdout + done.stderr
    files = [path for path in cluster.session.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_driver_that_is_killed_is_started_again(cluster: TwoNodes, project: Project, vllm: RemoteServer) -> None:
    count, kills = 1_000, 1
    project.dataset(count=count)
    endpoint = {"base_urls": [vllm.base_url], "max_concurrency": 8}
    project.model("m", price={"usd_per_request": 0.0001}, endpoint=endpoint)
    committed: dict[Any, Any] = {}
    for number in range(kills):
        before, log = rows(project), project.folder / f"log{number}"
        with log.open("w") as file:
            process = project.start("--ray", cluster.address, stdout=subprocess.DEVNULL, stderr=file)
            wait_until(lambda known=before, run=process: rows(project) > known + 50 or run.poll() is not None)  # type: ignore[misc]
            assert process.poll() is None, log.read_text()
            process.kill()
            process.wait()
        # Its workers end with it, so that nobody asks on.
        pids = workers(log.read_text())
        wait_until(lambda mine=pids: not any(psutil.pid_exists(pid) for pid in mine))  # type: ignore[misc]
        after = project.snapshot()
        assert {key: after[key] for key in committed} == committed
        committed = after
    sent = {f"s{text.split('number ')[1].split('.')[0]}" for text in vllm.log()["sent"]}
    status = json.loads(hatevolution("status", "--store", str(project.store), "--json").stdout)
    listed = {item["sentence"] for item in status["possibly_unrecorded"]}
    assert sent - {sentence for (sentence,) in project.rows("SELECT sentence FROM predictions")} <= listed
    done = over(cluster, project)
    assert done.returncode == 0, done.stderr
    check_whole(project, count)
    after = project.snapshot()
    assert {key: after[key] for key in committed} == committed
    requests = vllm.log()["sent"]
    # Per kill: what was in flight at both, and the answers that were on their way to the disk.
    assert sum(requests.values()) - count <= kills * (16 + UNSENT_S * 16 / LATENCY_S)


def test_hostile_texts_come_through_as_on_one_machine(cluster: TwoNodes, tmp_path: Path) -> None:
    texts = [
        "NUL \0 in it",
        "lone \ud800 surrogate",
        "\x1b[31mred\x1b[0m",
        "[bold]x[/]",
        "'); DROP TABLE x; --",
        "y" * 300_000,
    ]
    stored = []
    for name in ("ray", "here"):
        folder = tmp_path / name
        folder.mkdir()
        project = Project(folder)
        lines = [json.dumps({"id": f"s{n:02}", "text": text, "label": str(n % 2)}) for n, text in enumerate(texts * 4)]
        (folder / "mine.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        described = {"name": "mine", "format": "jsonl", "path": "mine.jsonl"}
        tables = {
            "columns": {"id": "id", "text": "text", "label": "label"},
            "labels": {"toxic": ["1"], "respectful": ["0"]},
        }
        (folder / "mine.set.toml").write_text(toml({**described, **tables}))
        project.datasets.append("mine")
        project.model("m", adapter="scripted", prompt="paper-open", options={"answers": [texts[2] + "\n", "toxic"]})
        done = over(cluster, project) if name == "ray" else project.process()
        assert done.returncode == 0, done.stderr
        stored.append(
            project.rows(
                "SELECT p.sentence, p.raw_text, p.prompt_sha256, p.status, r.body FROM predictions AS p "
                "JOIN responses AS r ON r.response = p.response ORDER BY 1"
            )
        )
    assert len(stored[0]) == 24
    assert stored[0] == stored[1]


def test_models_with_servers_get_gpus_from_ray_and_give_them_back(nodes: TwoNodes, project: Project) -> None:
    """Three models of one GPU each, two GPUs (said to be there) on one node, one address in all three files."""
    if nodes.second is not None:
        nodes.kill_second()
    nodes.whole(num_gpus=2)
    project.dataset(count=30)
    for number in range(3):
        project.model(
            f"m{number}",
            endpoint={"base_urls": ["http://127.0.0.1:8123/v1"], "max_concurrency": 4},
            server={"gpus": [1], "stop_timeout_s": 2.0, "env": {"FAKE_SERVING": "latency=0.05"}},
        )
    project.model("big", endpoint={"base_urls": ["http://127.0.0.1:8124/v1"]}, server={"gpus": [0, 1, 2]})
    nodes.starts.unlink(missing_ok=True)
    done = over(nodes, project)
    assert done.returncode == 1, done.stderr
    assert "needs 3 GPUs on one node" in done.stderr
    check_whole(project, 90)
    started = [json.loads(line) for line in nodes.starts.read_text().splitlines()]
    assert len(started) == 3
    assert {start["gpus"] for start in started} <= {"0", "1"}
    wait_until(lambda: not any(psutil.pid_exists(start["pid"]) for start in started))
    nodes.kill_second()


def test_a_cluster_of_its_own_drains_when_the_terminal_closes_and_leaves_nothing_behind(project: Project) -> None:
    """SIGHUP reaches each process of the group, Ray's included; SIGINT does too, which Ray itself keeps from them."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    before = {process.pid for process in psutil.process_iter()}
    with remote("fake_vllm.py", "--latency", "0.5") as server:
        project.dataset(count=5_000)
        project.vllm(server.base_url, max_concurrency=8)
        process = project.start("--ray", "local", "--ray-workers", "2", environ={"TMPDIR": str(folder)})
        wait_until(lambda: rows(project) >= 16 or process.poll() is not None, 90)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGHUP)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "lost" not in err
        assert rows(project) == sum(server.log()["sent"].values())
        assert project.count("intents") == 0
    assert list(folder.iterdir()) == []

    def left() -> list[str]:
        mine = []
        for one in psutil.process_iter(["pid", "cmdline"]):
            command = " ".join(one.info["cmdline"] or [])
            if one.info["pid"] not in before and str(folder) in command:
                mine.append(command)
        return mine

    wait_until(lambda: left() == [])
    folder.rmdir()


def test_no_cluster_there_is_one_sentence(project: Project) -> None:
    project.dataset(count=4)
    project.model("m", adapter="scripted")
    begun = time.monotonic()
    done = project.process("--ray", "127.0.0.1:1")
    assert done.returncode == 2
    assert "There is no Ray cluster to join at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun < 60
