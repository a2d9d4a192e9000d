"""A disk that is full, a file that another program has locked: rows are held and stored later, never dropped."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, fill, model, reply, sentences

from hatevolution.domain import Item
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.rows import AnswerRecord
from hatevolution.store.writer import Ballast, GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNT = 2_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableStore]:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(COUNT)})
        yield store


def answered(number: int, body: str = "") -> AnswerRecord:
    item = Item("set", f"s{number}", "")
    text = f"answer {number} {body}"
    return AnswerRecord("m", [item], reply([item], text), 1, "http://x", "now", 0.1, None)


def count(path: Path, table: str = "predictions") -> int:
    connection = connect(path)
    (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return int(found)


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what a thread does raises no event
            await asyncio.sleep(0.02)


# -- another program's lock ------------------------------------------------------------------------------------------

LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


@pytest.fixture
def lock(store: WritableStore) -> Iterator[subprocess.Popen[str]]:
    """A SQL shell with an open transaction; closing its standard input ends it."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_rows_are_held_while_another_program_has_a_lock_and_stored_afterwards(
    store: WritableStore, lock: subprocess.Popen[str]
) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, rows=100, retry_s=0.05)
        for number in range(150):
            writer.put(answered(number))
        await until(lambda: writer.trouble is not None)
        assert writer.trouble is not None
        assert "locked" in writer.trouble
        assert writer.full  # so that the lanes stop sending
        assert not writer.disk_full
        assert writer.waiting == 150
        for number in range(150, 200):
            writer.put(answered(number))  # what is in flight still comes home
        assert count(store.path) == 0
        lock.communicate("")
        await writer.room()
        await writer.flush()
        assert not writer.full
        assert count(store.path) == 200
        await writer.close()

    asyncio.run(go())


def test_the_event_loop_runs_on_while_a_commit_waits_for_a_lock(
    store: WritableStore, lock: subprocess.Popen[str]
) -> None:
    async def go() -> float:
        writer = GroupCommitWriter(store.connection, RUN, delay_s=0, retry_s=0.05)
        writer.put(answered(0))
        longest, begun = 0.0, time.perf_counter()
        while time.perf_counter() - begun < 1.5:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before)
        lock.communicate("")
        await writer.close()
        return longest

    assert asyncio.run(go()) < 0.5
    assert count(store.path) == 1


def test_who_will_not_wait_for_the_lock_is_told_how_many_rows_are_given_up(
    store: WritableStore, lock: subprocess.Popen[str]
) -> None:
    async def go() -> int:
        writer = GroupCommitWriter(store.connection, RUN, delay_s=0, retry_s=0.05)
        for number in range(7):
            writer.put(answered(number))
        closing = asyncio.create_task(writer.close())
        await until(lambda: writer.trouble is not None)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        lost = await writer.abandon()
        await writer.close()
        return lost

    assert asyncio.run(go()) == 7
    lock.communicate("")
    assert count(store.path) == 0
    assert store.connection.execute("PRAGMA busy_timeout").fetchone() == (60_000,)


# -- a full disk -----------------------------------------------------------------------------------------------------


def fill_up(
    store: WritableStore, *, ballast: Ballast | None, give: Callable[[], object] | None
) -> tuple[int, GroupCommitWriter]:
    """Write until there is no room, then make room; return how many rows were handed over."""

    async def go() -> tuple[int, GroupCommitWriter]:
        writer = GroupCommitWriter(store.connection, RUN, rows=20, ballast=ballast, retry_s=0.05)
        handed = 0
        while not writer.disk_full:
            assert handed < COUNT, "it never became full"
            writer.put(answered(handed, "x" * 20_000))
            handed += 1
            while writer.waiting >= 60 and not writer.disk_full:  # noqa: ASYNC110 - as many as are in flight
                await asyncio.sleep(0.002)
        await asyncio.wait_for(writer.room(), 5)  # full for good: nobody is kept waiting
        if ballast is None:
            assert writer.trouble is not None
            assert "full" in writer.trouble
            assert count(store.path) < handed
            assert give is not None
            give()
        await asyncio.wait_for(writer.close(), 20)
        assert writer.trouble is None
        return handed, writer

    return asyncio.run(go())


def check_whole(path: Path, handed: int) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    rows = connection.execute("SELECT sentence, raw_text FROM predictions ORDER BY response").fetchall()
    assert rows == [(f"s{number}", f"answer {number} {'x' * 20_000}") for number in range(handed)]
    connection.close()


def test_what_was_handed_over_is_stored_once_there_is_room(store: WritableStore) -> None:
    """SQLite's own limit stands for the disk."""
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 400}")
    handed, writer = fill_up(
        store, ballast=None, give=lambda: store.connection.execute("PRAGMA max_page_count = 1000000")
    )
    assert writer.disk_full  # the run ends even so
    check_whole(store.path, handed)


class GivesPages(Ballast):
    """A reserve of pages instead of bytes."""

    def __init__(self, store: WritableStore) -> None:
        super().__init__(store.path, 0)
        self._connection = store.connection
        self.dropped = 0

    def drop(self) -> None:
        self.dropped += 1
        self._connection.execute("PRAGMA max_page_count = 1000000")


def test_the_reserve_is_given_back_when_the_disk_is_full_and_everything_gets_stored(store: WritableStore) -> None:
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 400}")
    ballast = GivesPages(store)
    handed, writer = fill_up(store, ballast=ballast, give=None)
    assert writer.disk_full
    assert writer.full  # whoever asks only now, with the trouble over, is told to stop all the same
    assert ballast.dropped >= 1
    check_whole(store.path, handed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_real_full_disk(small_disk: Path) -> None:
    path = small_disk / "s.db"
    with WritableStore(path, RUN) as store:
        fill(store, [model()], {"set": sentences(COUNT)})
        ballast = Ballast(path, 16 * 1024 * 1024)
        assert ballast.take()
        handed, writer = fill_up(store, ballast=ballast, give=None)
        assert writer.disk_full
        assert not path.with_name("s.db.reserve").exists()
    check_whole(path, handed)


def test_a_real_full_disk_without_a_reserve_waits_for_room(small_disk: Path) -> None:
    path, hog = small_disk / "s.db", small_disk / "hog"
    with WritableStore(path, RUN) as store:
        fill(store, [model()], {"set": sentences(COUNT)})
        hog.write_bytes(b"x" * 18 * 1024 * 1024)
        handed, _ = fill_up(store, ballast=None, give=hog.unlink)
    check_whole(path, handed)


def test_a_reserve_that_the_disk_has_not_got_is_not_taken(small_disk: Path) -> None:
    path = small_disk / "s.db"
    assert not Ballast(path, 64 * 1024 * 1024).take()
    assert list(small_disk.iterdir()) == []


def test_the_reserve_takes_and_gives_back_real_space(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "s.db", 1024 * 1024)
    assert ballast.take()
    held = tmp_path / "s.db.reserve"
    assert held.stat().st_blocks * 512 >= 1024 * 1024
    assert ballast.take()  # one that a killed run left behind serves again
    ballast.drop()
    ballast.drop()
    assert list(tmp_path.iterdir()) == []
