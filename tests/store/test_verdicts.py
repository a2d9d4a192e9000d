"""What people judged stands beside the answers: append-only, the newest one counting."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from audit_maker import old_store, spoken_store
from store_maker import MadeSentence

from hatevolution.errors import StoreError
from hatevolution.store import verdicts
from hatevolution.store.lock import WriterLock, holder
from hatevolution.store.reader import connect
from hatevolution.store.verdicts import Key, add_sample, append_verdict, counting, find_sample, sampled

if TYPE_CHECKING:
    from pathlib import Path

A, B = Key("m", "set", "a"), Key("m", "set", "b")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    sentences = [MadeSentence(id="a"), MadeSentence(id="b")]
    return spoken_store(tmp_path / "s.db", {"m": ["toxic", "hm"]}, sentences=sentences).path


def sample(store: Path, seed: int = 1) -> int:
    return add_sample(store, seed=seed, size=2, filters={"x": [1]}, of=2, who="Ann", keys=[B, A]).sample


def said(store: Path, number: int, who: str | None = None) -> dict[tuple[Key, str], str]:
    connection = connect(store)
    try:
        return dict(counting(connection, number, who))
    finally:
        connection.close()


def test_a_sample_is_kept_in_its_order_and_found_again(store: Path) -> None:
    made = add_sample(store, seed=5, size=2, filters={"b": 1, "a": None}, of=9, who="Ann", keys=[B, A])
    connection = connect(store)
    assert find_sample(connection, seed=5, size=2, filters={"a": None, "b": 1}) == made
    for other in ({"seed": 6}, {"size": 3}, {"filters": {"a": 1}}):
        wanted = {"seed": 5, "size": 2, "filters": {"a": None, "b": 1}, **other}
        assert find_sample(connection, **wanted) is None  # type: ignore[arg-type]
    assert sampled(connection, made.sample) == [B, A]
    connection.close()


def test_the_newest_verdict_of_each_person_counts_in_every_sample(store: Path) -> None:
    first, second = sample(store), sample(store, seed=2)
    append_verdict(store, first, A, "toxic", "Ann")
    append_verdict(store, first, A, "invalid", "Bob")
    append_verdict(store, second, A, "respectful", "Ann")
    truth = {(A, "Ann"): "respectful", (A, "Bob"): "invalid"}
    assert said(store, first) == said(store, second) == truth
    assert said(store, first, "Bob") == {(A, "Bob"): "invalid"}
    connection = connect(store)
    view = connection.execute("SELECT sentence, who, judgement FROM counting_verdicts ORDER BY who").fetchall()
    assert view == [("a", "Ann", "respectful"), ("a", "Bob", "invalid")]
    assert connection.execute("SELECT count(*) FROM verdicts").fetchone() == (3,)
    assert connection.execute("SELECT raw_text FROM predictions ORDER BY sentence").fetchall() == [("toxic",), ("hm",)]
    connection.close()


@pytest.mark.parametrize("table", ["verdicts", "samples", "sampled"])
@pytest.mark.parametrize("change", ["UPDATE {} SET sample = 9", "DELETE FROM {}"])
def test_nothing_is_changed_or_taken_away(store: Path, table: str, change: str) -> None:
    append_verdict(store, sample(store), A, "toxic", "Ann")
    with sqlite3.connect(store) as connection, pytest.raises(sqlite3.IntegrityError, match="are never"):
        connection.execute(change.format(table))
    connection.close()


def test_only_answers_of_the_store_and_known_judgements(store: Path) -> None:
    number = sample(store)
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        append_verdict(store, number, Key("m", "set", "nowhere"), "toxic", "Ann")
    with pytest.raises(StoreError, match="CHECK"):
        append_verdict(store, number, A, "perhaps", "Ann")  # type: ignore[arg-type]
    assert said(store, number) == {}


def test_the_writer_s_lock_is_taken_for_a_moment_and_obeyed(store: Path) -> None:
    number = sample(store)
    assert holder(store) is None
    lock = WriterLock(store)
    lock.acquire("a-run")
    try:
        with pytest.raises(StoreError, match="being written to by another run"):
            append_verdict(store, number, A, "toxic", "Ann")
        assert said(store, number) == {}
    finally:
        lock.release()
    append_verdict(store, number, A, "toxic", "Ann")
    assert said(store, number) == {(A, "Ann"): "toxic"}


def test_a_store_from_before_the_verdicts_is_read_as_it_is_and_gets_its_tables_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = old_store(tmp_path / "old.db", monkeypatch)
    assert said(store, 1) == {}
    connection = connect(store)
    assert find_sample(connection, seed=1, size=2, filters={"x": [1]}) is None
    connection.close()
    append_verdict(store, sample(store), A, "toxic", "Ann")
    assert said(store, 1) == {(A, "Ann"): "toxic"}


def test_the_newest_is_told_by_its_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = sample(store)
    monkeypatch.setattr(verdicts, "_now", lambda: "2026-01-02T00:00:00.000+00:00")
    append_verdict(store, number, A, "toxic", "Ann")
    monkeypatch.setattr(verdicts, "_now", lambda: "2026-01-01T00:00:00.000+00:00")  # came in by a merge
    append_verdict(store, number, A, "invalid", "Ann")
    assert said(store, number) == {(A, "Ann"): "toxic"}
    connection = connect(store)
    assert connection.execute("SELECT judgement FROM counting_verdicts").fetchall() == [("toxic",)]
    connection.close()
