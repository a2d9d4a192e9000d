"""One writer at a time, whoever holds the lock and however it ends; readers are never kept out."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, fill, model, sentences

from hatevolution.errors import StoreError
from hatevolution.store.lock import WriterLock, holder
from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_count
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import sys, pathlib
from hatevolution.store.opened import WritableStore
with WritableStore(pathlib.Path(sys.argv[1]), "held"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(3)})
    return tmp_path / "s.db"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes to the store."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_writer_is_refused_with_the_holders_pid(path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreError, match=rf"another run \(process {other.pid} on .*--store"), WritableStore(path, "b"):
        pass
    assert (holder(path) or {})["pid"] == other.pid
    assert (holder(path) or {})["run"] == "held"


def test_readers_work_while_another_process_writes(path: Path, other: subprocess.Popen[str]) -> None:
    connection = connect(path)
    assert pending_count(connection, "m", "set", None) == 3
    connection.close()


def test_the_refused_writer_leaves_the_holder_its_lock(path: Path, other: subprocess.Popen[str]) -> None:
    for _ in range(2):
        with pytest.raises(StoreError), WritableStore(path, "b"):
            pass
    assert (holder(path) or {})["pid"] == other.pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_process_that_died_is_free(path: Path, other: subprocess.Popen[str], number: int) -> None:
    other.send_signal(number)
    other.wait(timeout=10)
    assert holder(path) is None
    with WritableStore(path, "b"):
        assert (holder(path) or {})["pid"] == os.getpid()
    assert holder(path) is None


def test_the_same_store_by_another_path_is_the_same_store(path: Path, other: subprocess.Popen[str]) -> None:
    link = path.parent / "link.db"
    link.symlink_to(path)
    with pytest.raises(StoreError, match=str(other.pid)), WritableStore(link, "b"):
        pass


def test_a_lock_file_that_holds_nonsense_is_no_obstacle(path: Path) -> None:
    lock = path.with_name("s.db.lock")
    lock.write_bytes(b"\xff not json")
    with WritableStore(path, "b"):
        assert (holder(path) or {})["pid"] == os.getpid()


def test_nobody_holds_what_is_not_there(tmp_path: Path) -> None:
    assert holder(tmp_path / "none.db") is None
    assert list(tmp_path.iterdir()) == []


def test_looking_who_holds_the_lock_keeps_nobody_out(path: Path) -> None:
    """`status` may be asked in a loop while a run starts."""
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            holder(path)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in lookers:
        thread.start()
    try:
        for _ in range(300):
            lock = WriterLock(path)
            lock.acquire("x")
            lock.release()
    finally:
        stop.set()
        for thread in lookers:
            thread.join()


def test_a_folder_that_takes_no_lock_file_is_named(path: Path) -> None:
    lock = path.with_name("s.db.lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(StoreError, match="can't be written to"), WritableStore(path, "b"):
        pass


def test_a_reader_that_began_before_a_commit_sees_one_state_throughout(path: Path) -> None:
    with WritableStore(path, "b") as store:
        reader = connect(path)
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM runs").fetchone()
        with store.transaction() as connection:
            connection.execute("INSERT INTO runs SELECT 'new', 'x', NULL, NULL, who, command, configuration, versions, "
                               "git_revision, note FROM runs LIMIT 1")  # fmt: skip
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == before
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (before[0] + 1,)
        reader.close()


def test_a_transaction_that_fails_is_undone(path: Path) -> None:
    with WritableStore(path, "b") as store:
        with pytest.raises(RuntimeError), store.transaction() as connection:
            connection.execute("DELETE FROM runs WHERE 0")
            connection.execute("UPDATE runs SET note = 'changed'")
            raise RuntimeError
        assert store.connection.execute("SELECT note FROM runs").fetchall() == [(None,)]
        with pytest.raises(StoreError, match="can't be written to"), store.transaction() as connection:
            connection.execute("UPDATE runs SET note = 'changed'")
            raise sqlite3.OperationalError("made up")
        assert store.connection.execute("SELECT note FROM runs").fetchall() == [(None,)]
