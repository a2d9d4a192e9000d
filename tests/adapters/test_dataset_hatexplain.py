"""HateXplain from its authors' files: the same ids, texts and labels as the study's workbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dataset_maker import Cell, shipped, write_xlsx

from hatevolution.adapters.datasets import MissingFileError, locate
from hatevolution.configs.dataset_schema import load_dataset
from hatevolution.domain import Label
from hatevolution.errors import DataError

Post = tuple[str, list[str], list[tuple[str, list[str]]]]

POSTS: list[Post] = [
    ("77_gab", ["<user>", "what", "a", "day"], [("normal", ["None"]), ("normal", ["None"]), ("offensive", ["Other"])]),
    ("12_twitter", ["go", "away"], [("hatespeech", ["Old", "Old"]), ("offensive", ["Old"]), ("offensive", ["Young"])]),
    ("9_nf_4", ["it's", "\U0001f600", "fine"], [("normal", ["None"]), ("hatespeech", ["Old"]), ("normal", ["None"])]),
    ("train_1", ["not", "for", "the", "test"], [("normal", []), ("normal", []), ("normal", [])]),
    ("nobody_1", ["undecided"], [("normal", []), ("hatespeech", []), ("offensive", [])]),
]


def originals(folder: Path, posts: list[Post] = POSTS, /, **divisions: list[str]) -> tuple[Path, Path]:
    data: dict[str, Any] = {
        key: {
            "post_id": key,
            "annotators": [{"label": label, "annotator_id": 1, "target": target} for label, target in votes],
            "rationales": [],
            "post_tokens": tokens,
        }
        for key, tokens, votes in posts
    }
    posts_path, divisions_path = folder / "dataset.json", folder / "post_id_divisions.json"
    posts_path.write_text(json.dumps(data), encoding="utf-8")
    split = divisions or {"train": ["train_1"], "val": [], "test": ["12_twitter", "9_nf_4", "77_gab"]}
    divisions_path.write_text(json.dumps(split), encoding="utf-8")
    return posts_path, divisions_path


def test_the_test_division_in_its_order(tmp_path: Path) -> None:
    first, second, third = shipped("hatexplain", *originals(tmp_path)).sentences()
    assert [s.id for s in (first, second, third)] == ["12_twitter", "9_nf_4", "77_gab"]
    assert [s.text for s in (first, second, third)] == ["go away", "it's \U0001f600 fine", "<user> what a day"]
    # Offensive is toxic too; classes go by their names and not by their numbers, which are alphabetical.
    assert [s.gold for s in (first, second, third)] == [Label.TOXIC, Label.RESPECTFUL, Label.RESPECTFUL]
    assert [s.gold_raw for s in (first, second, third)] == ["offensive", "normal", "normal"]
    assert [s.target for s in (first, second, third)] == ["Old", None, None]
    assert first.meta == {"annotator 1": "hatespeech", "annotator 2": "offensive", "annotator 3": "offensive"}


def test_both_releases_give_the_same_ids_texts_and_labels(tmp_path: Path) -> None:
    json_folder, book_folder = tmp_path / "json", tmp_path / "xlsx"
    json_folder.mkdir()
    book_folder.mkdir()
    from_json = list(shipped("hatexplain", *originals(json_folder)).sentences())
    rows: list[list[Cell]] = [["ID", "cleaned_text", "label"]]
    rows += [[s.id, s.text, str(s.gold)] for s in from_json]
    book = write_xlsx(book_folder / "HateXplain_testset.xlsx", "Foglio1", rows)
    from_book = list(shipped("hatexplain", book).sentences())
    assert [(s.id, s.text, s.gold) for s in from_book] == [(s.id, s.text, s.gold) for s in from_json]


def test_the_workbook_is_preferred_and_either_will_do(tmp_path: Path) -> None:
    config, path = load_dataset("hatexplain")
    with pytest.raises(
        MissingFileError,
        match=r"'HateXplain_testset.xlsx' or 'dataset.json' and 'post_id_divisions.json', which is not",
    ):
        locate(config, path, tmp_path)
    posts, divisions = originals(tmp_path)
    assert [file.name for file in locate(config, path, tmp_path).files] == [posts.name, divisions.name]
    (tmp_path / "deep").mkdir()
    book = write_xlsx(tmp_path / "deep" / "HateXplain_testset.xlsx", "Foglio1", [["ID", "cleaned_text", "label"]])
    assert [file.path for file in locate(config, path, tmp_path).files] == [book]
    book.unlink()
    posts.unlink()
    with pytest.raises(MissingFileError):
        locate(config, path, tmp_path)


@pytest.mark.parametrize(
    ("divisions", "message"),
    [
        ({"test": ["12_twitter", "unknown_1"]}, "has no post 'unknown_1', which post_id_divisions.json puts into test"),
        ({"test": ["nobody_1"]}, "post nobody_1: no label has a majority among normal, hatespeech, offensive"),
        ({"validation": ["12_twitter"]}, "has no division 'test'; it has validation"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, divisions: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(shipped("hatexplain", *originals(tmp_path, **divisions)).sentences())


def test_an_unknown_class_is_refused(tmp_path: Path) -> None:
    posts: list[Post] = [("1_gab", ["a"], [("normal", []), ("normal", []), ("spam", [])])]
    with pytest.raises(
        DataError, match="post 1_gab: the label 'spam' is not one of 'hatespeech', 'offensive', 'normal'"
    ):
        list(shipped("hatexplain", *originals(tmp_path, posts, test=["1_gab"])).sentences())


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"1": {"post_tokens": "a b"}}', "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    posts, divisions = originals(tmp_path)
    posts.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"dataset\.json is not the JSON file that HateXplain released: "):
        list(shipped("hatexplain", posts, divisions).sentences())


def test_an_empty_division_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="would be an empty data set"):
        list(shipped("hatexplain", *originals(tmp_path, test=[])).sentences())
