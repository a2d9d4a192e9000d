"""Merging stores: everything comes along once, the first answer stays, nothing is lost, nothing half done."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from exchange_maker import Shard, content, rows, some_sentences

from hatevolution.domain import Status
from hatevolution.errors import StoreError
from hatevolution.store import tables, verdicts
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.migrations import applied
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect
from hatevolution.store.status import cells, spend, unrecorded
from hatevolution.store.verdicts import Key

if TYPE_CHECKING:
    from pathlib import Path


def shard(folder: Path, name: str, first: int, last: int, say: str = "toxic", **more: Any) -> Shard:
    """A store of its own run that answered some of the twenty sentences."""
    made = Shard(folder / f"{name}.db", f"run-{name}", **more)
    return made.ask([(f"s{n}", say) for n in range(first, last)]).end()


def test_the_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    path = shard(tmp_path, "a", 0, 1).path
    listed = {
        "runs": tables.RUNS,
        "models": tables.MODELS,
        "datasets": tables.DATASETS,
        "sentences": tables.SENTENCES,
        "responses": ("response", *tables.RESPONSES),
        "predictions": tables.ANSWER,
        "second_answers": ("second_answer", *tables.ANSWER, "agrees", "source", "noticed_at"),
        "failures": ("failure", *tables.FAILURES),
        "intents": ("intent", *tables.INTENTS),
    }
    for table, columns in listed.items():
        assert sorted(columns) == sorted(row[1] for row in rows(path, f"PRAGMA table_info({table})")), table


def test_everything_comes_along(tmp_path: Path) -> None:
    """The union of two shards is what one run over both would have left, but for the numbers of rows."""
    one = shard(tmp_path, "a", 0, 9)
    one.fail(["s15"]).intend(["s16", "s17"])
    one.ask([("s18", None)], status=Status.REFUSED, body=b"\xff\x00 no text", finish_reason="content_filter")
    two = shard(tmp_path, "b", 9, 15, "\ud800 odd \0", models=("m", "n"), datasets={
        "set": some_sentences(20), "other": some_sentences(5, text="other {}")})  # fmt: skip
    two.ask([("s1", "respectful")], dataset="other", name="n", scores={"a": 0.1}, batch=1)
    report = merge_stores([one.path, two.path], tmp_path / "all.db")
    merged, parts = content(tmp_path / "all.db"), [content(one.path), content(two.path)]
    for table in ("runs", "answers", "failures", "intents"):
        assert merged[table] == sorted(parts[0][table] + parts[1][table], key=repr), table
    assert merged["datasets"] == sorted(parts[0]["datasets"] + [r for r in parts[1]["datasets"] if r[0] == "other"])
    assert merged["sentences"] == parts[1]["sentences"]
    assert [row[0] for row in merged["models"]] == ["m", "n"]
    assert rows(tmp_path / "all.db", "SELECT model, position FROM models") == [("m", 0), ("n", 1)]
    assert [(s.runs, s.models, s.datasets, s.sentences, s.answers, s.failures, s.intents) for s in report.sources] == [
        (1, 1, 1, 20, 10, 1, 1),
        (1, 1, 1, 5, 7, 0, 0),
    ]
    assert report.conflicting == 0
    with closing(connect(tmp_path / "all.db")) as connection:
        assert [cell.pending for cell in cells(connection)] == [20 - 16, 5, 20, 4]
        assert {item.model: item.requests for item in spend(connection)} == {"m": 3 + 1 + 2, "n": 1}
        assert [item.sentence for item in unrecorded(connection)] == ["s16", "s17"]


def test_a_destination_whose_making_was_cut_off_is_taken_up(tmp_path: Path) -> None:
    """What a kill leaves right after the file was made: a database without a table, in WAL mode."""
    destination = tmp_path / "all.db"
    with closing(sqlite3.connect(destination)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(StoreError, match="the making of a store was cut off"):
        connect(destination)
    merge_stores([shard(tmp_path, "a", 0, 9).path], destination)
    assert rows(destination, "SELECT count(*) FROM predictions") == [(9,)]


def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    sources = [shard(tmp_path, "a", 0, 9).fail(["s19"]).fail(["s19"]).path, shard(tmp_path, "b", 5, 12, "no").path]
    merge_stores(sources, tmp_path / "all.db")
    before = content(tmp_path / "all.db")
    again = merge_stores([*sources, *reversed(sources)], tmp_path / "all.db")
    assert content(tmp_path / "all.db") == before
    assert sum(s.responses + s.answers + s.failures + s.kept_apart + s.runs for s in again.sources) == 0
    assert again.conflicting == 8
    assert len(before["failures"]) == 2
    assert rows(tmp_path / "all.db", "SELECT count(*) FROM responses") == [(3 + 2,)]


def test_the_first_answer_stays_and_the_other_one_is_kept_whole(tmp_path: Path) -> None:
    first, second = shard(tmp_path, "a", 0, 4, "toxic"), shard(tmp_path, "b", 2, 6, "respectful")
    third = shard(tmp_path, "c", 3, 5, "toxic")
    report = merge_stores([first.path, second.path, third.path], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "SELECT sentence, raw_text FROM predictions ORDER BY sentence") == [
        (f"s{n}", "toxic" if n < 4 else "respectful") for n in range(6)
    ]
    apart = rows(
        tmp_path / "all.db",
        "SELECT sentence, raw_text, run, agrees, source FROM second_answers ORDER BY sentence, run",
    )
    b, c = str(second.path), str(third.path)
    assert apart == [
        ("s2", "respectful", "run-b", 0, b),
        ("s3", "respectful", "run-b", 0, b),
        ("s3", "toxic", "run-c", 1, c),
        ("s4", "toxic", "run-c", 0, c),
    ]
    assert [(s.agreeing, s.conflicts) for s in report.sources] == [(0, 0), (0, 2), (1, 1)]
    assert [(c.sentence, c.kept, c.other) for c in report.conflicts] == [
        ("s2", "answered: 'toxic'", "answered: 'respectful'"),
        ("s3", "answered: 'toxic'", "answered: 'respectful'"),
        ("s4", "answered: 'respectful'", "answered: 'toxic'"),
    ]
    bodies = rows(
        tmp_path / "all.db",
        "SELECT a.sentence, r.body FROM second_answers AS a JOIN responses AS r USING (response) WHERE a.run = 'run-b'",
    )
    assert dict(bodies) == dict(rows(second.path, "SELECT sentence, body FROM answers WHERE sentence IN ('s2', 's3')"))
    assert rows(tmp_path / "all.db", "SELECT sentence FROM conflicts ORDER BY sentence") == [("s2",), ("s3",), ("s4",)]


def test_what_is_kept_apart_goes_on_being_kept(tmp_path: Path) -> None:
    """Merged stores can be merged: in any order and by any way, the same answers are in the end."""
    paths = [shard(tmp_path, name, n, n + 6, name).path for n, name in enumerate("abc")]
    merge_stores(paths, tmp_path / "at-once.db")
    merge_stores(paths[:2], tmp_path / "half.db")
    merge_stores([tmp_path / "half.db", paths[2], paths[0], tmp_path / "half.db"], tmp_path / "in-steps.db")
    one, other = content(tmp_path / "at-once.db"), content(tmp_path / "in-steps.db")
    assert one == other
    merge_stores([tmp_path / "at-once.db"], tmp_path / "in-steps.db")
    assert content(tmp_path / "in-steps.db") == one
    every = rows(
        tmp_path / "at-once.db", "SELECT count(*) FROM predictions UNION ALL SELECT count(*) FROM second_answers"
    )
    assert sum(n for (n,) in every) == 18


def test_a_source_that_went_on_is_merged_again(tmp_path: Path) -> None:
    """A run that is still writing: merged now, and once more when it is done."""
    live = Shard(tmp_path / "live.db", "run-live").ask([(f"s{n}", "toxic") for n in range(6)])
    live.fail(["s9"])
    settled = live.intend(["s6", "s7"])
    merge_stores([live.path], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "SELECT ended_at, outcome FROM runs") == [(None, None)]
    live.ask([(f"s{n}", "toxic") for n in range(6, 12)]).fail(["s9"])
    with WritableStore(live.path, "run-live") as store:
        store.connection.execute("DELETE FROM intents WHERE intent = ?", [settled])
    live.end()
    report = merge_stores([live.path], tmp_path / "all.db")
    assert (report.sources[0].answers, report.sources[0].failures, report.sources[0].runs) == (6, 1, 0)
    assert content(tmp_path / "all.db") == content(live.path)
    shutil.copy(tmp_path / "all.db", tmp_path / "copy.db")
    assert merge_stores([tmp_path / "copy.db"], tmp_path / "all.db").sources[0].responses == 0


def test_an_older_copy_of_a_run_brings_no_settled_intent_back(tmp_path: Path) -> None:
    live = Shard(tmp_path / "live.db", "run-live").ask([("s1", "toxic")])
    number = live.intend(["s6"])
    shutil.copy(live.path, tmp_path / "old.db")
    with WritableStore(live.path, "run-live") as store:
        store.connection.execute("DELETE FROM intents WHERE intent = ?", [number])
    live.fail(["s6"]).end()
    merge_stores([live.path, tmp_path / "old.db"], tmp_path / "all.db")
    assert content(tmp_path / "all.db")["intents"] == []
    assert rows(tmp_path / "all.db", "SELECT outcome FROM runs") == [("complete",)]


def test_a_response_without_an_answer_comes_along_once(tmp_path: Path) -> None:
    made = shard(tmp_path, "a", 0, 4)
    made.ask([("s1", "another")])  # refused by the key; its response is kept
    assert rows(made.path, "SELECT count(*) FROM responses") == [(2,)]
    for _ in range(3):
        merge_stores([made.path], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "SELECT body FROM responses") == rows(made.path, "SELECT body FROM responses")


def test_a_response_that_a_fault_has_doubled_takes_no_answer_along(tmp_path: Path) -> None:
    """Two answers of one response in the source, of two like it in the destination: only one of those can be it."""
    made = shard(tmp_path, "a", 0, 4)
    merge_stores([made.path], tmp_path / "all.db")
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"INSERT INTO responses SELECT 2, {', '.join(tables.RESPONSES)} FROM responses")
        connection.execute("UPDATE predictions SET response = 2 WHERE sentence IN ('s2', 's3')")
        for _, statement in triggers:
            connection.execute(statement)
    before = content(tmp_path / "all.db")
    report = merge_stores([made.path], tmp_path / "all.db")
    (merged,) = report.sources
    assert (merged.responses, merged.answers, merged.conflicts) == (0, 0, 0)
    assert (merged.agreeing, merged.kept_apart) == (2, 2)
    after = content(tmp_path / "all.db")
    assert after["answers"] == before["answers"]
    assert rows(tmp_path / "all.db", "SELECT sentence, agrees, response FROM second_answers ORDER BY 1") == [
        ("s2", 1, 1),
        ("s3", 1, 1),
    ]
    merge_stores([made.path], tmp_path / "all.db")
    assert content(tmp_path / "all.db") == after


def test_a_source_keeps_its_bytes_and_is_left_alone(tmp_path: Path) -> None:
    made = shard(tmp_path, "a", 0, 9)
    before = made.path.read_bytes()
    made.path.chmod(0o444)
    merge_stores([made.path], tmp_path / "all.db")
    assert made.path.read_bytes() == before


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_another_specification_under_a_name_is_refused_before_anything_is_written(tmp_path: Path, order: int) -> None:
    one = shard(tmp_path, "a", 0, 4)
    other = shard(tmp_path, "b", 4, 8, decoding={"temperature": 0.5})
    with pytest.raises(
        StoreError, match=r"another specification under the model name 'm' than .*decoding.temperature: "
    ):
        merge_stores([one.path, other.path][::order], tmp_path / "all.db")
    assert not (tmp_path / "all.db").exists()


def test_the_destination_is_guarded_too(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 4), shard(tmp_path, "b", 4, 8, revision="abc")
    fine = shard(tmp_path, "c", 4, 8)
    before = content(one.path)
    with pytest.raises(StoreError, match=r"b\.db holds answers of another specification .*a\.db \(revision: "):
        merge_stores([fine.path, other.path], one.path)
    assert content(one.path) == before


def test_a_set_with_another_text_or_label_is_refused(tmp_path: Path) -> None:
    one = shard(tmp_path, "a", 0, 4)
    changed = some_sentences(20)
    changed[7] = changed[7]._replace(gold=None)
    other = shard(tmp_path, "b", 4, 8, datasets={"set": changed})
    with pytest.raises(
        StoreError, match=r"set of .*b\.db is not .*a\.db: sentence number 8 \(id 's7', changed: gold\)"
    ):
        merge_stores([one.path, other.path], tmp_path / "all.db")
    shorter = shard(tmp_path, "c", 4, 8, datasets={"set": some_sentences(19)})
    with pytest.raises(StoreError, match=r"sentence number 20 \(id 's19' is no longer in the set\)"):
        merge_stores([one.path, shorter.path], tmp_path / "all.db")
    assert not (tmp_path / "all.db").exists()


def test_a_run_that_is_another_under_the_same_name_is_refused(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 4), shard(tmp_path, "b", 4, 8)
    with closing(sqlite3.connect(other.path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = 0")
        connection.execute("UPDATE runs SET run = 'run-a', who = 'somebody else'")
    with pytest.raises(StoreError, match=r"b\.db has a run run-a that began otherwise"):
        merge_stores([one.path, other.path], tmp_path / "all.db")


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    one = shard(tmp_path, "a", 0, 4)
    (tmp_path / "x.db").write_text("no store")
    for bad in (tmp_path / "x.db", tmp_path / "missing.db"):
        with pytest.raises(StoreError, match=bad.name):
            merge_stores([one.path, bad], tmp_path / "all.db")
    with pytest.raises(StoreError, match="into itself"):
        merge_stores([one.path], one.path)
    assert not (tmp_path / "all.db").exists()


def test_a_destination_in_use_is_refused(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 4), shard(tmp_path, "b", 4, 8)
    with WritableStore(one.path, "somebody"), pytest.raises(StoreError, match="being written to"):
        merge_stores([other.path], one.path)


# -- verdicts ------------------------------------------------------------------------------------------------------


def judge(path: Path, sentences: list[str], judgement: verdicts.Judgement, who: str, *, of: int = 4) -> None:
    keys = [Key("m", "set", sentence) for sentence in sentences]
    with closing(connect(path)) as connection:
        sample = verdicts.find_sample(connection, seed=1, size=10, filters={"kind": "all"})
    sample = sample or verdicts.add_sample(path, seed=1, size=10, filters={"kind": "all"}, of=of, who=who, keys=keys)
    for key in keys:
        verdicts.append_verdict(path, sample.sample, key, judgement, who)


def test_verdicts_come_along_and_the_newest_counts(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 4), shard(tmp_path, "b", 0, 4)
    judge(other.path, ["s1", "s2"], "toxic", "ann")
    time.sleep(0.01)
    judge(one.path, ["s1", "s2"], "invalid", "ann")
    judge(other.path, ["s1", "s2"], "respectful", "bob")
    merge_stores([one.path, other.path, other.path], tmp_path / "all.db")
    assert sorted(rows(tmp_path / "all.db", "SELECT sentence, who, judgement FROM counting_verdicts")) == [
        ("s1", "ann", "invalid"),
        ("s1", "bob", "respectful"),
        ("s2", "ann", "invalid"),
        ("s2", "bob", "respectful"),
    ]
    with closing(connect(tmp_path / "all.db")) as connection:
        counting = verdicts.counting(connection, 1)
    assert counting[Key("m", "set", "s1"), "ann"] == "invalid"
    assert rows(tmp_path / "all.db", "SELECT count(*) FROM verdicts UNION ALL SELECT count(*) FROM samples") == [
        (6,),
        (1,),
    ]


def test_a_verdict_on_an_answer_that_conflicts_is_no_verdict_on_the_one_that_stays(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 3, "toxic"), shard(tmp_path, "b", 1, 5, "no idea")
    judge(other.path, ["s2", "s4"], "invalid", "ann")
    for _ in range(2):
        merge_stores([one.path, other.path], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "SELECT sentence, judgement FROM verdicts") == [("s4", "invalid")]
    assert rows(tmp_path / "all.db", "SELECT sentence, run, judgement, who FROM second_verdicts") == [
        ("s2", "run-b", "invalid", "ann")
    ]


def test_two_samples_of_one_description_both_stay(tmp_path: Path) -> None:
    one, other = shard(tmp_path, "a", 0, 4), shard(tmp_path, "b", 4, 8)
    judge(one.path, ["s1"], "toxic", "ann")
    judge(other.path, ["s5"], "toxic", "ann")
    for _ in range(2):
        merge_stores([one.path, other.path], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "SELECT sample, sentence FROM sampled ORDER BY sample") == [(1, "s1"), (2, "s5")]
    assert rows(tmp_path / "all.db", "SELECT sample, sentence FROM verdicts ORDER BY sample") == [(1, "s1"), (2, "s5")]


def test_a_source_from_before_verdicts_and_second_answers_is_merged(tmp_path: Path) -> None:
    made = shard(tmp_path, "a", 0, 4)
    with closing(sqlite3.connect(made.path, isolation_level=None)) as connection:
        for kind, name in connection.execute(
            "SELECT type, name FROM sqlite_master WHERE tbl_name IN ('samples', 'sampled', 'verdicts', "
            "'second_answers', 'second_verdicts', 'conflicts', 'counting_verdicts') AND type IN ('view', 'table') "
            "ORDER BY type DESC, name DESC"
        ).fetchall():
            connection.execute(f"DROP {kind} {name}")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name > 'm001_initial'")
        assert applied(connection) == ["m001_initial"]
    assert merge_stores([made.path], tmp_path / "all.db").sources[0].answers == 4


# -- crashes and size ------------------------------------------------------------------------------------------------

MERGE = """
import sys, pathlib
from hatevolution.store.exchange.merging import merge_stores
merge_stores([pathlib.Path(p) for p in sys.argv[2:]], pathlib.Path(sys.argv[1]),
             tell=lambda what, done, total: print(what, done, flush=True))
"""


def many(folder: Path, count: int, size: int) -> list[Path]:
    """Shards that overlap: each sentence is answered several times, not always the same."""
    sets = {"set": some_sentences(size)}
    made = []
    for n in range(count):
        one = Shard(folder / f"n{n}.db", f"run-n{n}", datasets=sets)
        first = n % (size - 5)
        one.ask([(f"s{at}", f"say {n % 3}") for at in range(first, first + 5)])
        made.append(one.end().path)
    return made


@pytest.mark.parametrize("kill_at", [2, 9, 15])
def test_a_merge_that_is_killed_is_completed_by_the_next(tmp_path: Path, kill_at: int) -> None:
    sources = many(tmp_path, 16, 20)
    destination = tmp_path / "all.db"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", MERGE, str(destination), *map(str, sources)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("merging") and int(line.split()[-1]) >= kill_at:
            process.kill()
            break
    process.communicate()
    with closing(sqlite3.connect(destination)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    merge_stores(sources, destination)
    merge_stores(sources, tmp_path / "undisturbed.db")
    assert content(destination) == content(tmp_path / "undisturbed.db")


def _interrupt(pid: int) -> None:
    time.sleep(0.3)
    os.kill(pid, signal.SIGINT)


def test_ctrl_c_in_a_long_statement_is_obeyed_at_once(tmp_path: Path) -> None:
    from hatevolution.store.exchange.watch import interruptible

    timer = multiprocessing.get_context("fork").Process(target=_interrupt, args=(os.getpid(),))
    with closing(sqlite3.connect(":memory:")) as connection:
        timer.start()
        with pytest.raises(KeyboardInterrupt), interruptible(connection):
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"
            ).fetchone()
    timer.join()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thousand_shards(tmp_path: Path) -> None:
    """How long it takes, and that it is linear, is told by benchmarks/store_exchange.py."""
    sources = many(tmp_path, 1000, 200)
    report = merge_stores(sources, tmp_path / "all.db")
    assert sum(s.answers + s.kept_apart for s in report.sources) == 5000
    assert report.conflicting + sum(s.agreeing + s.answers for s in report.sources) == 5000
    again = merge_stores(sources, tmp_path / "all.db")
    assert sum(s.answers + s.kept_apart + s.responses for s in again.sources) == 0
