"""Batches in a store: what keeps a sentence from being in two, and what other commands say of open ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from exchange_maker import Shard, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from hatevolution.store.batches import (
    BatchRow,
    add_batch,
    batch_datasets,
    batch_lines,
    batch_named,
    batches,
    close_batch,
    in_open_batches,
    mark_lines,
    note_batch,
    settle_line,
)
from hatevolution.store.exchange.backup import backup_store
from hatevolution.store.exchange.exporting import export_store
from hatevolution.store.exchange.importing import import_folder
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import verify_store
from hatevolution.store.migrations import MIGRATIONS, applied
from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_page
from hatevolution.store.reader import connect
from hatevolution.store.status import OpenBatches, open_batches

if TYPE_CHECKING:
    from pathlib import Path


def row(name: str = "hb000000000001", **more: object) -> BatchRow:
    made = BatchRow(
        batch=0,
        name=name,
        model="m",
        run="run-a",
        place="provider",
        base_url="https://x/v1",
        endpoint="/v1/chat/completions",
        requests=3,
        input_bytes=10,
        input_sha256="0" * 64,
        made_at="2026-01-01T00:00:00Z",
    )
    return made._replace(**more)  # type: ignore[arg-type]


def keys(*numbers: int) -> list[tuple[str, str]]:
    return [("set", f"s{number}") for number in numbers]


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    return Shard(tmp_path / "a.db", "run-a").ask([(f"s{n}", "toxic") for n in range(3)])


def test_a_batch_is_read_as_it_was_written(shard: Shard) -> None:
    with WritableStore(shard.path, "test") as store:
        with store.transaction() as connection:
            made = add_batch(connection, row(), keys(5, 4, 6))
            made = note_batch(connection, made, upload_tried_at="2026-01-01T00:00:01Z", file_id="file-1")
        assert batches(connection) == [made] == [batch_named(connection, made.name)]
        assert batch_datasets(connection, made.batch) == {"set": 3}
        assert [(line.line, line.sentence, line.outcome) for line in batch_lines(connection, made.batch)] == [
            (0, "s5", None),
            (1, "s4", None),
            (2, "s6", None),
        ]
        with store.transaction() as connection:
            settle_line(connection, made, 1, "answered", "batch_req_1")
            assert mark_lines(connection, made, "missing") == 2
            made = close_batch(connection, made, "expired", "2026-01-02T00:00:00Z", "odd \ud800")
        assert batches(connection, open_only=True) == []
        assert batches(connection) == [made]
        assert [line.outcome for line in batch_lines(connection, made.batch)] == ["missing", "answered", "missing"]
        with pytest.raises(ValueError, match="not a column that changes: name"):
            note_batch(connection, made, name="x")


def test_a_sentence_is_in_one_open_batch_at_most(shard: Shard) -> None:
    with WritableStore(shard.path, "test") as store:
        with store.transaction() as connection:
            first = add_batch(connection, row(), keys(5, 6))
        with pytest.raises(sqlite3.IntegrityError), closing(sqlite3.connect(shard.path)) as other:
            add_batch(other, row("hb000000000002"), keys(7, 6))
        with store.transaction() as connection:
            mark_lines(connection, first, "missing")
        with store.transaction() as connection:
            add_batch(connection, row("hb000000000002"), keys(7, 6))


@settings(max_examples=25)
@given(st.sets(st.integers(3, 19)), st.integers(1, 20), st.integers(1, 7))
def test_pages_leave_out_what_is_in_open_batches(
    tmp_path_factory: pytest.TempPathFactory, inside: set[int], limit: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a.db"
    shard = Shard(path, "run-a").ask([(f"s{n}", "toxic") for n in range(3)])
    with WritableStore(shard.path, "test") as store, store.transaction() as connection:
        add_batch(connection, row(), keys(*sorted(inside)))
    with closing(connect(path)) as reader:
        found, after = [], -1
        while page := pending_page(reader, "m", "set", after, size, limit):
            found += [item.sentence for item in page]
            after = page[-1].position
        assert found == [f"s{n}" for n in range(3, limit) if n not in inside]
        assert in_open_batches(reader, "m", "set", limit) == sum(n < limit for n in inside)
        every = pending_page(reader, "m", "set", -1, 100, limit, batched=True)
        assert [item.sentence for item in every] == [f"s{n}" for n in range(3, limit)]


def test_other_commands_know_of_open_batches(shard: Shard, tmp_path: Path) -> None:
    with WritableStore(shard.path, "test") as store, store.transaction() as connection:
        add_batch(connection, row(), keys(5, 6, 7))
    shard.end()
    with closing(connect(shard.path)) as reader:
        assert open_batches(reader) == [OpenBatches("m", 1, 3)]
    checks = {check.name: check for check in verify_store(shard.path)}
    assert all(check.ok for check in checks.values())
    assert checks["answers"].notes == ["1 open batches, whose answers are still to come (hatevolution batch status)"]
    copy = backup_store(shard.path, tmp_path / "copy.db")
    assert all(check.ok for check in copy.checks)
    assert rows(tmp_path / "copy.db", "SELECT name FROM batches") == [("hb000000000001",)]
    export_store(shard.path, tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "back.db")
    assert rows(tmp_path / "back.db", "SELECT count(*) FROM predictions") == [(3,)]
    assert rows(tmp_path / "back.db", "SELECT count(*) FROM batches") == [(0,)]


def test_a_merge_leaves_open_batches_where_they_are_and_counts_them(shard: Shard, tmp_path: Path) -> None:
    with WritableStore(shard.path, "test") as store, store.transaction() as connection:
        made = add_batch(connection, row(), keys(5, 6))
    (source,) = merge_stores([shard.path], tmp_path / "all.db").sources
    assert (source.answers, source.open_batches) == (3, 1)
    assert rows(tmp_path / "all.db", "SELECT count(*) FROM batches") == [(0,)]
    # Collected where it was submitted, it comes along with the next merge.
    shard.ask([("s5", "toxic"), ("s6", "respectful")]).end()
    with WritableStore(shard.path, "test") as store, store.transaction() as connection:
        mark_lines(connection, made, "answered")
        close_batch(connection, made, "collected", "2026-01-02T00:00:00Z", None)
    (source,) = merge_stores([shard.path], tmp_path / "all.db").sources
    assert (source.answers, source.open_batches) == (2, 0)


def test_a_store_from_before_batches_gets_its_tables_when_it_is_written_to(shard: Shard, tmp_path: Path) -> None:
    with closing(sqlite3.connect(shard.path)) as connection:
        for name in ("batch_lines", "batches", "tallies", "tallied"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name >= 'm004_batches'")
        connection.commit()
    with closing(connect(shard.path)) as reader:
        assert open_batches(reader) == []
    assert merge_stores([shard.path], tmp_path / "all.db").sources[0].open_batches == 0
    with WritableStore(shard.path, "test") as store:
        assert applied(store.connection) == list(MIGRATIONS)
        assert batches(store.connection) == []
    assert all(check.ok for check in verify_store(shard.path))
