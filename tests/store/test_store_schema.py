"""What the schema itself refuses, whoever writes: wrong types, orphans, changes of what is final."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, fill, model, sentences

from hatevolution.store.opened import WritableStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store with one answer, one failure; opened as a SQL shell would open it."""
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(3)})
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = 1")
    connection.execute(
        "INSERT INTO responses (response, run, received_at, latency_s, base_url, body) "
        "VALUES (1, ?, 'x', 0.5, 'u', 'b')",
        [RUN],
    )
    connection.execute(
        "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run, response) "
        "VALUES ('m', 'set', 's0', 'answered', 'toxic', 1, ?, 1)",
        [RUN],
    )
    connection.execute(
        "INSERT INTO failures (model, dataset, sentence, run, failed_at, attempt, kind, message) "
        "VALUES ('m', 'set', 's1', ?, 'x', 1, 'timeout', 'late')",
        [RUN],
    )
    yield connection
    connection.close()


@pytest.mark.parametrize("table", ["predictions", "responses", "failures"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET run = run", "DELETE FROM {}"])
def test_what_is_recorded_is_final(connection: sqlite3.Connection, table: str, statement: str) -> None:
    before = connection.execute(f"SELECT * FROM {table}").fetchall()
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        connection.execute(statement.format(table))
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("verb", ["REPLACE", "INSERT OR REPLACE", "INSERT OR IGNORE"])
def test_an_answer_is_not_replaced_from_a_sql_shell(connection: sqlite3.Connection, verb: str) -> None:
    """REPLACE fires no DELETE trigger in a shell, where recursive_triggers is off."""
    before = connection.execute("SELECT * FROM predictions").fetchall()
    connection.execute(
        f"{verb} INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
        "VALUES ('m', 'set', 's0', 'answered', 'respectful', 1, ?)",
        [RUN],
    )
    assert connection.execute("SELECT * FROM predictions").fetchall() == before


@pytest.mark.parametrize(
    "statement",
    [
        "REPLACE INTO responses (response, run, received_at, latency_s, base_url, body) "
        "VALUES (1, ?, 'y', 1, 'v', 'c')",
        "REPLACE INTO failures (failure, model, dataset, sentence, run, failed_at, attempt, kind, message) "
        "VALUES (1, 'm', 'set', 's1', ?, 'y', 2, 'x', 'z')",
    ],
)
def test_responses_and_failures_are_not_replaced_either(connection: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        connection.execute(statement, [RUN])
    assert connection.execute("SELECT body FROM responses").fetchall() == [("b",)]
    assert connection.execute("SELECT kind FROM failures").fetchall() == [("timeout",)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "failed"),
        ("status", "error"),
        ("model", "nobody"),
        ("dataset", "nowhere"),
        ("sentence", "s99"),
        ("run", "no such run"),
        ("response", 77),
        ("attempts", "many"),
        ("truncated", 2),
        ("prompt_tokens", 0.5),
        ("scores", b"\x00"),
    ],
)
def test_a_prediction_is_of_something_that_is_there(connection: sqlite3.Connection, column: str, value: object) -> None:
    row = {"model": "m", "dataset": "set", "sentence": "s1", "status": "answered", "attempts": 1, "run": RUN}
    row[column] = value
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            f"INSERT INTO predictions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
        )


@pytest.mark.parametrize(("column", "value"), [("gold", "maybe"), ("role", "third"), ("year", "soon"), ("text", None)])
def test_a_sentence_has_the_values_that_it_may_have(connection: sqlite3.Connection, column: str, value: object) -> None:
    row = {"dataset": "set", "position": 9, "sentence": "s9", "text": "t", column: value}
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            f"INSERT INTO sentences ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
        )


def test_every_table_is_strict(connection: sqlite3.Connection) -> None:
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list "
        "WHERE schema = 'main' AND type = 'table' AND name NOT LIKE '%sqlite%'"
    ).fetchall()
    assert len(tables) >= 7
    assert [name for name, strict in tables if not strict] == []


def test_the_view_shows_an_answer_whole(connection: sqlite3.Connection) -> None:
    cursor = connection.execute("SELECT * FROM answers")
    row = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
    shown = {"model": "m", "sentence": "s0", "text": "sentence number 0", "raw_text": "toxic", "body": "b", "run": RUN}
    assert {key: row[key] for key in shown} == shown
    assert cursor.fetchone() is None
