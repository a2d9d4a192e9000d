"""What is counted once and kept is what a count of everything gives, wherever the kept part ends."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from exchange_maker import Shard, some_sentences
from run_maker import RUN, fill, model, reply, sentences

from hatevolution.domain import Item, Status
from hatevolution.store import status, tally, writer
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import verify_store
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.rows import AnswerRecord
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from pathlib import Path

SETS = {"set": some_sentences(60), "other": some_sentences(17)}


def made(path: Path, run: str, seed: int) -> Path:
    """A run's store: lists of sentences to a response, refusals, failures, second tries, answers without a response."""
    shard, drawn = Shard(path, run, models=("m", "a"), datasets=SETS), random.Random(seed)
    for _ in range(12):
        name, dataset = drawn.choice(["m", "a"]), drawn.choice(["set", "set", "other"])
        ids = [sentence.id for sentence in SETS[dataset]]
        state = drawn.choice([Status.ANSWERED, Status.ANSWERED, Status.REFUSED, Status.REJECTED])
        text = None if state is not Status.ANSWERED else drawn.choice(["toxic", "respectful"])
        # Some were asked before: the first answer stays, and the response of this one may lose its first place.
        keys = drawn.sample(ids, drawn.randint(1, 9))
        shard.ask([(key, text) for key in keys], dataset=dataset, name=name, batch=drawn.randint(1, 5), status=state)
        shard.fail(drawn.sample(ids, 3), dataset=dataset, name=name)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
            "SELECT 'm', dataset, sentence, 'answered', 'toxic', 1, ? FROM sentences AS s WHERE position % 5 = 0 AND "
            "NOT EXISTS (SELECT 1 FROM predictions AS p WHERE (p.model, p.dataset, p.sentence) = "
            "('m', s.dataset, s.sentence))",
            [run],
        )
    shard.end()
    return path


def by_hand(connection: sqlite3.Connection) -> tuple[dict[Any, list[int]], dict[str, list[float]]]:
    """Cells (answered, refused, rejected, failed attempts) and spending, from plain rows."""
    cells: dict[Any, list[int]] = {}
    for name, dataset, state in connection.execute("SELECT model, dataset, status FROM predictions"):
        cells.setdefault((name, dataset), [0, 0, 0, 0])[["answered", "refused", "rejected"].index(state)] += 1
    for name, dataset in connection.execute("SELECT model, dataset FROM failures"):
        cells.setdefault((name, dataset), [0, 0, 0, 0])[3] += 1
    responses = {
        number: numbers
        for number, *numbers in connection.execute(
            "SELECT response, prompt_tokens, completion_tokens, cost_usd FROM responses"
        )
    }
    spend: dict[str, list[float]] = {}
    firsts = connection.execute(
        "SELECT DISTINCT model, response FROM predictions WHERE response_index = 0 AND response IS NOT NULL"
    )
    for name, response in firsts:
        total = spend.setdefault(name, [0, 0, 0, 0.0])
        for at, number in enumerate([1, *responses[response]]):
            total[at] += number or 0
    return cells, spend


def told(connection: sqlite3.Connection) -> tuple[dict[Any, list[int]], dict[str, list[float]]]:
    """The same from the store's own functions."""
    cells = {
        (cell.model, cell.dataset): [cell.answered, cell.refused, cell.rejected, cell.failed_attempts]
        for cell in status.cells(connection)
        if cell.total - cell.pending or cell.failed_attempts
    }
    assert all(
        cell.total == len(SETS[cell.dataset]) == cell.pending + cell.answered + cell.refused + cell.rejected
        for cell in status.cells(connection)
    )
    return cells, {item.model: list(item[1:]) for item in status.spend(connection)}


def check(connection: sqlite3.Connection) -> None:
    (cells, spend), (right_cells, right_spend) = told(connection), by_hand(connection)
    assert cells == right_cells
    assert spend.keys() == right_spend.keys()
    for name, numbers in right_spend.items():
        assert spend[name] == pytest.approx(numbers, rel=1e-12)
        assert spend[name][:3] == numbers[:3]


def counted(path: Path) -> tuple[int, int]:
    """How many answers are counted, and how many there are."""
    with closing(sqlite3.connect(path)) as connection:
        return (
            tally.stored(connection)[0],
            connection.execute("SELECT count(*) FROM predictions").fetchone()[0],
        )


@pytest.mark.parametrize("chunk", [1, 7, 50_000])
def test_wherever_the_kept_part_ends_the_sums_are_those_of_all_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(tally, "CHUNK", chunk)
    path = made(tmp_path / "s.db", "r1", seed=chunk)
    with closing(connect(path)) as reader, closing(sqlite3.connect(path)) as connection:
        right = by_hand(reader)
        assert right[0].keys() == {("m", "set"), ("m", "other"), ("a", "set"), ("a", "other")}
        assert all(sum(cell[place] for cell in right[0].values()) for place in range(4))  # each kind is there
        check(reader)
        left, steps = True, 0
        while left:
            with connection:
                left, steps = tally.advance(connection, 11), steps + 1
            check(reader)
        assert steps > 5
    done, there = counted(path)
    assert done == there
    assert [found.problems for found in verify_store(path) if found.name == "tallies"] == [0]


def test_a_merge_of_several_runs_is_counted_and_stays_so(tmp_path: Path) -> None:
    sources = [made(tmp_path / f"{number}.db", f"r{number}", seed=number) for number in range(3)]
    merge_stores(sources, tmp_path / "all.db")
    assert counted(tmp_path / "all.db")[0] == counted(tmp_path / "all.db")[1] > 0
    with closing(connect(tmp_path / "all.db")) as reader:
        assert reader.execute("SELECT count(*) FROM second_answers").fetchone()[0] > 0
        check(reader)
    merge_stores(sources, tmp_path / "all.db")
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection:
        connection.execute("VACUUM")
        check(connection)
    assert all(found.ok for found in verify_store(tmp_path / "all.db"))


def test_a_store_from_before_the_tallies_is_counted_as_a_whole(tmp_path: Path) -> None:
    path = made(tmp_path / "s.db", "r1", seed=4)
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("tallies", "tallied"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm005_tallies'")
    with closing(connect(path)) as reader:
        check(reader)
    assert all(found.ok for found in verify_store(path))
    with WritableStore(path, RUN) as store:
        store.end_run("r1", "2026-01-02T00:00:00.000Z", "complete")
        check(store.connection)
    assert counted(path)[0] == counted(path)[1]


def test_verification_finds_sums_that_are_not_those_of_the_answers(tmp_path: Path) -> None:
    path = made(tmp_path / "s.db", "r1", seed=5)
    with WritableStore(path, RUN) as store:
        store.count_answers()
        store.connection.execute("UPDATE tallies SET refused = refused + 1 WHERE (model, dataset) = ('m', 'set')")
        store.connection.execute("UPDATE tallies SET cost_usd = cost_usd + 0.01 WHERE (model, dataset) = ('a', 'set')")
    (found,) = (found for found in verify_store(path) if found.name == "tallies")
    assert [text.split(":")[0] for text in found.shown] == ["a, set", "m, set"]
    with WritableStore(path, RUN) as store:
        store.connection.execute("UPDATE tallied SET through = through + 1")
    (found,) = (found for found in verify_store(path) if found.name == "tallies")
    assert "are said to be counted" in found.shown[0]


def stored_by_a_writer(store: WritableStore, number: int) -> None:
    async def main() -> None:
        group = GroupCommitWriter(store.connection, RUN, rows=4)
        for at in range(number):
            items = [Item("set", f"s{at}", "text")]
            group.put(AnswerRecord("m", items, reply(items), 1, "u", "then", 0.1, 0.5))
            await group.committed()
        await group.close()

    asyncio.run(main())


def test_a_run_counts_while_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_COUNT_EVERY", 5)
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(40)})
        stored_by_a_writer(store, 23)
        through, found = tally.stored(store.connection)
        assert through == 20
        assert found["m", "set"].cost_usd == 10.0
        assert status.spend(store.connection)[0].cost_usd == 11.5
        store.end_run(RUN, "then", "incomplete")
        assert tally.stored(store.connection)[0] == 23


def test_answers_are_stored_even_if_counting_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_COUNT_EVERY", 5)
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(40)})
        store.connection.execute(
            "CREATE TRIGGER no_room BEFORE UPDATE ON tallied BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
        stored_by_a_writer(store, 23)
        store.end_run(RUN, "then", "incomplete")
        assert store.connection.execute("SELECT count(*) FROM predictions").fetchone() == (23,)
        assert tally.stored(store.connection) == (0, {})
        assert status.spend(store.connection)[0].cost_usd == 11.5
