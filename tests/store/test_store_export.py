"""Exports: what stands where, what files say of themselves, and nothing half written."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from exchange_maker import PROMPT, Shard, rows, some_sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from hatevolution.domain import Status
from hatevolution.errors import StoreError
from hatevolution.store.exchange import frames
from hatevolution.store.exchange.exporting import export_store
from hatevolution.store.exchange.frames import Column, frame_of, parts_of, rows_of
from hatevolution.store.exchange.layout import Names, split_name
from hatevolution.store.text import encode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    made = Shard(
        tmp_path / "s.db",
        "run-1",
        models=("m", "flan/t5 xl", "M"),
        datasets={"set": some_sentences(20), "other-set": some_sentences(5), "other_set": some_sentences(2),
                  "empty": []},
    )  # fmt: skip
    made.ask([(f"s{n}", "toxic") for n in range(10)])
    made.ask([("s1", "\ud800 \0")], dataset="other-set", body=b"\xff\xfe", name="flan/t5 xl", scores={"a": 0.1})
    made.ask([("s2", None)], dataset="other-set", status=Status.REFUSED, name="M")
    return made.fail(["s15"])


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def configs(folder: Path) -> dict[str, dict[str, str]]:
    """Read the head of the page as YAML would be: configuration -> split -> pattern of files."""
    head = (folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    found: dict[str, dict[str, str]] = {}
    name = split = ""
    for key, value in re.findall(r'(config_name|split|path): "(.*)"', head):
        if key == "config_name":
            name = value
            found[name] = {}
        elif key == "split":
            split = value
        else:
            found[name][split] = value
    return found


def test_one_configuration_a_model_and_one_split_a_data_set(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    found = configs(tmp_path / "out")
    flan = "flan_t5_xl-" + hashlib.sha256(b"flan/t5 xl").hexdigest()[:8]
    upper = "M-" + hashlib.sha256(b"M").hexdigest()[:8]
    assert {name: sorted(splits) for name, splits in found.items()} == {
        "sentences": ["other_set", "other_set_" + hashlib.sha256(b"other_set").hexdigest()[:8], "set"],
        "m": ["set"],
        flan: ["other_set"],
        upper: ["other_set"],
    }
    for splits in found.values():
        for split, pattern in splits.items():
            assert re.fullmatch(r"\w+", split)
            assert list((tmp_path / "out").glob(pattern)), pattern
    assert found["m"]["set"] == "answers/m/set/*.parquet"
    answers = pl.read_parquet(tmp_path / "out/answers/m/set/00000.parquet").to_dicts()
    assert [(row["sentence"], row["raw_text"], row["gold"]) for row in answers[:2]] == [
        ("s0", "toxic", "toxic"),
        ("s1", "toxic", "toxic"),
    ]
    assert {split: str(pattern).split("/")[-2] for split, pattern in found["sentences"].items()}[
        "other_set"
    ] == "other-set"


def test_bytes_and_odd_texts_are_there_twice(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out")
    folder = next((tmp_path / "out/answers").glob("flan*")) / "other-set"
    (answer,) = pl.read_parquet(folder / "00000.parquet").to_dicts()
    assert answer["raw_text"] == "\ufffd\ufffd\ufffd \0"
    assert answer["raw_text_bytes"] == b"\xed\xa0\x80 \0"
    assert json.loads(answer["scores"]) == {"a": 0.1}
    (response,) = pl.read_parquet(tmp_path / "out/responses" / folder.parent.name / "other-set").to_dicts()
    assert (response["body"], response["body_bytes"]) == ("\ufffd\ufffd", b"\xff\xfe")
    assert response["latency_s"] == rows(shard.path, "SELECT latency_s FROM responses WHERE response = 4")[0][0]


def test_files_say_what_they_are_and_the_manifest_has_their_checksums(shard: Shard, tmp_path: Path) -> None:
    result = export_store(shard.path, tmp_path / "out")
    listed = manifest(tmp_path / "out")
    on_disk = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet")}
    assert on_disk == {file["path"] for file in listed["files"]}
    assert (result.files, result.bytes) == (len(on_disk), sum(file["bytes"] for file in listed["files"]))
    for file in listed["files"]:
        data = (tmp_path / "out" / file["path"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (file["sha256"], file["bytes"])
        about = json.loads(pl.read_parquet_metadata(tmp_path / "out" / file["path"])["hatevolution"])
        assert about["table"] == file["table"]
        assert pl.read_parquet(tmp_path / "out" / file["path"]).height == file["rows"]
    about = json.loads(pl.read_parquet_metadata(tmp_path / "out/answers/m/set/00000.parquet")["hatevolution"])
    ((fingerprint, sha256),) = rows(
        shard.path, "SELECT fingerprint, content_sha256 FROM models, datasets WHERE model = 'm' AND dataset = 'set'"
    )
    assert about["model"]["fingerprint"] == fingerprint
    assert about["model"]["specification"]["prompt"]["before"] == PROMPT.before
    assert about["dataset"]["content_sha256"] == sha256
    assert about["dataset"]["licence"] == "MIT"
    assert about["versions"] == [{}]
    assert listed["rows"]["predictions"] == 12


def test_the_same_store_gives_the_same_files(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "one")
    export_store(shard.path, tmp_path / "two")
    assert manifest(tmp_path / "one")["files"] == manifest(tmp_path / "two")["files"]


def test_only_some_models_or_sets(shard: Shard, tmp_path: Path) -> None:
    export_store(shard.path, tmp_path / "out", models=["m"], datasets=["set"])
    listed = manifest(tmp_path / "out")
    assert (list(listed["models"]), list(listed["datasets"]), listed["everything"]) == (["m"], ["set"], False)
    assert listed["rows"]["failures"] == 1
    assert listed["rows"]["sentences"] == 20
    with pytest.raises(StoreError, match=r"no data set named 'sat'; it has: set, other-set, other_set"):
        export_store(shard.path, tmp_path / "more", datasets=["sat"])


def test_long_tables_are_cut_into_parts(shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_ROWS", 7)
    export_store(shard.path, tmp_path / "out")
    parts = sorted((tmp_path / "out/sentences/set").iterdir())
    assert [pl.read_parquet(part).height for part in parts] == [7, 7, 6]
    positions = [row["position"] for part in parts for row in pl.read_parquet(part).to_dicts()]
    assert positions == list(range(20))


def test_big_values_end_a_part_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_SIZE", 100)
    assert [len(part) for part in parts_of([("x" * 60, b"")] * 5)] == [2, 2, 1]
    assert list(parts_of([])) == [[]]


@pytest.mark.parametrize("kind", ["file", "full folder", "link"])
def test_nothing_is_written_into_what_is_there(shard: Shard, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "link":
        out.symlink_to(tmp_path)
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        export_store(shard.path, out)


def test_an_empty_folder_is_taken_and_a_failed_export_leaves_none(
    shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    export_store(shard.path, tmp_path / "out")
    assert (tmp_path / "out/manifest.json").is_file()

    def full(*_args: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polars.DataFrame.write_parquet", full)
    with pytest.raises(StoreError, match=r"can't be written: No space left"):
        export_store(shard.path, tmp_path / "next")
    assert sorted(path.name for path in tmp_path.iterdir() if "next" in path.name) == []


def test_a_store_without_answers_or_sets_is_exported(tmp_path: Path) -> None:
    Shard(tmp_path / "s.db", "run-1", datasets={})
    export_store(tmp_path / "s.db", tmp_path / "out")
    assert configs(tmp_path / "out") == {}
    assert manifest(tmp_path / "out")["rows"]["models"] == 1


ANY = [Column("a", "ANY"), Column("n", "INTEGER"), Column("x", "REAL"), Column("t", "TEXT")]
texts = st.text(st.characters(exclude_categories=()), max_size=20).map(encode) | st.binary(max_size=9) | st.none()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            texts.map(lambda value: value if not isinstance(value, bytes) else encode_again(value)),
            st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.floats(allow_nan=False) | st.none(),
            st.text() | st.none(),
        ),
        max_size=9,
    )
)
def test_every_value_comes_back(values: list[tuple[Any, ...]]) -> None:
    assert list(rows_of(ANY, frame_of(ANY, values), "here")) == values


def encode_again(value: bytes) -> str | bytes:
    """What a store holds for bytes: text where they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200), unique=True))
def test_names_of_folders_are_plain_and_different(found: list[str]) -> None:
    names = Names("sentences")
    folders = [names.of(name) for name in found]
    assert len({folder.casefold() for folder in folders} | {"sentences"}) == len(found) + 1
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", folder) and len(folder) < 100 for folder in folders)
    assert [names.of(name) for name in found] == folders
    taken: set[str] = set()
    splits = [split_name(folder, taken) for folder in folders]
    assert len(set(splits)) == len(found)
    assert all(re.fullmatch(r"\w+", split) for split in splits)
