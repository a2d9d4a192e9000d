"""The four figures of one example, and cases small enough to count by hand.

100 sentences, half of each class; 5 answers to toxic ones can't be parsed (and differ), all others are right. Macro F1:
over the raw strings 0.278, with one class for invalid answers 0.649, with the two labels alone 0.974, with the invalid
answers left out 1.000 (scikit-learn).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_maker import MadePrediction, MadeSentence, Maker

from hatevolution.analysis.frames import load
from hatevolution.analysis.metrics import InvalidPolicy
from hatevolution.analysis.scores import scores

if TYPE_CHECKING:
    from pathlib import Path

GOLDS = ["toxic"] * 50 + ["respectful"] * 50


@pytest.mark.parametrize(
    ("policy", "value"),
    [("raw", 0.278), ("class", 0.649), ("wrong", 0.974), ("drop", 1.000), ("worst", 0.950), ("best", 1.000)],
)
def test_five_unparsable_answers(tmp_path: Path, policy: InvalidPolicy, value: float) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    maker.dataset("d", [MadeSentence(id=str(i), gold=gold) for i, gold in enumerate(GOLDS)])
    maker.predictions(
        MadePrediction(
            model="m",
            dataset="d",
            sentence=str(i),
            outcome="invalid" if i < 5 else gold,
            raw_text=f"junk {i}" if i < 5 else gold,
        )
        for i, gold in enumerate(GOLDS)
    )
    frame = scores(load(maker.done().path), policy)
    row = next(row for row in frame.iter_rows(named=True) if row["metric"] == "macro_f1")
    assert round(row["value"], 3) == value
    assert (row["n"], row["scored"], row["invalid"]) == (100, 95, 5)


def test_a_set_of_one_class_has_no_macro_f1(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    maker.dataset("d", [MadeSentence(id=str(i), gold="toxic") for i in range(4)])
    maker.answers("m", "d", ["toxic"] * 4)
    found = {row["metric"]: row for row in scores(load(maker.done().path)).iter_rows(named=True)}
    assert found["macro_f1"]["value"] is None
    assert found["macro_f1"]["reason"] == "no respectful sentence among those that count"
    assert found["f1_hateful"]["value"] == 1.0
    assert found["accuracy"]["value"] == 1.0


def test_refused_and_missing_are_neither_answers_nor_hallucinations(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    outcomes = ["toxic", "invalid", "refused", "rejected", "missing", "respectful"]
    maker.dataset("d", [MadeSentence(id=str(i), gold=gold) for i, gold in enumerate(["toxic"] * 5 + ["respectful"])])
    maker.answers("m", "d", outcomes)
    found = {row["metric"]: row for row in scores(load(maker.done().path)).iter_rows(named=True)}
    assert found["macro_f1"]["value"] == 1.0
    assert found["expected_output"]["value"] == 2 / 5  # of the five rows there are
    coverage = ("n", "scored", "invalid", "refused", "rejected", "missing")
    assert [found["macro_f1"][name] for name in coverage] == [6, 2, 1, 1, 1, 1]


def test_pairs_by_hand(tmp_path: Path) -> None:
    """Ten pairs: flips 1 of 3 scored; hallucination 2, either 5, counterfactual 4 of 8 answered."""
    both = [
        ("toxic", "toxic"), ("toxic", "respectful"), ("respectful", "respectful"),
        ("toxic", "invalid"), ("respectful", "invalid"), ("invalid", "toxic"),
        ("invalid", "invalid"), ("invalid", "invalid"), ("refused", "toxic"), ("toxic", "missing"),
    ]  # fmt: skip
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    maker.dataset(
        "d",
        [
            MadeSentence(id=f"{i}{role}", pair=str(i), role=role)
            for i in range(10)
            for role in ("original", "neologism")
        ],
    )
    maker.answers("m", "d", [outcome for pair in both for outcome in pair])
    found = {
        row["metric"]: row for row in scores(load(maker.done().path)).iter_rows(named=True) if row["group_key"] is None
    }
    assert found["label_flip"]["value"] == 1 / 3
    assert found["label_flip_of_all"]["value"] == 1 / 8
    assert found["hallucination"]["value"] == 2 / 8
    assert found["hallucination_any"]["value"] == 5 / 8
    assert found["hallucination_counterfactual"]["value"] == 4 / 8
    row = found["label_flip"]
    assert [row[name] for name in ("n", "scored", "invalid", "refused", "rejected", "missing")] == [10, 3, 5, 1, 0, 1]
