"""The real files, where they are: sizes, labels and agreement as measured for this project."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from dataset_maker import shipped
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from hatevolution.adapters.datasets import MissingFileError, locate
from hatevolution.adapters.datasets.pairs import IDENTICAL
from hatevolution.adapters.datasets.summary import summarise
from hatevolution.configs.dataset_schema import load_dataset
from hatevolution.domain import Role, Sentence

pytestmark = pytest.mark.real_data


def sentences(name: str, folder: Path) -> list[Sentence]:
    """All sentences; the released file, and nothing to remark on it but what is known."""
    found = locate(*load_dataset(name), folder)
    rows = list(found.sentences())
    assert [warning for warning in found.warnings if "the years of the study" not in warning] == []
    assert len({row.id for row in rows}) == len(rows)
    return rows


@pytest.mark.parametrize(
    ("name", "toxic", "respectful"),
    [
        ("singapore-online-attacks", 954, 2046),
        ("neobench", 42, 638),
        ("hatexplain", 1142, 782),
        ("implicit-hate", 783, 1365),
        ("hatecheck", 2563, 1165),
        ("multilingual-hatecheck-ar", 2494, 1076),
        ("multilingual-hatecheck-de", 2550, 1095),
        ("multilingual-hatecheck-hi", 2488, 1077),
    ],
)
def test_sizes_and_labels(real_data: Path, name: str, toxic: int, respectful: int) -> None:
    counts = Counter(row.gold for row in sentences(name, real_data))
    assert counts == {"toxic": toxic, "respectful": respectful}


def test_singapore_online_attacks_by_year(real_data: Path) -> None:
    rows = sentences("singapore-online-attacks", real_data)
    toxic = Counter(row.year for row in rows if row.gold == "toxic")
    every = Counter(row.year for row in rows)
    years = range(2013, 2023)
    assert [toxic[year] for year in years] == [0, 4, 4, 6, 59, 82, 135, 189, 264, 211]
    assert [every[year] for year in years] == [3, 13, 22, 16, 120, 214, 414, 612, 867, 719]
    assert sum(every[year] for year in range(2017, 2023)) == 2946
    assert rows[0].id == "sample_11379"
    assert all(re.fullmatch(r"\d+\.0", row.meta["created_utc"]) for row in rows)
    texts = Counter(row.text for row in rows)
    assert [count for count in texts.values() if count > 1] == [2]
    found = locate(*load_dataset("singapore-online-attacks"), real_data)
    list(found.sentences())
    assert found.warnings[0].startswith("54 of the 3,000 sentences")


def test_neobench(real_data: Path) -> None:
    rows = sentences("neobench", real_data)
    neologisms = {row.pair: row for row in rows if row.role is Role.NEOLOGISM}
    originals = {row.pair: row for row in rows if row.role is Role.ORIGINAL}
    assert len(neologisms) == len(originals) == 340
    assert Counter(row.gold for row in originals.values()) == {"respectful": 319, "toxic": 21}
    assert Counter(row.type for row in originals.values()) == {"morphological": 185, "lexical": 108, "semantic": 47}
    kinds = Counter(row.meta["Linguistic Subcategory"] for row in originals.values())
    assert (kinds["novel phrase"], kinds["novel word"], kinds["new phrase"], kinds["new word"]) == (7, 54, 0, 0)
    undated = [pair for pair, row in originals.items() if row.year is None]
    assert undated == ["row-67", "row-334", "row-339"]
    by_year = Counter(row.year for row in originals.values())
    assert [by_year[year] for year in (2020, 2021, 2022, 2023)] == [106, 90, 90, 8]
    identical = [pair for pair, row in originals.items() if IDENTICAL in row.meta]
    assert identical == ["row-33", "row-289"]
    assert sum(row.text != row.text.strip() for row in neologisms.values()) == 18
    assert sum(row.text != row.text.strip() for row in originals.values()) == 17
    assert "___" in neologisms["row-236"].text
    assert "deplatform" in originals["row-186"].text  # inverted in the file; kept as it is


def test_neobench_agreement(real_data: Path) -> None:
    found = summarise(locate(*load_dataset("neobench"), real_data)).agreement
    assert found is not None
    book = openpyxl.load_workbook(real_data / "hatevolution" / "inputs experiment 2.xlsx", data_only=True)
    votes = [row[2:5] for row in book.worksheets[0].iter_rows(min_row=2, values_only=True)]
    kappas = [cohen_kappa_score(a, b) for a, b in combinations(zip(*votes, strict=True), 2)]
    assert found.mean_cohen_kappa == pytest.approx(np.mean(kappas), abs=1e-12)
    assert round(found.mean_cohen_kappa or 0, 3) == 0.670
    assert found.fleiss_kappa == pytest.approx(fleiss_kappa(aggregate_raters(np.array(votes))[0]), abs=1e-12)
    assert round(found.fleiss_kappa or 0, 3) == 0.660


def test_workbooks_are_read_as_openpyxl_reads_them(real_data: Path) -> None:
    for name, column in (("singapore-online-attacks", 1), ("hatexplain", 1), ("implicit-hate", 1)):
        found = locate(*load_dataset(name), real_data)
        book = openpyxl.load_workbook(found.files[0].path, data_only=True, read_only=True)
        cells = [(row[0], row[column]) for row in book.worksheets[0].iter_rows(min_row=2, values_only=True)]
        book.close()
        assert [(row.id, row.text) for row in found.sentences()] == cells


def test_implicit_hate_ids(real_data: Path) -> None:
    rows = sentences("implicit-hate", real_data)
    numeric = [row.id for row in rows if row.id.isdecimal()]
    assert len(numeric) == 2088
    assert sum(str(int(float(identifier))) != identifier for identifier in numeric) == 667
    others = Counter(row.id[:4] for row in rows if not row.id.isdecimal())
    assert others == {"SAP_": 47, "GAB_": 13}


def test_hatecheck(real_data: Path) -> None:
    rows = sentences("hatecheck", real_data)
    assert sum(row.text.endswith(" ") for row in rows) == 3470
    assert sum(row.target is None for row in rows) == 292
    assert len({row.functionality for row in rows}) == 29
    assert all(str(row.functionality).endswith("_nh") == (row.gold == "respectful") for row in rows)
    assert max(int(row.id) for row in rows) == 3901
    with (real_data / "hatecheck" / "test_suite_cases.csv").open(newline="", encoding="utf-8") as stream:
        assert [(row.id, row.text) for row in rows] == [(c["case_id"], c["test_case"]) for c in csv.DictReader(stream)]


def test_hatexplain_from_the_original_annotations(real_data: Path, tmp_path: Path) -> None:
    """The workbook's rows come out of `dataset.json` too; its test part is rebuilt from a third party's copy."""
    book = {row.id: row for row in sentences("hatexplain", real_data)}
    divisions = json.loads((real_data / "hatexplain" / "post_id_divisions.json").read_text(encoding="utf-8"))
    assert list(book) == divisions["test"]
    posts = copied_posts(real_data / "hatexplain" / "aflah02_hatexplain_test.csv")
    (tmp_path / "dataset.json").write_text(json.dumps(posts), encoding="utf-8")
    (tmp_path / "post_id_divisions.json").write_text(json.dumps(divisions), encoding="utf-8")
    found = shipped("hatexplain", tmp_path / "dataset.json", tmp_path / "post_id_divisions.json")
    rows = list(found.sentences())
    assert [row.id for row in rows] == list(book)
    assert [row.gold for row in rows] == [row.gold for row in book.values()]
    assert Counter(row.gold_raw for row in rows) == {"normal": 782, "hatespeech": 594, "offensive": 548}
    # The copy has lost the quotes of 17 posts; those of all others are the workbook's texts.
    assert sum(row.text == book[row.id].text for row in rows) >= 1907


def copied_posts(path: Path) -> dict[str, object]:
    """Posts as in `dataset.json`, from a CSV file that holds the printed form of NumPy arrays."""
    classes = ("hatespeech", "normal", "offensive")
    posts: dict[str, object] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            labels = [
                classes[int(number)]
                for number in re.findall(r"'label': array\(\[([^\]]*)", row["annotators"])[0].split(",")
            ]
            tokens = ast.literal_eval(re.sub(r"'\s*\n?\s*'", "', '", row["post_tokens"]))
            posts[row["id"]] = {
                "annotators": [{"label": label, "target": []} for label in labels],
                "post_tokens": tokens,
            }
    return posts


def test_dynabench_is_missing_and_says_where_to_get_it(real_data: Path) -> None:
    with pytest.raises(
        MissingFileError, match=r"'Dynamically Generated Hate Dataset v0\.2\.3\.csv', which is not below"
    ):
        locate(*load_dataset("dynabench"), real_data)


def test_dynabench_in_its_real_format(real_data: Path, tmp_path: Path) -> None:
    excerpt = real_data / "dynabench" / "format_sample_v0.2.3.csv"
    path = tmp_path / "Dynamically Generated Hate Dataset v0.2.3.csv"
    path.write_bytes(excerpt.read_bytes())
    with path.open(newline="", encoding="utf-8") as stream:
        test = [row for row in csv.DictReader(stream) if row["split"] == "test"]
    rows = list(shipped("dynabench", path).sentences())
    assert [(row.id, row.text, row.gold_raw) for row in rows] == [(r["acl.id"], r["text"], r["label"]) for r in test]
    assert rows
