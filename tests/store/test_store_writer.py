"""Group commit: what is handed over is safe after a flush, in order, many rows to a transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_maker import RUN, fill, model, reply, sentences
from virtual_loop import elapsed, run_virtually

from hatevolution.domain import Item
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.rows import AnswerRecord, FailureRecord
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 3_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableStore]:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(COUNT)})
        yield store


def answered(number: int) -> AnswerRecord:
    item = Item("set", f"s{number}", "")
    return AnswerRecord("m", [item], reply([item], f"answer {number}"), 1, "http://x", "now", 0.1, None)


def failed(number: int) -> FailureRecord:
    item = Item("set", f"s{number}", "")
    return FailureRecord("m", [item], 1, "timeout", "late", None, None, None, None, "http://x", "now", 0.1, True)


def seen(path: Path, what: str = "sentence FROM predictions ORDER BY response") -> list[Any]:
    """What another process would find."""
    connection = connect(path)
    found = [value for (value,) in connection.execute(f"SELECT {what}")]
    connection.close()
    return found


def test_rows_are_safe_after_a_flush_and_in_order(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        for number in range(COUNT):
            writer.put(answered(number))
        await writer.flush()
        assert writer.waiting == 0
        assert seen(store.path) == [f"s{number}" for number in range(COUNT)]
        await writer.close()

    asyncio.run(go())


def test_a_row_is_written_within_the_delay_without_anybody_asking(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, delay_s=0.05)
        writer.put(answered(0))
        await asyncio.sleep(0.03)
        writer.put(answered(1))
        assert seen(store.path) == []
        await asyncio.sleep(0.03)
        assert (writer.commits, seen(store.path)) == (1, ["s0", "s1"])
        await writer.close()

    run_virtually(go())


def test_many_rows_do_not_wait_for_the_delay(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, rows=100, delay_s=3600)
        for number in range(100):
            writer.put(answered(number))
        await asyncio.sleep(1)
        assert len(seen(store.path)) == 100
        await writer.close()

    run_virtually(go())


def test_rows_share_transactions(store: WritableStore) -> None:
    async def go() -> int:
        writer = GroupCommitWriter(store.connection, RUN, rows=500)
        for number in range(COUNT):
            writer.put(answered(number))
            if number % 10 == 0:
                await asyncio.sleep(0)
        await writer.close()
        return writer.commits

    assert asyncio.run(go()) <= COUNT // 500 + 5


def test_what_was_committed_is_told_after_it_is_safe(store: WritableStore) -> None:
    told: list[str] = []

    def on_commit(batch: list) -> None:
        names = [operation.items[0].sentence for operation in batch]
        assert set(names) <= set(seen(store.path))
        told.extend(names)

    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, rows=64, on_commit=on_commit)
        for number in range(300):
            writer.put(answered(number))
            await asyncio.sleep(0)
        await writer.close()

    asyncio.run(go())
    assert told == [f"s{number}" for number in range(300)]


def test_a_flush_does_not_wait_for_what_others_hand_over_meanwhile(store: WritableStore) -> None:
    """Under load there is always something waiting; a priced request would wait for ever."""

    async def go() -> tuple[int, int]:
        writer = GroupCommitWriter(store.connection, RUN, delay_s=0.001)
        stop = False

        async def chatter() -> None:
            while not stop:
                writer.settle(0)
                await asyncio.sleep(0)

        task = asyncio.create_task(chatter())
        await asyncio.sleep(0.01)
        before = writer.commits
        await writer.flush()
        commits, waiting = writer.commits - before, writer.waiting
        stop = True
        await task
        await writer.close()
        return commits, waiting

    commits, waiting = asyncio.run(go())
    assert commits <= 2
    assert waiting > 0


def test_flushing_nothing_returns_at_once(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        await writer.flush()
        await writer.committed()
        await writer.room()
        await writer.close()
        assert (writer.commits, elapsed()) == (0, 0)

    run_virtually(go())


def test_closing_twice_is_harmless(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        writer.put(answered(0))
        await writer.close()
        await writer.close()

    asyncio.run(go())
    assert seen(store.path) == ["s0"]


def test_a_full_backlog_makes_callers_wait_until_there_is_room(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, rows=10**9, delay_s=3600, backlog=100)
        for number in range(99):
            writer.put(answered(number))
        assert not writer.full
        writer.put(answered(99))
        assert writer.full
        await writer.room()
        assert not writer.full
        assert len(seen(store.path)) == 100
        await writer.close()

    run_virtually(go())


@pytest.mark.parametrize("waiters", [1, 50])
def test_everybody_who_waits_for_a_commit_is_woken(store: WritableStore, waiters: int) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)

        async def one(number: int) -> None:
            for step in range(10):
                writer.put(answered(number * 10 + step))
                await writer.committed()
                assert f"s{number * 10 + step}" in seen(store.path)

        async with asyncio.timeout(60):
            await asyncio.gather(*map(one, range(waiters)))
        assert writer.commits <= 10 * min(waiters, 3) + 10
        await writer.close()

    asyncio.run(go())


# -- intents ---------------------------------------------------------------------------------------------------------


def test_an_intent_is_taken_away_with_its_answer_in_one_transaction(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, delay_s=3600)
        intent = writer.intend("m", "set", ["s0", "s1"], "now")
        await writer.committed()
        assert seen(store.path, "sentences FROM intents") == ['["s0","s1"]']
        writer.put(answered(0))
        writer.settle(intent)
        assert seen(store.path, "sentences FROM intents") == ['["s0","s1"]']
        await writer.flush()
        assert seen(store.path, "sentences FROM intents") == []
        assert seen(store.path) == ["s0"]
        await writer.close()

    run_virtually(go())


def test_an_intent_that_is_made_and_settled_at_once_leaves_nothing(store: WritableStore) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        for number in range(300):
            intent = writer.intend("m", "set", [f"s{number}"], "now")
            writer.put(answered(number))
            writer.settle(intent)
        await writer.close()

    asyncio.run(go())
    assert seen(store.path, "count(*) FROM intents") == [0]
    assert len(seen(store.path)) == 300


def test_numbers_go_on_where_an_earlier_run_ended(store: WritableStore) -> None:
    async def go(first: int) -> int:
        writer = GroupCommitWriter(store.connection, RUN)
        writer.put(answered(first))
        writer.put(answered(first + 1))
        intent = writer.intend("m", "set", ["x"], "now")
        await writer.close()
        return intent

    assert [asyncio.run(go(number)) for number in (0, 2, 4)] == [1, 2, 3]
    numbers = seen(store.path, "response FROM responses ORDER BY response")
    assert len(set(numbers)) == 6
    assert seen(store.path) == [f"s{number}" for number in range(6)]


def test_a_batch_is_a_response_with_many_predictions(store: WritableStore) -> None:
    items = [Item("set", f"s{number}", "") for number in (5, 3, 8)]
    record = AnswerRecord("m", items, reply(items, request_id="r"), 2, "http://x", "now", 0.25, 0.01)

    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        writer.put(record)
        await writer.close()

    asyncio.run(go())
    connection = connect(store.path)
    assert connection.execute("SELECT request_id, latency_s, cost_usd FROM responses").fetchall() == [("r", 0.25, 0.01)]
    rows = connection.execute(
        "SELECT p.sentence, p.response_index, p.attempts FROM predictions AS p JOIN responses USING (response) "
        "ORDER BY response_index"
    ).fetchall()
    assert rows == [("s5", 0, 2), ("s3", 1, 2), ("s8", 2, 2)]
    connection.close()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    steps=st.lists(st.sampled_from(["answer", "failure", "intend", "settle", "flush", "yield", "wait"]), max_size=25),
    rows=st.integers(1, 20),
    blocks=st.sampled_from([1, 3, 80, 300]),
)
def test_any_sequence_of_operations_ends_in_the_rows_it_says(
    tmp_path: Path, steps: list[str], rows: int, blocks: int
) -> None:
    for old in tmp_path.glob("h.db*"):
        old.unlink()
    asked: list[str] = []
    failures = 0
    open_intents: dict[int, str] = {}

    async def go(connection: sqlite3.Connection) -> None:
        nonlocal failures
        writer = GroupCommitWriter(connection, RUN, rows=rows, delay_s=0.01)
        for step in steps:
            if step == "answer":
                for _ in range(blocks):
                    writer.put(answered(len(asked)))
                    asked.append(f"s{len(asked)}")
            elif step == "failure":
                writer.put(failed(failures % COUNT))
                failures += 1
            elif step == "intend":
                name = f"s{len(asked)}"
                open_intents[writer.intend("m", "set", [name], "now")] = name
            elif step == "settle" and open_intents:
                writer.settle(min(open_intents))
                del open_intents[min(open_intents)]
            elif step == "flush":
                await writer.flush()
            else:
                await asyncio.sleep(0 if step == "yield" else 0.02)
        await writer.close()

    with WritableStore(tmp_path / "h.db", RUN) as store:
        fill(store, [model()], {"set": sentences(max(1, steps.count("answer") * blocks))})
        run_virtually(go(store.connection))
    assert seen(tmp_path / "h.db") == asked
    assert seen(tmp_path / "h.db", "count(*) FROM failures") == [failures]
    assert seen(tmp_path / "h.db", "intent FROM intents ORDER BY intent") == sorted(open_intents)


def test_a_reader_that_never_stops_sees_whole_batches_and_hinders_nobody(store: WritableStore) -> None:
    """Rows of one commit appear together, counts only grow, and no read ever fails or waits for the writer."""
    import threading
    import time

    counts: list[int] = []
    longest = 0.0
    stop = threading.Event()

    def scan() -> None:
        nonlocal longest
        connection = connect(store.path)
        while not stop.is_set():
            begun = time.perf_counter()
            rows = connection.execute("SELECT raw_text FROM predictions").fetchall()
            longest = max(longest, time.perf_counter() - begun)
            counts.append(len(rows))
        connection.close()

    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN, rows=60, delay_s=3600)
        for number in range(COUNT):
            writer.put(answered(number))
            if number % 60 == 59:
                await writer.flush()
        await writer.close()

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        asyncio.run(go())
    finally:
        stop.set()
        thread.join()
    assert counts == sorted(counts)
    assert all(count % 60 == 0 for count in counts)
    assert len(set(counts)) > 3
    assert longest < 1
