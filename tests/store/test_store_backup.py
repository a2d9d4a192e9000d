"""Backups: of one moment, while a run writes; verified; never over anything."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from exchange_maker import Shard, content, rows, some_sentences

from hatevolution.errors import StoreError
from hatevolution.store.exchange import backup
from hatevolution.store.exchange.backup import backup_store
from hatevolution.store.exchange.verifying import verify_store

if TYPE_CHECKING:
    from pathlib import Path

    from hatevolution.store.exchange.watch import Tell


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    made = Shard(tmp_path / "s.db", "run-1")
    return made.ask([(f"s{n}", "\ud800 \0") for n in range(10)]).fail(["s15"])


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "partial" in path.name)


def test_a_backup_holds_everything(shard: Shard, tmp_path: Path) -> None:
    made = backup_store(shard.path, tmp_path / "b.db")
    assert content(tmp_path / "b.db") == content(shard.path)
    assert (made.answers, made.bytes) == (10, (tmp_path / "b.db").stat().st_size)
    assert all(check.ok for check in made.checks)
    assert all(check.ok for check in verify_store(tmp_path / "b.db"))
    assert left_over(tmp_path) == []
    shard.ask([("s12", "toxic")])
    assert rows(tmp_path / "b.db", "SELECT count(*) FROM predictions") == [(10,)]


def test_a_backup_is_a_store_to_go_on_with(shard: Shard, tmp_path: Path) -> None:
    backup_store(shard.path, tmp_path / "b.db")
    shard.path = tmp_path / "b.db"
    shard.ask([("s11", "toxic")])
    assert rows(tmp_path / "b.db", "SELECT count(*) FROM predictions") == [(11,)]


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_nothing_is_ever_overwritten(shard: Shard, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "b.db"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        out.mkdir()
    else:
        out.symlink_to(tmp_path / "nothing")
    with pytest.raises(StoreError, match="exists already"):
        backup_store(shard.path, out)
    assert kind != "file" or out.read_text() == "mine"
    assert left_over(tmp_path) == []


def test_a_file_that_appears_meanwhile_is_not_overwritten_either(shard: Shard, tmp_path: Path) -> None:
    out = tmp_path / "b.db"

    def tell(what: str, _done: int, _total: int | None) -> None:
        if what == "copying":
            out.write_text("mine")

    with pytest.raises(StoreError, match="exists by now"):
        backup_store(shard.path, out, tell=tell)
    assert out.read_text() == "mine"
    assert left_over(tmp_path) == []


def test_a_copy_that_lacks_something_gets_no_name(
    shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = backup._copy

    def lossy(source: sqlite3.Connection, partial: Path, tell: Tell) -> None:
        copy(source, partial, tell)
        with closing(sqlite3.connect(partial)) as connection, connection:
            connection.execute("PRAGMA foreign_keys = 0")
            connection.execute("DELETE FROM intents")
            connection.execute("DELETE FROM runs")
        with closing(sqlite3.connect(partial)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")

    monkeypatch.setattr(backup, "_copy", lossy)
    with pytest.raises(StoreError, match="thrown away"):
        backup_store(shard.path, tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
    assert left_over(tmp_path) == []


def test_folders_that_are_not_there_are_named(shard: Shard, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"folder .*nowhere does not exist"):
        backup_store(shard.path, tmp_path / "nowhere" / "b.db")
    with pytest.raises(StoreError, match="no store at"):
        backup_store(tmp_path / "missing.db", tmp_path / "b.db")


WRITE = """
import sys, pathlib, sqlite3, time
path, pause = sys.argv[1], float(sys.argv[2])
connection = sqlite3.connect(path, isolation_level=None, timeout=60)
connection.execute("PRAGMA synchronous = NORMAL")
n = connection.execute("SELECT max(response) FROM responses").fetchone()[0]
print("ready", flush=True)
while True:
    n += 1
    begun = time.perf_counter()
    connection.execute(
        "INSERT INTO responses (response, run, received_at, latency_s, base_url, body) "
        "VALUES (?, 'run-1', 'x', 0, 'u', ?)", [n, "y" * 2000])
    print(time.perf_counter() - begun, flush=True)
    time.sleep(pause)
"""


def test_a_run_that_writes_is_neither_blocked_nor_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps and a commit every few milliseconds: a copy that started over at each commit would never end."""
    made = Shard(tmp_path / "s.db", "run-1", datasets={"set": some_sentences(5)})
    made.ask([("s1", "toxic")])
    with closing(sqlite3.connect(made.path)) as connection, connection:
        connection.executemany(
            "INSERT INTO responses (run, received_at, latency_s, base_url, body) VALUES ('run-1', 'x', 0, 'u', ?)",
            [("z" * 3000,)] * 3000,
        )
    monkeypatch.setattr(backup, "_PAGES", 20)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(made.path), "0.002"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    waits: list[float] = []
    reader = threading.Thread(target=lambda: waits.extend(float(line) for line in process.stdout or ()))
    reader.start()
    steps: list[int] = []

    def tell(what: str, done: int, _total: int | None) -> None:
        if what == "copying":
            steps.append(done)
            time.sleep(0.002)

    try:
        before = len(waits)
        result = backup_store(made.path, tmp_path / "b.db", tell=tell)
        during = waits[before:]
    finally:
        process.kill()
        reader.join()
        process.wait()
        process.stdout.close()
    assert len(steps) > 50
    assert all(one < other for one, other in itertools.pairwise(steps)), "it started over"
    assert len(during) > 20, "the run stood still"
    assert max(during) < 2
    assert all(check.ok for check in result.checks)
    (copied,), (now,) = (rows(path, "SELECT count(*) FROM responses")[0] for path in (tmp_path / "b.db", made.path))
    assert 3001 <= copied < now
