"""Pairs in one row, as NeoBench has them; and how far their annotators agree."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from dataset_maker import Cell, Formula, located, read, shipped, write_csv, write_xlsx
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from hatevolution.adapters.datasets.agreement import annotator_agreement
from hatevolution.adapters.datasets.pairs import IDENTICAL
from hatevolution.adapters.datasets.summary import summarise
from hatevolution.configs.dataset_schema import Columns
from hatevolution.domain import Label, Role
from hatevolution.errors import DataError

HEADER: list[Cell] = [
    "Sentence 1",
    "Sentence 2",
    "Annotator 1",
    "Annotator 2",
    "Annotator 3",
    "Label",
    "Year",
    "Linguistic Type",
    "Linguistic Subcategory",
]
H, N = "hateful", "non-hateful"
BROKEN = '=IF(C2=D2, C2, _xludf.IF(C2=E2, C2, _xludf.IF(D2=E2, D2, "No Majority")))'


def neobench(folder: Path, *rows: list[Cell]) -> Path:
    return write_xlsx(folder / "inputs experiment 2.xlsx", "reddit subset", [HEADER, *rows])


def test_a_row_becomes_original_and_neologism(tmp_path: Path) -> None:
    path = neobench(
        tmp_path,
        [" a doomscroller ", "a reader ", N, N, H, Formula(BROKEN, N), 2021, "lexical", "new word"],
        ["x ___ y", "x y", H, N, H, H, "No Date", "Semantic", "new phrase"],
    )
    found = shipped("neobench", path)
    one, two, three, four = found.sentences()
    assert (one.id, one.role, one.text) == ("row-2-original", Role.ORIGINAL, "a reader ")
    assert (two.id, two.role, two.text) == ("row-2-neologism", Role.NEOLOGISM, " a doomscroller ")
    assert one.pair == two.pair == "row-2"
    assert one.gold is two.gold is Label.RESPECTFUL
    assert (one.gold_raw, one.year, one.type) == (N, 2021, "lexical")
    assert one.meta == {"Annotator 1": N, "Annotator 2": N, "Annotator 3": H, "Linguistic Subcategory": "novel word"}
    assert (three.pair, three.gold, three.year, three.type) == ("row-3", Label.TOXIC, None, "semantic")
    assert four.text == "x ___ y"
    assert four.meta["Linguistic Subcategory"] == "novel phrase"
    # The majority agreed with the label of both rows; the warnings are about the made-up file and its size only.
    assert not [warning for warning in found.warnings if "majority" in Path(warning).name]


def test_the_majority_decides_and_a_label_that_differs_is_reported(tmp_path: Path) -> None:
    path = neobench(
        tmp_path,
        ["a", "b", H, H, N, Formula(BROKEN, "#NAME?"), 2020, "lexical", "blend"],
        ["c", "d", N, N, N, N, 2020, "lexical", "blend"],
        ["e", "f", N, N, H, H, 2020, "lexical", "blend"],
        ["g", "h", H, H, H, Formula(BROKEN, None), 2020, "lexical", "blend"],
    )
    found = shipped("neobench", path)
    golds = [sentence.gold for sentence in found.sentences()]
    assert golds == [Label.TOXIC] * 2 + [Label.RESPECTFUL] * 4 + [Label.TOXIC] * 2
    told = (
        "In 3 rows (2, 4, 5) of inputs experiment 2.xlsx, 'Label' is not what most annotators say; the majority is "
        "used."
    )
    assert found.warnings.count(told) == 1
    list(found.sentences())
    assert found.warnings.count(told) == 1  # read twice, told once


def test_identical_pairs_are_kept_and_marked(tmp_path: Path) -> None:
    path = neobench(
        tmp_path,
        ["the same", "the same", N, N, N, N, 2020, "lexical", "blend"],
        ["the same ", "the same", N, N, N, N, 2020, "lexical", "blend"],
    )
    sentences = list(shipped("neobench", path).sentences())
    assert [sentence.meta.get(IDENTICAL) for sentence in sentences] == ["true", "true", None, None]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["a", "b", N, "maybe", N, N, 2020, "lexical", "x"], "row 2: the label in 'Annotator 2' is 'maybe'"),
        (["a", "b", N, None, N, N, 2020, "lexical", "x"], "row 2: the label in 'Annotator 2' is empty"),
        (["a", "b", N, N, N, N, "2O20", "lexical", "x"], "row 2: '2O20' is not a year such as 2021"),
    ],
)
def test_a_bad_pair_is_named(tmp_path: Path, row: list[Cell], message: str) -> None:
    with pytest.raises(DataError, match=rf"inputs experiment 2\.xlsx, {message}"):
        list(shipped("neobench", neobench(tmp_path, row)).sentences())


PAIR_COLUMNS = Columns(id="id", original="o", neologism="n", label="label")


def test_pairs_of_a_users_own(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["id", "o", "n", "label"], [["p1", "a", "b", "1"], ["p2", "c", "d", "0"]])
    sentences = read(path, loader="pairs", columns=PAIR_COLUMNS)
    assert [(s.id, s.pair, s.gold) for s in sentences] == [
        ("p1-original", "p1", "toxic"),
        ("p1-neologism", "p1", "toxic"),
        ("p2-original", "p2", "respectful"),
        ("p2-neologism", "p2", "respectful"),
    ]
    unlabelled = read(path, loader="pairs", columns=Columns(original="o", neologism="n"))
    assert [(s.id, s.gold) for s in unlabelled][:2] == [("row-2-original", None), ("row-2-neologism", None)]


def test_an_even_vote_is_no_gold_label(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["o", "n", "a1", "a2"], [["a", "b", "1", "1"], ["c", "d", "1", "0"]])
    columns = Columns(original="o", neologism="n", annotators=("a1", "a2"))
    with pytest.raises(DataError, match="row 3: 1 of 2 annotators say toxic, so there is no majority"):
        read(path, loader="pairs", columns=columns)


def test_a_pair_in_two_rows_is_a_plain_table(tmp_path: Path) -> None:
    rows = [["1", "a", "0", "p1", "original"], ["2", "b", "0", "p1", "neologism"]]
    path = write_csv(tmp_path / "a.csv", ["id", "text", "label", "pair", "role"], rows)
    sentences = read(path, columns=Columns(id="id", text="text", label="label", pair="pair", role="role"))
    assert [(s.pair, s.role) for s in sentences] == [("p1", Role.ORIGINAL), ("p1", Role.NEOLOGISM)]


def test_the_summary_counts_pairs_and_agreement(tmp_path: Path) -> None:
    votes = [[H, H, H], [N, N, H], [N, N, N], [H, N, H]]
    rows: list[list[Cell]] = [[f"a{n}", f"b{n}", *three, N, 2020 + n, "lexical", "x"] for n, three in enumerate(votes)]
    summary = summarise(shipped("neobench", neobench(tmp_path, *rows)))
    assert (summary.sentences, summary.pairs, summary.toxic, summary.respectful) == (8, 4, 4, 4)
    assert summary.years == {2020: 2, 2021: 2, 2022: 2, 2023: 2}
    assert summary.agreement is not None
    assert summary.agreement.items == 4
    columns = list(zip(*votes, strict=True))
    kappas = [cohen_kappa_score(a, b) for a, b in combinations(columns, 2)]
    assert summary.agreement.mean_cohen_kappa == pytest.approx(np.mean(kappas), abs=1e-12)


@settings(deadline=None)
@given(
    st.integers(2, 5).flatmap(
        lambda raters: st.lists(
            st.lists(st.sampled_from("abc"), min_size=raters, max_size=raters), min_size=2, max_size=12
        )
    )
)
def test_agreement_is_that_of_scikit_learn_and_statsmodels(votes: list[list[str]]) -> None:
    found = annotator_agreement(votes)
    if len(Counter(vote for item in votes for vote in item)) == 1:
        assert (found.mean_cohen_kappa, found.fleiss_kappa) == (None, None)  # all by chance: 0 / 0
        return
    table, _ = aggregate_raters(np.array(votes))
    assert found.fleiss_kappa == pytest.approx(fleiss_kappa(table), abs=1e-9)
    columns = list(zip(*votes, strict=True))
    if all(len(set(a) | set(b)) > 1 for a, b in combinations(columns, 2)):
        kappas = [cohen_kappa_score(a, b) for a, b in combinations(columns, 2)]
        assert found.mean_cohen_kappa == pytest.approx(np.mean(kappas), abs=1e-9)
    else:
        assert found.mean_cohen_kappa is None


def test_a_rows_lacking_sentence_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"o": "a", "n": null}\n', encoding="utf-8")
    with pytest.raises(DataError, match="row 1: there is no text in 'n'"):
        read(path, loader="pairs", columns=Columns(original="o", neologism="n"))
    assert located(path, loader="pairs", columns=Columns(original="o", neologism="n")).loader["loader"] == "pairs"
