"""Verification finds each kind of damage, and nothing where there is none."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from exchange_maker import Shard, some_sentences
from store_maker import generate

from hatevolution.domain import Status
from hatevolution.errors import StoreError
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import Check, verify_store
from hatevolution.store.opened import WritableStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    made = Shard(tmp_path / "s.db", "run-1", datasets={"set": some_sentences(20), "other": some_sentences(5)})
    made.ask([(f"s{n}", "toxic") for n in range(10)])
    made.ask([("s1", "\ud800")], dataset="other", body=b"\xff\xfe")
    made.ask([("s2", None)], dataset="other", status=Status.REFUSED, body='{"error": {"code": "content_filter"}}')
    return made.fail(["s15"])


def verified(path: Path) -> dict[str, Check]:
    return {check.name: check for check in verify_store(path)}


def damage(path: Path, *statements: str, drop: tuple[str, ...] = ()) -> None:
    """Change a store behind its triggers, which are put back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        texts = [
            connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name]).fetchone()[0] for name in drop
        ]
        for name in drop:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for text in texts:
            connection.execute(text)


def bad(path: Path) -> dict[str, list[str]]:
    return {name: check.shown for name, check in verified(path).items() if not check.ok}


def test_a_store_as_a_run_left_it_is_well(shard: Shard) -> None:
    found = verified(shard.path)
    assert all(check.ok for check in found.values()), bad(shard.path)
    assert found["sentences"].checked == 25
    assert found["prompts"].checked == 12
    assert found["responses"].checked == 3 + 2
    assert found["answers"].checked == 12
    assert json.dumps([check.as_json() for check in found.values()])


def test_a_merged_store_is_well_too(shard: Shard, tmp_path: Path) -> None:
    other = Shard(tmp_path / "t.db", "run-2", datasets={"set": some_sentences(20)})
    other.ask([("s1", "respectful"), ("s2", "toxic")])
    merge_stores([shard.path, other.path], tmp_path / "all.db")
    found = verified(tmp_path / "all.db")
    assert all(check.ok for check in found.values()), bad(tmp_path / "all.db")
    assert found["answers"].notes == ["1 second answers agree with the first one, 1 conflict (view conflicts)"]
    assert found["prompts"].checked == 14


def test_a_running_store_is_seen_at_one_moment(shard: Shard) -> None:
    checks = verify_store(shard.path)
    first = next(checks)
    shard.ask([("s15", "toxic")])
    rest = {check.name: check for check in checks}
    assert first.ok
    assert rest["answers"].checked == 12
    assert verified(shard.path)["answers"].checked == 13


@pytest.mark.parametrize(
    ("statement", "drop", "check", "text"),
    [
        ("UPDATE sentences SET text = 'changed' WHERE sentence = 's3' AND dataset = 'set'", (), "sentences",
         "the texts of set are not those that were read"),
        ("DELETE FROM sentences WHERE sentence = 's19' AND dataset = 'set'", (), "sentences",
         "has 19 sentences, not 20"),
        ("UPDATE sentences SET position = 77 WHERE sentence = 's19' AND dataset = 'set'", (), "sentences",
         "no sentence at position 19"),
        ("UPDATE models SET specification = replace(specification, 'fake', 'other')", (), "fingerprints",
         "the fingerprint of m is not that of its specification"),
        ("UPDATE models SET specification = 'x'", (), "fingerprints", "is not JSON"),
        ("UPDATE predictions SET prompt_sha256 = 'abc' WHERE sentence = 's4'", ("predictions_are_final",), "prompts",
         "m, set, s4: the prompt's checksum"),
        ("UPDATE predictions SET response_index = 4 WHERE sentence = 's3' AND dataset = 'set'",
         ("predictions_are_final",), "responses", "there is no place 4 in response 1, which has 4"),
        ("UPDATE predictions SET response_index = 1 WHERE sentence = 's3' AND dataset = 'set'",
         ("predictions_are_final",), "responses", "another answer is at its place 1 of response 1"),
        ("UPDATE predictions SET raw_text = NULL WHERE sentence = 's4'", ("predictions_are_final",), "answers",
         "m, set, s4: answered, but neither text nor scores"),
        ("UPDATE predictions SET scores = 'x' WHERE sentence = 's4'", ("predictions_are_final",), "answers",
         "scores are not JSON"),
        ("DELETE FROM responses WHERE response = 2", ("responses_stay",), "foreign_keys", "row of responses"),
        ("DROP TRIGGER failures_stay", (), "schema", "the trigger failures_stay is missing"),
        ("DROP INDEX failures_by_key", (), "schema", "the index failures_by_key is missing"),
        ("CREATE TABLE mine (x)", (), "schema", "the table mine is not one of a store"),
        ("PRAGMA application_id = 7", (), "schema", "application id"),
    ],
)  # fmt: skip
def test_each_kind_of_damage_is_found(
    shard: Shard, statement: str, drop: tuple[str, ...], check: str, text: str
) -> None:
    damage(shard.path, statement, drop=drop)
    found = bad(shard.path)
    assert check in found
    assert text in " ".join(found[check])


def test_a_changed_trigger_is_found(shard: Shard) -> None:
    damage(
        shard.path,
        "DROP TRIGGER predictions_stay",
        "CREATE TRIGGER predictions_stay BEFORE DELETE ON predictions BEGIN SELECT 1; END",
    )
    assert bad(shard.path) == {"schema": ["the trigger predictions_stay is not as it should be"]}


def test_damaged_bytes_are_found_and_end_nothing(shard: Shard) -> None:
    with WritableStore(shard.path, "x") as store:
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = store.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'predictions'").fetchone()
    data = bytearray(shard.path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    data[(page - 1) * size : (page - 1) * size + 200] = b"\xff" * 200
    shard.path.write_bytes(bytes(data))
    found = verified(shard.path)
    assert len(found) == 9
    assert not found["integrity"].ok
    assert "malformed" in " ".join(found["answers"].shown)


def test_many_problems_are_counted_and_some_are_shown(tmp_path: Path) -> None:
    made = Shard(tmp_path / "s.db", "run-1", datasets={"set": some_sentences(60)})
    made.ask([(f"s{n}", "toxic") for n in range(60)])
    damage(made.path, "UPDATE predictions SET prompt_sha256 = 'abc'", drop=("predictions_are_final",))
    check = verified(made.path)["prompts"]
    assert (check.problems, len(check.shown)) == (60, 20)


def test_orphans_and_open_requests_are_notes(shard: Shard) -> None:
    shard.ask([("s1", "again")])
    shard.intend(["s16"])
    found = verified(shard.path)
    assert all(check.ok for check in found.values())
    assert found["responses"].notes == ["1 responses that no answer points at (second answers within a run)"]
    assert "1 requests whose outcome is not recorded" in found["answers"].notes[0]


def test_a_store_that_says_nothing_of_checksums_is_told_from_one_that_is_well(tmp_path: Path) -> None:
    """Stores put together by hand have no honest checksums; that is found, not overlooked."""
    assert {"sentences", "fingerprints"} <= bad(generate(tmp_path / "s.db", 1, size=20).path).keys()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("nothing")
    with pytest.raises(StoreError, match=r"x\.db"):
        list(verify_store(tmp_path / "x.db"))
