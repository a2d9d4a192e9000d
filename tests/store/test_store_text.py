"""Any text goes in and comes out the same: sentences, answers, bodies, failures."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_maker import RUN, fill, model, sentences

from hatevolution.domain import Answer, Item, Reply, Sentence, Status
from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_page
from hatevolution.store.reader import connect
from hatevolution.store.rows import AnswerRecord, FailureRecord
from hatevolution.store.text import decode, encode, encode_body, visible
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from pathlib import Path

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)
ODD = [
    "",
    " ",
    "a\0b",
    "\0",
    "\ud800",
    "x\udfffy\0z",
    "\ud83d\ude42",  # two surrogates that look like a pair
    "🙂" * 1000,
    "\x1b[31mred\x1b[0m",
    "[bold]no markup[/bold]",
    "'; DROP TABLE predictions; --",
    "e\u0301 é",  # not normalised
    "\r\n\t\u2028\ufeff\uffff",
    "long " * 400_000,
]


@given(ANY_TEXT)
def test_encoded_text_comes_back(text: str) -> None:
    stored = encode(text)
    assert decode(stored) == text
    assert isinstance(stored, str) == (not any("\ud800" <= char <= "\udfff" for char in text))


@given(st.binary(max_size=200))
def test_bodies_are_text_where_they_can_be_and_bytes_elsewhere(body: bytes) -> None:
    stored = encode_body(body)
    assert (stored.encode() if isinstance(stored, str) else stored) == body


@given(ANY_TEXT)
def test_visible_text_is_valid_unicode_and_changes_nothing_else(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert shown == "".join("\ufffd" * 3 if "\ud800" <= char <= "\udfff" else char for char in text)


def record(text: str | None, item: Item, body: str | bytes) -> AnswerRecord:
    said = Answer(Status.ANSWERED, text, {"a": 0.5}, text)
    return AnswerRecord("m", [item], Reply([said], body, 200, text, text, text), 1, "http://x", "now", 0.1, None)


def failed(text: str, item: Item) -> FailureRecord:
    return FailureRecord("m", [item], 1, "permanent", text, 400, text, text, text, "http://x", "now", 0.1, False)


def write(path: Path, records: list[AnswerRecord | FailureRecord], rows: list[Sentence]) -> None:
    async def go() -> None:
        writer = GroupCommitWriter(store.connection, RUN)
        for entry in records:
            writer.put(entry)
        await writer.close()

    with WritableStore(path, RUN) as store:
        fill(store, [model()], {"set": rows})
        asyncio.run(go())


def check(path: Path, texts: list[str]) -> None:
    connection = connect(path)
    assert [row.text for row in pending_page(connection, "nobody", "set", -1, 10_000, None)] == texts
    found = connection.execute(
        "SELECT s.text, p.raw_text, r.body FROM predictions AS p JOIN responses AS r ON r.response = p.response "
        "JOIN sentences AS s ON s.sentence = p.sentence ORDER BY s.position"
    ).fetchall()
    assert [tuple(map(decode, row)) for row in found] == [(text, text, text) for text in texts]
    failures = connection.execute("SELECT message, body FROM failures ORDER BY failure").fetchall()
    assert [tuple(map(decode, row)) for row in failures] == [(text, text) for text in texts]
    connection.close()


def round_trip(path: Path, texts: list[str]) -> None:
    rows = sentences(len(texts), text=texts.__getitem__)
    items = [Item("set", row.id, row.text) for row in rows]
    answers = [record(text, item, text) for text, item in zip(texts, items, strict=True)]
    failures = [failed(text, item) for text, item in zip(texts, items, strict=True)]
    write(path, [*answers, *failures], rows)
    check(path, texts)
    connection = connect(path)
    words = connection.execute("SELECT request_id, served_model, system_fingerprint FROM responses ORDER BY response")
    assert words.fetchall() == [(visible(text),) * 3 for text in texts]
    connection.close()


def test_odd_texts_come_back(tmp_path: Path) -> None:
    round_trip(tmp_path / "s.db", ODD)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=300))
def test_any_texts_come_back(tmp_path: Path, texts: list[str]) -> None:
    for old in tmp_path.glob("s.db*"):
        old.unlink()
    round_trip(tmp_path / "s.db", texts)


def test_one_bad_text_among_many_changes_none_of_the_others_types(tmp_path: Path) -> None:
    texts = [f"plain {n}" for n in range(600)]
    texts[300] = "\ud800"
    round_trip(tmp_path / "s.db", texts)
    connection = connect(tmp_path / "s.db")
    kinds = connection.execute("SELECT typeof(raw_text), count(*) FROM predictions GROUP BY 1 ORDER BY 1").fetchall()
    assert kinds == [("blob", 1), ("text", 599)]
    connection.close()


def test_a_body_that_is_no_text_is_kept_byte_by_byte(tmp_path: Path) -> None:
    body = b"\xff\xfe\x00 half a \xc3"
    write(tmp_path / "s.db", [record("toxic", Item("set", "s0", ""), body)], sentences(1))
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT body FROM responses").fetchall() == [(body,)]
    connection.close()


def test_no_text_is_not_the_empty_text(tmp_path: Path) -> None:
    items = [Item("set", f"s{n}", "") for n in range(2)]
    write(tmp_path / "s.db", [record(None, items[0], "{}"), record("", items[1], "{}")], sentences(2))
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT raw_text FROM predictions ORDER BY sentence").fetchall() == [(None,), ("",)]
    connection.close()


def test_scores_keep_every_digit_and_their_order(tmp_path: Path) -> None:
    scores = {"z": 0.1 + 0.2, "a": 1e-320, "\ud800": 1.0, "TOXICITY": 0.5000000000000001}
    said = Answer(Status.ANSWERED, None, scores)
    entry = AnswerRecord("m", [Item("set", "s0", "")], Reply([said], "{}"), 1, "u", "now", 0.1, None)
    write(tmp_path / "s.db", [entry], sentences(1))
    connection = connect(tmp_path / "s.db")
    import json

    (stored,) = connection.execute("SELECT scores FROM predictions").fetchone()
    assert list(json.loads(stored).items()) == list(scores.items())
    connection.close()


# -- what SQLite can't hold ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**63, 10**30, -(2**70)])
def test_an_answer_that_sqlite_cannot_hold_is_kept_as_a_failure_and_harms_no_other(tmp_path: Path, count: int) -> None:
    items = [Item("set", f"s{n}", "") for n in range(9)]
    records: list[AnswerRecord | FailureRecord] = [record(f"answer {n}", item, "{}") for n, item in enumerate(items)]
    bad = Reply([Answer(Status.ANSWERED, "lost?", prompt_tokens=count)], '{"the": "body"}', 200, "id-7")
    records[4] = AnswerRecord("m", [items[4]], bad, 2, "http://x", "now", 0.1, None)
    write(tmp_path / "s.db", records, sentences(9))
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT sentence FROM predictions ORDER BY 1").fetchall() == [
        (f"s{n}",) for n in range(9) if n != 4
    ]
    failure = connection.execute(
        "SELECT sentence, kind, body, request_id, attempt, maybe_billed FROM failures"
    ).fetchall()
    assert failure == [("s4", "malformed", '{"the": "body"}', "id-7", 2, 1)]
    connection.close()


def test_a_second_answer_does_not_replace_the_first_and_its_response_is_kept(tmp_path: Path) -> None:
    item = Item("set", "s0", "")
    write(tmp_path / "s.db", [record("first", item, "1"), record("second", item, "2")], sentences(1))
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT raw_text FROM predictions").fetchall() == [("first",)]
    assert connection.execute("SELECT body FROM responses ORDER BY response").fetchall() == [("1",), ("2",)]
    connection.close()


def test_nul_is_whole_though_sqlites_own_length_stops_at_it(tmp_path: Path) -> None:
    write(tmp_path / "s.db", [record("a\0b", Item("set", "s0", ""), "a\0b")], sentences(1))
    with sqlite3.connect(tmp_path / "s.db") as connection:
        assert connection.execute("SELECT raw_text, length(raw_text) FROM predictions").fetchone() == ("a\0b", 1)
    connection.close()
