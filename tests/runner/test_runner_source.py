"""Pending sentences in pages: bounded, in order, written down before they are handed out."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from run_maker import RUN, fill, model, sentences
from virtual_loop import run_virtually

from hatevolution.runner.source import Source
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def opened(path: Path, *, intents: bool = True, **more: Any) -> AsyncIterator[tuple[Source, WritableStore]]:
    sizes = more.pop("sizes", {"a": 25, "empty": 0, "b": 7})
    with WritableStore(path, RUN) as store, ThreadPoolExecutor(1) as executor:
        fill(store, [model()], {name: sentences(size) for name, size in sizes.items()})
        writer = GroupCommitWriter(store.connection, RUN)
        options = {"limit": None, "page_size": 10, "batch_size": 4, **more}
        source = Source(
            connect(path), "m", list(sizes), executor=executor, writer=writer if intents else None,
            now=lambda: "now", **options,
        )  # fmt: skip
        try:
            yield source, store
        finally:
            await source.close()
            await writer.close()


async def everything(source: Source) -> list[tuple[str, list[str]]]:
    found = []
    while (batch := await source.next()) is not None:
        items, page = batch
        found.append((items[0].dataset, [item.sentence for item in items]))
        source.settled(page, len(items))
    return found


def test_sets_come_one_after_the_other_in_their_order_and_never_mixed(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db") as (source, _):
            found = await everything(source)
            assert await source.next() is None
        ids = {name: [sentence for dataset, part in found if dataset == name for sentence in part] for name in "ab"}
        assert ids == {"a": [f"s{n}" for n in range(25)], "b": [f"s{n}" for n in range(7)]}
        assert [len(part) for _, part in found] == [4, 4, 2, 4, 4, 2, 4, 1, 4, 3]

    run_virtually(go())


@pytest.mark.parametrize("workers", [1, 3, 40])
def test_workers_share_it_and_nobody_gets_what_another_got(tmp_path: Path, workers: int) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db") as (source, _):
            parts = await asyncio.gather(*(everything(source) for _ in range(workers)))
        ids = [(dataset, sentence) for part in parts for dataset, some in part for sentence in some]
        assert len(ids) == len(set(ids)) == 32

    run_virtually(go())


def test_what_is_handed_out_was_written_down_before_and_is_taken_away_afterwards(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db") as (source, store):
            reader = connect(store.path)
            while (batch := await source.next()) is not None:
                items, page = batch
                known = "".join(row[0] for row in reader.execute("SELECT sentences FROM intents"))
                assert all(f'"{item.sentence}"' in known for item in items)
                source.settled(page, len(items))
            reader.close()

    run_virtually(go())
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT count(*) FROM intents").fetchone() == (0,)
    connection.close()


def test_what_was_handed_out_and_not_settled_stays_written_down(tmp_path: Path) -> None:
    """Cancelled while it was being asked: it may have been billed."""

    async def go() -> None:
        async with opened(tmp_path / "s.db") as (source, _):
            await source.next()

    run_virtually(go())
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT count(*) FROM intents").fetchone() == (1,)
    connection.close()


def test_it_never_holds_more_than_two_pages(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db", sizes={"a": 500}, page_size=50, batch_size=1) as (source, _):
            most = 0
            while (batch := await source.next()) is not None:
                source.settled(batch[1], len(batch[0]))
                await asyncio.sleep(0.1)  # time for it to read ahead
                most = max(most, len(source._ready))
            assert 50 <= most <= 100

    run_virtually(go())


def test_the_limit_is_of_each_set(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db", limit=9, intents=False) as (source, store):
            found = await everything(source)
            assert sum(len(part) for dataset, part in found if dataset == "a") == 9
            assert sum(len(part) for dataset, part in found if dataset == "b") == 7
            assert store.connection.execute("SELECT count(*) FROM intents").fetchone() == (0,)

    run_virtually(go())


def test_a_fault_while_reading_reaches_everybody_who_waits(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path / "s.db", intents=False) as (source, _):
            source._connection.close()
            failures = await asyncio.gather(*(source.next() for _ in range(5)), return_exceptions=True)
            assert all(isinstance(failure, Exception) for failure in failures)

    run_virtually(go())
