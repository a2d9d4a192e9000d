"""The resume contract, on the real command in a process of its own: kills, signals, full disks, locked stores.

No committed row is lost or changed; there is one row per key; what is sent twice is at most what was in flight and one
commit's window per kill; what may have been billed unrecorded is listed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from run_files import Project, RemoteServer, end, hatevolution, remote, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONCURRENCY = 16
LATENCY_S = 0.01
WINDOW_S = 0.15
"""A commit's window: its delay of 50 ms, and time for the commit itself on a busy machine."""


@pytest.fixture
def vllm() -> Iterator[RemoteServer]:
    with remote("fake_vllm.py", "--latency", str(LATENCY_S)) as server:
        yield server


@pytest.fixture
def openai() -> Iterator[RemoteServer]:
    with remote("fake_openai.py", "--latency", "0.02") as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def rows(project: Project) -> int:
    try:
        return project.count("predictions") if project.store.exists() else 0
    except sqlite3.OperationalError:
        return 0  # it is just being made


def status(project: Project) -> dict[str, Any]:
    done = hatevolution("status", "--store", str(project.store), "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_whole(project: Project) -> None:
    assert project.rows("PRAGMA integrity_check") == [("ok",)]
    assert project.rows("PRAGMA foreign_key_check") == []
    twice = project.rows("SELECT model, dataset, sentence FROM predictions GROUP BY 1, 2, 3 HAVING count(*) > 1")
    assert twice == []


def kill_again_and_again(project: Project, server: RemoteServer, *, kills: int, seed: int, total: int) -> int:
    """Kill a run at random moments, start it again, until it is done; return how many of the kills hit it at work."""
    rng = random.Random(seed)
    committed: dict[Any, Any] = {}
    hits = 0
    for _ in range(kills):
        before = rows(project)
        process = project.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Some die during their start, most at work.
        if rng.random() < 0.15:
            time.sleep(rng.uniform(0.0, 0.5))
        else:
            wait_until(lambda known=before, run=process: rows(project) > known or run.poll() is not None)  # type: ignore[misc]
            time.sleep(rng.uniform(0.0, 0.15))
        if process.poll() is None:
            hits += rows(project) > before
        process.kill()
        process.wait()
        if not committed and not rows(project):
            continue  # it may have died before there was a store, or a table in it
        after = project.snapshot()
        assert {key: after[key] for key in committed} == committed
        check_whole(project)
        committed = after
        if len(committed) == total:
            break
    done = project.process()
    assert done.returncode == 0, done.stderr
    after = project.snapshot()
    assert {key: after[key] for key in committed} == committed
    assert len(after) == total
    check_whole(project)
    return hits


def check_requests(server: RemoteServer, *, kills: int, total: int, batch: int = 1) -> None:
    """Nothing is sent again but what was in flight, or answered and not yet committed, at a kill."""
    sent = server.log()["sent"]
    assert len(sent) == total
    twice = sum(sent.values()) - total
    in_flight = CONCURRENCY * batch
    print(f"{twice} sentences sent twice over {kills} kills with {in_flight} in flight")
    assert twice <= kills * (in_flight + WINDOW_S * in_flight / LATENCY_S)


@pytest.mark.parametrize(("kills", "count", "batch"), [(6, 1_200, 1), (2, 3_000, 8)])
def test_killed_at_random_points_nothing_is_lost_changed_or_doubled(
    project: Project, vllm: RemoteServer, kills: int, count: int, batch: int
) -> None:
    project.dataset(count=count)
    project.vllm(vllm.base_url, max_concurrency=CONCURRENCY, batch_size=batch)
    hits = kill_again_and_again(project, vllm, kills=kills, seed=kills, total=count)
    assert hits > 0
    check_requests(vllm, kills=kills, total=count, batch=batch)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("batch", "seed"), [(1, 1), (1, 2), (1, 3), (8, 4), (32, 5)])
def test_killed_a_hundred_times_nothing_is_lost_changed_or_doubled(
    project: Project, vllm: RemoteServer, batch: int, seed: int
) -> None:
    """Twenty-five kills each, five ways."""
    count = 6_000 * min(batch, 8)
    project.dataset(count=count)
    project.vllm(vllm.base_url, max_concurrency=CONCURRENCY, batch_size=batch)
    hits = kill_again_and_again(project, vllm, kills=25, seed=seed, total=count)
    assert hits >= 5
    check_requests(vllm, kills=25, total=count, batch=batch)


def number_of(prompt: str) -> str:
    """Return the key of the sentence that a prompt holds."""
    return f"s{prompt.split('number ')[1].split('.')[0]}"


def possibly_billed(project: Project, server: RemoteServer) -> tuple[set[str], set[str]]:
    """Return the sentences that the server got without a row for them, and those that `status` lists."""
    sent = {number_of(text) for text in server.log()["sent"]}
    stored = {sentence for (sentence,) in project.rows("SELECT sentence FROM predictions")}
    listed = {item["sentence"] for item in status(project)["possibly_unrecorded"]}
    return sent - stored, listed


def test_what_may_have_been_billed_without_being_recorded_is_listed(project: Project, vllm: RemoteServer) -> None:
    project.dataset(count=1_000)
    endpoint = {"base_urls": [vllm.base_url], "max_concurrency": CONCURRENCY}
    project.model("m", price={"usd_per_request": 0.01}, endpoint=endpoint)
    process = project.start()
    wait_until(lambda: rows(project) > 60)
    end(process, signal.SIGKILL)
    unrecorded, listed = possibly_billed(project, vllm)
    assert unrecorded
    assert unrecorded <= listed  # every one that the server got
    assert len(listed) <= len(unrecorded) + 2 * CONCURRENCY  # and few that it did not, or whose answer is lost
    text = hatevolution("status", "--store", str(project.store)).stdout
    assert "may have been sent (and billed)" in text
    assert "The last run died" in text
    # They stay listed: answering them again does not undo the first bill.
    assert project.process("--limit", "100").returncode == 0
    assert {item["sentence"] for item in status(project)["possibly_unrecorded"]} == listed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_possibly_billed_requests_are_listed_at_every_kill(project: Project, openai: RemoteServer) -> None:
    project.dataset(count=20_000)
    project.openai(openai.base_url, max_concurrency=CONCURRENCY)
    rng = random.Random(7)
    listed: set[str] = set()
    for _ in range(12):
        before = rows(project)
        process = project.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda known=before: rows(project) > known)  # type: ignore[misc]
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.wait()
        unrecorded, listed = possibly_billed(project, openai)
        assert unrecorded <= listed
    # A sentence that two kills hit was sent three times, and is listed for either run.
    sent = openai.log()["sent"]
    assert sum(sent.values()) - len(sent) <= len(status(project)["possibly_unrecorded"])
    assert {number_of(text) for text, times in sent.items() if times > 1} <= listed


# -- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_drains_commits_and_says_how_to_go_on(project: Project, number: int) -> None:
    with remote("fake_vllm.py", "--latency", "0.5") as server:
        project.dataset(count=5_000)
        project.vllm(server.base_url, max_concurrency=CONCURRENCY)
        process = project.start()
        wait_until(lambda: rows(project) >= CONCURRENCY)
        before = server.log()["requests"]
        begun = time.monotonic()
        out, err = end(process, number)
        assert process.returncode == 130
        assert time.monotonic() - begun < 5
        assert out == ""
        assert "waiting for" in err
        name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}[signal.Signals(number)]
        assert f"a second {name} stops at once" in err
        assert "Start the same command again" in err
        assert server.log()["requests"] <= before + 2 * CONCURRENCY
        # What was in flight came home: every sentence that was sent has its row.
        assert rows(project) == sum(server.log()["sent"].values())
        assert project.rows("SELECT outcome FROM runs") == [("interrupted",)]
        assert project.count("intents") == 0
        check_whole(project)


def test_a_run_under_nohup_outlives_its_terminal(project: Project) -> None:
    project.dataset(count=40)
    project.model("m", adapter="scripted", options={"latency_s": 0.2}, endpoint={"max_concurrency": 4})
    process = project.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until(lambda: rows(project) > 0)
    _, err = end(process, signal.SIGHUP)
    assert process.returncode == 0, err
    assert rows(project) == 40


def test_the_second_signal_stops_at_once(project: Project) -> None:
    with remote("fake_vllm.py", "--latency", "20") as server:
        project.dataset(count=500)
        project.vllm(server.base_url, max_concurrency=CONCURRENCY)
        process = project.start()
        wait_until(lambda: server.log()["requests"] == CONCURRENCY)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        begun = time.monotonic()
        _, err = end(process, signal.SIGINT)
        assert process.returncode == 130
        assert time.monotonic() - begun < 4
        assert "stopping at once" in err
        assert project.rows("SELECT outcome FROM runs") == [("interrupted",)]
        check_whole(project)


def test_three_signals_in_a_row_lose_nothing_that_had_come(project: Project, vllm: RemoteServer) -> None:
    """People press Ctrl-C more often than twice."""
    project.dataset(count=20_000)
    project.vllm(vllm.base_url, max_concurrency=CONCURRENCY)
    process = project.start()
    wait_until(lambda: rows(project) > 200)
    for _ in range(4):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    _, err = end(process, signal.SIGINT)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert rows(project) >= sum(vllm.log()["sent"].values()) - CONCURRENCY
    assert project.rows("SELECT outcome FROM runs") == [("interrupted",)]
    check_whole(project)


def test_a_signal_before_the_first_request_is_an_interruption(project: Project) -> None:
    """While the servers are probed."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        project.dataset(count=10)
        project.vllm(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        process = project.start()
        wait_until(lambda: project.store.exists() and _has_run(project))
        time.sleep(0.3)
        _, err = end(process, signal.SIGINT)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        assert project.rows("SELECT outcome FROM runs") == [("interrupted",)]


def _has_run(project: Project) -> bool:
    try:
        return project.count("runs") == 1
    except sqlite3.OperationalError:
        return False


# -- stores in trouble -------------------------------------------------------------------------------------------------


def test_a_second_run_is_refused_with_the_holders_pid_and_status_is_not(project: Project, vllm: RemoteServer) -> None:
    project.dataset(count=5_000)
    project.vllm(vllm.base_url, max_concurrency=2)
    process = project.start()
    wait_until(lambda: rows(project) > 0)
    second = project.process()
    assert second.returncode == 2
    assert f"process {process.pid}" in second.stderr
    assert second.stderr.count("\n") == 1
    found = status(project)
    assert found["writer"]["pid"] == process.pid
    assert found["possibly_unrecorded"] == []  # in flight, not lost
    dry = project.process("--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["lanes"][0]["pending"] < 5_000
    end(process, signal.SIGTERM)
    assert process.returncode == 130


LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


def test_another_programs_lock_is_told_and_outlived(project: Project, vllm: RemoteServer) -> None:
    import sys

    project.dataset(count=1_000)
    project.vllm(vllm.base_url, max_concurrency=CONCURRENCY)
    process = project.start()
    wait_until(lambda: rows(project) > 50)
    shell = subprocess.run(
        [sys.executable, "-c", LOCK, str(project.store), "3"], capture_output=True, text=True, check=True, timeout=60
    )
    assert shell.stdout == "locked\n"
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "can't be written to" in err
    assert "locked" in err
    assert rows(project) == 1_000
    assert set(vllm.log()["sent"].values()) == {1}
    check_whole(project)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 80 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_out_of_disk_the_run_ends_with_everything_stored_and_goes_on_when_there_is_room(
    project: Project, small_disk: Path, vllm: RemoteServer
) -> None:
    project.dataset(count=6_000)
    project.vllm(vllm.base_url, max_concurrency=CONCURRENCY)
    store = small_disk / "s.db"
    hog = small_disk / "hog"
    arguments = ("run", str(project.experiment), "--store", str(store))
    assert hatevolution(*arguments, "--limit", "10").returncode == 0
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    hog.write_bytes(b"x" * (free - 16 * 1024 * 1024 - 300 * 1024))  # the reserve of 16 MiB, and a little more
    done = hatevolution(*arguments)
    assert done.returncode == 1, done.stderr
    assert "disk" in done.stderr
    assert "Traceback" not in done.stderr
    project_rows = sqlite3.connect(store)
    (stored,) = project_rows.execute("SELECT count(*) FROM predictions").fetchone()
    assert project_rows.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    project_rows.close()
    sent = vllm.log()["sent"]
    assert 10 < stored < 6_000
    assert stored == len(sent) == sum(sent.values())  # nothing that came was lost
    hog.unlink()
    done = hatevolution(*arguments, "--limit", str(stored + 50))
    assert done.returncode == 0, done.stderr
    assert set(vllm.log()["sent"].values()) == {1}


def test_too_little_room_to_begin_is_one_sentence(project: Project, small_disk: Path, vllm: RemoteServer) -> None:
    project.dataset(count=10)
    project.vllm(vllm.base_url)
    (small_disk / "hog").write_bytes(b"x" * 70 * 1024 * 1024)
    done = hatevolution("run", str(project.experiment), "--store", str(small_disk / "s.db"))
    assert done.returncode == 2
    assert "too little to keep" in done.stderr
    assert "Traceback" not in done.stderr
    assert vllm.log()["requests"] == 0
