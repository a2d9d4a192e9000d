"""What a store says of itself: cells, spending, runs, and requests that may have been billed unrecorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, model, model_record, run_record, sentences
from run_maker import dataset_record as dataset

from hatevolution.store import status
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableStore]:
    """Two runs: the first asks z and a about big, the second a about small too."""
    with WritableStore(tmp_path / "s.db", RUN) as store:
        with store.transaction():
            store.add_run(run_record("r1", ["z", "a"], ["big"]))
            store.add_run(run_record("r2", ["a"], ["big", "small"]))
        store._run = "r1"  # who brought them
        with store.transaction():
            for name in ("z", "a", "idle"):
                store.put_model(model_record(model(name)))
            for name, size in (("big", 5), ("small", 2), ("unused", 9)):
                store.put_dataset(dataset(name), sentences(size))
        yield store


def predict(
    connection: sqlite3.Connection, name: str, key: str, state: str = "answered", run: str = "r1", **more: object
) -> None:
    dataset_name, sentence = key.split("/")
    row = {"model": name, "dataset": dataset_name, "sentence": sentence, "status": state, "attempts": 1, "run": run}
    row |= more
    connection.execute(
        f"INSERT INTO predictions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )


def fail(connection: sqlite3.Connection, name: str, key: str) -> None:
    connection.execute(
        "INSERT INTO failures (model, dataset, sentence, run, failed_at, attempt, kind, message) "
        "VALUES (?, ?, ?, 'r1', 'x', 1, 'timeout', 'late')",
        [name, *key.split("/")],
    )


def intend(connection: sqlite3.Connection, run: str, name: str, dataset_name: str, ids: list[str]) -> None:
    connection.execute(
        "INSERT INTO intents (run, model, dataset, sentences, at) VALUES (?, ?, ?, ?, 'then')",
        [run, name, dataset_name, json.dumps(ids)],
    )


def test_a_cell_for_each_model_and_set_that_a_run_was_to_ask(store: WritableStore) -> None:
    connection = store.connection
    predict(connection, "z", "big/s0")
    predict(connection, "z", "big/s1", "refused")
    predict(connection, "z", "big/s2", "rejected")
    predict(connection, "a", "small/s0", run="r2")
    fail(connection, "z", "big/s3")
    fail(connection, "z", "big/s3")
    fail(connection, "z", "big/s4")
    assert [tuple(cell) for cell in status.cells(connection)] == [
        ("z", "big", 5, 1, 1, 1, 2, 3),
        ("a", "big", 5, 0, 0, 0, 5, 0),
        ("a", "small", 2, 1, 0, 0, 1, 0),
    ]


def test_what_was_answered_is_shown_even_if_no_run_remembers_being_told_to(store: WritableStore) -> None:
    predict(store.connection, "idle", "unused/s3")
    assert ("idle", "unused", 9, 1, 0, 0, 8, 0) in [tuple(cell) for cell in status.cells(store.connection)]


def test_spending_counts_a_response_once_however_many_sentences_it_answers(store: WritableStore) -> None:
    connection = store.connection
    for number, cost in ((1, 0.25), (2, None), (3, 0.5)):
        connection.execute(
            "INSERT INTO responses (response, run, received_at, latency_s, base_url, prompt_tokens, completion_tokens, "
            "cost_usd, body) VALUES (?, 'r1', 'x', 1, 'u', 10, 2, ?, '')",
            [number, cost],
        )
    for index, sentence in enumerate(("s0", "s1", "s2")):
        predict(connection, "z", f"big/{sentence}", response=1, response_index=index)
    predict(connection, "z", "big/s3", response=3)
    predict(connection, "a", "big/s0", response=2)
    found = {item.model: tuple(item)[1:] for item in status.spend(connection)}
    assert found == {"z": (2, 20, 4, 0.75), "a": (1, 10, 2, 0.0)}


def test_runs_are_listed_oldest_first_with_their_ends(store: WritableStore) -> None:
    store.end_run("r1", "later", "incomplete", "why")
    assert [tuple(run)[0::2] for run in status.runs(store.connection)] == [("r1", "later", "why"), ("r2", None, None)]
    assert [run.outcome for run in status.runs(store.connection)] == ["incomplete", None]


def test_what_was_being_sent_when_a_run_died_is_listed(store: WritableStore) -> None:
    connection = store.connection
    intend(connection, "r1", "z", "big", ["s0", "s1", "s2"])
    intend(connection, "r2", "a", "small", ["s1"])
    predict(connection, "z", "big/s1")  # recorded by the same run: nothing is unknown of it
    predict(connection, "z", "big/s2", run="r2")  # answered later: what the dead run sent may still have been billed
    found = [(item.run, item.model, item.sentence) for item in status.unrecorded(connection)]
    assert found == [("r1", "z", "s0"), ("r1", "z", "s2"), ("r2", "a", "s1")]
    assert [item.answered for item in status.unrecorded(connection)] == [False, True, False]


def test_what_costs_money_is_told_from_what_does_not(store: WritableStore) -> None:
    paid = model("paid", price={"usd_per_request": 0.1})
    with store.transaction():
        store.put_model(model_record(paid))
    intend(store.connection, "r1", "paid", "big", ["s0"])
    intend(store.connection, "r1", "z", "big", ["s0"])
    assert [(item.model, item.priced) for item in status.unrecorded(store.connection)] == [("paid", True), ("z", False)]


def test_what_a_living_run_is_sending_is_not_listed(store: WritableStore) -> None:
    intend(store.connection, "r1", "z", "big", ["s0"])
    intend(store.connection, "r2", "z", "big", ["s1"])
    assert [item.run for item in status.unrecorded(store.connection, "r2")] == ["r1"]


def test_a_reader_gets_the_same(store: WritableStore) -> None:
    predict(store.connection, "z", "big/s0")
    connection = connect(store.path)
    assert status.cells(connection) == status.cells(store.connection)
    connection.close()
