"""Files of data sets: found by name at any depth, told apart by checksum, missing with one clear sentence."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from dataset_maker import COLUMNS, LABELS, config_for, write_csv

from hatevolution.adapters.datasets import LocatedDataset, MissingFileError, locate
from hatevolution.configs.dataset_schema import DatasetConfig, Size, SourceFile, load_dataset
from hatevolution.errors import DataError

HEADER = ["id", "text", "label"]


def config(sha256: str | None = None, size: int | None = None, /, **said: object) -> DatasetConfig:
    known: dict[str, object] = {"name": "there", "columns": COLUMNS, "labels": LABELS}
    source = SourceFile(name="the file.csv", url="https://example.org/the%20file.csv", sha256=sha256, bytes=size)
    return DatasetConfig(**{**known, "files": (source,), **said})  # type: ignore[arg-type]


def find(folder: Path | None, sha256: str | None = None, **said: object) -> LocatedDataset:
    return locate(config(sha256, **said), Path("there.toml"), folder)


def put(path: Path, text: str = "a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_csv(path, HEADER, [["1", text, "0"]])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_found_at_any_depth_with_its_checksum(tmp_path: Path) -> None:
    path = put(tmp_path / "a" / "b" / "c" / "the file.csv")
    put(tmp_path / "a" / "The File.csv")
    put(tmp_path / "a" / "the file.csv.part")
    found = find(tmp_path, digest(path), title="There", licence="CC0", source="https://example.org")
    (file,) = found.files
    assert (file.name, file.path, file.sha256, file.bytes) == ("the file.csv", path, digest(path), path.stat().st_size)
    assert (found.name, found.title, found.licence, found.source) == ("there", "There", "CC0", "https://example.org")
    assert found.warnings == []
    assert [sentence.text for sentence in found.sentences()] == ["a"]


def test_equal_copies_are_one_file_and_the_choice_is_fixed(tmp_path: Path) -> None:
    put(tmp_path / "z" / "the file.csv")
    first = put(tmp_path / "b" / "the file.csv")
    assert find(tmp_path).files[0].path == first
    top = put(tmp_path / "the file.csv")
    assert find(tmp_path).files[0].path == top


def test_different_files_of_one_name_are_one_clear_error(tmp_path: Path) -> None:
    put(tmp_path / "a" / "the file.csv", "one")
    right = put(tmp_path / "b" / "the file.csv", "two")
    told = r"2 different files named 'the file.csv' \(a/the file.csv, b/the file.csv\), and none has the checksum"
    with pytest.raises(DataError, match=told):
        find(tmp_path)
    assert find(tmp_path, digest(right)).files[0].path == right  # the released one is meant
    assert find(tmp_path / "a").files[0].path == tmp_path / "a" / "the file.csv"


def test_links_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    path = put(tmp_path / "elsewhere" / "the file.csv")
    data = tmp_path / "data"
    data.mkdir()
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "circle").symlink_to(data)
    (data / "dangling").symlink_to(tmp_path / "nowhere")
    found = find(data)
    assert found.files[0].path == data / "linked" / "the file.csv"
    assert found.files[0].sha256 == digest(path)


def test_a_folder_of_the_files_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "the file.csv").mkdir()
    with pytest.raises(MissingFileError):
        find(tmp_path)


def test_a_missing_file_says_what_where_and_where_from(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    with pytest.raises(MissingFileError) as caught:
        find(folder)
    assert str(caught.value) == (
        f"The data set there needs the file 'the file.csv', which is not below {folder}; get it with "
        f"`hatevolution data fetch there --data '{folder}'`, or from https://example.org/the%20file.csv"
    )
    with pytest.raises(
        MissingFileError, match="no folder to look in was given with --data; get it with `hatevolution data"
    ):
        find(None)
    no_url = (SourceFile(name="x.csv"),)
    with pytest.raises(MissingFileError, match=r"get it from https://example\.org$"):
        find(tmp_path, files=no_url, source="https://example.org")
    with pytest.raises(MissingFileError, match="its configuration does not say where to get it"):
        find(tmp_path, files=no_url)


def test_a_file_other_than_the_released_one_is_a_warning(tmp_path: Path) -> None:
    path = put(tmp_path / "the file.csv")
    found = find(tmp_path, "0" * 64)
    (warning,) = found.warnings
    assert warning.startswith(f"{path} is not the released file: its sha256 begins {digest(path)[:12]}")
    (warning,) = locate(config(None, 17), Path("x.toml"), tmp_path).warnings
    assert warning == f"{path} has {path.stat().st_size} bytes, the released file 17."


def test_sizes_other_than_expected_are_warnings_once_all_is_read(tmp_path: Path) -> None:
    put(tmp_path / "the file.csv")
    found = find(tmp_path, expected=Size(sentences=2, toxic=1, respectful=1))
    assert found.expected_rows == 2
    rows = found.sentences()
    assert found.warnings == []
    assert len(list(rows)) == 1
    assert found.warnings == [
        "there has 1 sentences here, and 2 as released.",
        "there has 0 toxic sentences here, and 1 as released.",
    ]


def test_a_path_is_relative_to_the_toml_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "sets" / "files" / "mine.csv")
    (tmp_path / "sets" / "mine.toml").write_text(
        'name = "mine"\nformat = "csv"\npath = "files/mine.csv"\n'
        '[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    found = locate(*load_dataset("sets/mine.toml"), None)
    assert [(s.id, s.text, s.gold) for s in found.sentences()] == [("1", "a", "respectful")]
    (tmp_path / "sets" / "files" / "mine.csv").unlink()
    with pytest.raises(
        MissingFileError, match=r"The data set mine needs sets/files/mine\.csv, and there is no such file"
    ):
        locate(*load_dataset("sets/mine.toml"), None)


def test_an_absolute_path_and_one_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "mine.csv")
    assert locate(config_for(path), Path("/nowhere/x.toml"), None).files[0].path == path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(config_for(Path("~/mine.csv")), Path("/nowhere/x.toml"), None).files[0].path == path


def test_the_loader_names_all_that_decides_the_rows_and_is_plain_json(tmp_path: Path) -> None:
    put(tmp_path / "the file.csv")
    first = find(tmp_path).loader
    assert json.loads(json.dumps(first)) == first
    assert first["loader"] == "table"
    assert first["version"] == 1
    assert first["columns"] == {"id": "id", "text": "text", "label": "label"}
    same = find(tmp_path, title="Other", licence="CC0", note="x", expected=Size(sentences=7)).loader
    assert same == first
    for change in ({"filters": {"label": ("0",)}}, {"replace": {"text": {"a": "b"}}}, {"encoding": "utf-8"}):
        assert find(tmp_path, **change).loader != first


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    put(tmp_path / "the file.csv").chmod(0)
    with pytest.raises(DataError, match=r"the file\.csv can't be read: Permission denied"):
        find(tmp_path)


def test_a_file_that_vanishes_is_one_sentence(tmp_path: Path) -> None:
    for name in ("the file.csv", "a.jsonl", "a.parquet", "a.xlsx"):
        path = put(tmp_path / name)
        found = find(tmp_path) if name == "the file.csv" else locate(config_for(path), path, None)
        path.unlink()
        with pytest.raises(DataError, match="can't be read"):
            list(found.sentences())
