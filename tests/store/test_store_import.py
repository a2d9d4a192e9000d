"""The way back from an export: the same store, the same numbers; and what is refused."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from exchange_maker import Shard, content, rows, some_sentences
from store_maker import generate

from hatevolution.domain import Status
from hatevolution.errors import StoreError
from hatevolution.store import verdicts
from hatevolution.store.exchange.exporting import export_store
from hatevolution.store.exchange.importing import import_folder
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import verify_store
from hatevolution.store.verdicts import Key

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    made = Shard(
        tmp_path / "s.db",
        "run-1",
        models=("m", "n/x"),
        datasets={"set": some_sentences(40), "other": some_sentences(5, text="other {}")},
    )
    made.ask([(f"s{n}", "toxic \ud800" if n % 2 else "a\0b") for n in range(10)])
    made.ask([("s1", None)], dataset="other", body=b"\xff\xfe", name="n/x", scores={"a": 0.1, "b": 1e-9})
    made.ask([("s2", None)], dataset="other", status=Status.REFUSED, finish_reason="content_filter")
    made.ask([("s2", "a second answer")], dataset="other")
    made.intend(["s30"])
    sample = verdicts.add_sample(
        made.path, seed=1, size=2, filters={"kind": "x"}, of=9, who="ann", keys=[Key("m", "set", "s1")]
    )
    verdicts.append_verdict(made.path, sample.sample, Key("m", "set", "s1"), "invalid", "ann")
    return made.fail(["s15"]).fail(["s15"])


def test_what_was_exported_comes_back_whole(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    report = import_folder(tmp_path / "out", tmp_path / "back.db")
    assert content(tmp_path / "back.db") == content(shard.path)
    for table in ("responses", "samples", "sampled", "predictions"):
        stored, back = (rows(path, f"SELECT * FROM {table}") for path in (shard.path, tmp_path / "back.db"))
        assert sorted(back, key=repr) == sorted(stored, key=repr), table
    assert report.conflicting == 0
    assert all(check.ok for check in verify_store(tmp_path / "back.db"))
    assert not list(tmp_path.glob(".*import*"))


def test_importing_again_changes_nothing(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "back.db")
    before = content(tmp_path / "back.db")
    report = import_folder(tmp_path / "out", tmp_path / "back.db")
    assert content(tmp_path / "back.db") == before
    assert report.sources[0].answers == report.sources[0].responses == report.conflicting == 0
    assert import_folder(tmp_path / "out", shard.path).sources[0].responses == 0
    assert content(shard.path) == before


def test_an_answer_that_is_there_stays(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    mine = Shard(tmp_path / "mine.db", "run-2", datasets={"set": some_sentences(40)})
    mine.ask([("s1", "mine"), ("s39", "mine")])
    report = import_folder(tmp_path / "out", mine.path)
    assert report.conflicting == 1
    assert rows(mine.path, "SELECT raw_text FROM predictions WHERE sentence = 's1' AND dataset = 'set'") == [("mine",)]
    assert rows(mine.path, "SELECT source FROM second_answers") == [(str(tmp_path / "out"),)]


def test_second_answers_make_the_way_too(shard: Shard, tmp_path: Path) -> None:
    other = Shard(tmp_path / "t.db", "run-2", datasets={"set": some_sentences(40)})
    other.ask([("s1", "respectful"), ("s3", "toxic \ud800")])
    merge_stores([shard.path, other.path], tmp_path / "all.db")
    export_store(tmp_path / "all.db", tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "back.db")
    assert content(tmp_path / "back.db") == content(tmp_path / "all.db")
    assert len(content(tmp_path / "back.db")["second_answers"]) == 2


def test_parts_add_up_to_the_whole(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "one", models=["m"])
    export_store(shard.path, tmp_path / "two", models=["n/x"], datasets=["other"])
    export_store(shard.path, tmp_path / "all")
    for part in ("one", "two", "one", "all", "two"):
        import_folder(tmp_path / part, tmp_path / "back.db")
    assert content(tmp_path / "back.db") == content(shard.path)


def test_the_scores_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    report = pytest.importorskip("hatevolution.analysis.report")
    made = generate(tmp_path / "s.db", 1, size=40)
    export_store(made.path, tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "back.db")

    def scores(path: Path, parser: str, invalid: str) -> str:
        found = report.as_json(report.make(str(path), parser=parser, invalid=invalid))
        return json.dumps(found, sort_keys=True).replace(str(path), "STORE")

    for parser, invalid in (("paper", "drop"), ("strict", "wrong")):
        one, other = (scores(path, parser, invalid) for path in (made.path, tmp_path / "back.db"))
        assert one == other
        assert len(one) > 10_000


# -- refusals ------------------------------------------------------------------------------------------------------


def change_manifest(folder: Path, **fields: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_changed_or_missing_file_is_found_before_anything_is_written(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    target = tmp_path / "out/answers/m/set/00000.parquet"
    shutil.copy(target, tmp_path / "kept")
    target.write_bytes(target.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match=r"answers/m/set/00000\.parquet is not the file that was written"):
        import_folder(tmp_path / "out", tmp_path / "back.db")
    target.unlink()
    with pytest.raises(StoreError, match=r"lacks answers/m/set/00000\.parquet"):
        import_folder(tmp_path / "out", tmp_path / "back.db")
    assert not (tmp_path / "back.db").exists()
    assert not list(tmp_path.glob(".*import*"))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"format": "other"}, "not the manifest of an export"),
        ({"version": 99}, "newer version"),
        ({"files": "none"}, "not the manifest"),
        ({"files": [{"path": "../s.db", "table": "runs", "rows": 1, "sha256": ""}]}, "not inside it"),
        ({"files": [{"path": "/etc/hostname", "table": "runs", "rows": 1, "sha256": ""}]}, "not inside it"),
        ({"files": [{"path": "x", "table": "sqlite_master", "rows": 1, "sha256": ""}]}, "which no store has"),
    ],
)
def test_manifests_that_are_wrong_are_named(shard: Shard, tmp_path: Path, fields: dict[str, Any], text: str) -> None:
    export_store(shard.path, tmp_path / "out")
    change_manifest(tmp_path / "out", **fields)
    with pytest.raises(StoreError, match=text):
        import_folder(tmp_path / "out", tmp_path / "back.db")


def replaced(folder: Path, name: str, frame: pl.DataFrame) -> None:
    """Put another table in a file's place, with its right checksum in the manifest."""
    import hashlib

    frame.write_parquet(folder / name)
    listed = json.loads((folder / "manifest.json").read_text())
    for file in listed["files"]:
        if file["path"] == name:
            file["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(listed))


def test_tables_that_no_store_can_hold_are_named(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    name = "answers/m/set/00000.parquet"
    frame = pl.read_parquet(tmp_path / "out" / name)
    for wrong, text in (
        (frame.drop("raw_text_bytes"), "no column 'raw_text_bytes'"),
        (frame.with_columns(status=pl.lit("failed")), "can't hold: CHECK"),
        (
            frame.with_columns(model=pl.lit("nobody")),
            r"out is not complete: a row of \w+ points at a row of \w+ that it lacks",
        ),
    ):
        replaced(tmp_path / "out", name, wrong)
        with pytest.raises(StoreError, match=text):
            import_folder(tmp_path / "out", tmp_path / "back.db")
    assert not (tmp_path / "back.db").exists()


def test_a_folder_that_is_no_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no export of a store: .*manifest\.json can't be read"):
        import_folder(tmp_path, tmp_path / "back.db")
