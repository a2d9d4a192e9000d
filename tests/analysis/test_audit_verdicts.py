"""Samples, and how policies compare with people."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from audit_maker import spoken_store
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint
from store_maker import CLASS_NAMES, MadePrediction, MadeSentence, Maker

from hatevolution.analysis.audit.agreement import agreements, wilson
from hatevolution.analysis.audit.sampling import draw
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.store.reader import connect
from hatevolution.store.verdicts import Key

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [Key("m", "d", str(number)) for number in range(200)]


@settings(max_examples=40)
@given(st.integers(1, 250), st.integers(0, 50), st.integers(-9, 10**9), st.integers(0, 99))
def test_a_sample_is_a_prefix_of_a_larger_one_whatever_the_order(size: int, more: int, seed: int, order: int) -> None:
    shuffled = random.Random(order).sample(KEYS, len(KEYS))
    few, many = draw(KEYS, size, seed), draw(shuffled, size + more, seed)
    assert many.keys[: len(few.keys)] == few.keys
    assert len(few.keys) == len(set(few.keys)) == min(size, len(KEYS))
    assert few.of == many.of == len(KEYS)


def test_every_answer_is_drawn_as_often_as_every_other() -> None:
    counts = Counter(key for seed in range(2_000) for key in draw(KEYS[:20], 5, seed).keys)
    # 2000 draws of 5 in 20: 500 each, standard deviation sqrt(2000 * 0.25 * 0.75) = 19.4; five of them.
    assert all(abs(counts[key] - 500) < 97 for key in KEYS[:20])


def test_an_answer_that_comes_later_leaves_the_others_in_their_order() -> None:
    before = draw(KEYS[:100], 100, 1).keys
    after = [key for key in draw(KEYS, 200, 1).keys if key in set(KEYS[:100])]
    assert after == before


@settings(max_examples=40)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_that_of_statsmodels(counts: tuple[int, int]) -> None:
    found = wilson(*counts)
    assert found is not None
    low, high = proportion_confint(*counts, alpha=0.05, method="wilson")
    assert found.value == counts[0] / counts[1]
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_wilson_of_nothing_is_nothing() -> None:
    assert wilson(0, 0) is None


def test_agreement_by_hand(tmp_path: Path) -> None:
    said = ["toxic", "Toxic.", "not toxic", "respectful", "hm", "It is toxic", "maybe"]
    person = ["toxic", "toxic", "respectful", "toxic", "invalid", "toxic", "undecided"]
    sentences = [MadeSentence(id=str(number)) for number in range(len(said))]
    made = spoken_store(tmp_path / "s.db", {"m": said}, sentences=sentences)
    with StoreView(made.path, Selection(parsed="any")) as view:
        judged = list(zip(view.rows(), person, strict=True))
        found = {item.policy: item for item in agreements(view.connection, judged)}
    assert next(iter(found)) == "paper"
    assert set(found) == {
        "paper",
        "paper-exact@1",
        "paper-exact-stripped@1",
        "paper-contains@1",
        "strict@1",
        "lenient@1",
    }
    exact = found["paper"]  # the model's own rule is paper-exact
    assert exact._replace(policy="paper-exact@1") == found["paper-exact@1"]
    # valid under paper-exact: "toxic" and "respectful"; the rest is invalid
    assert (exact.judged, exact.agreed) == (6, 2)
    assert (exact.lost, exact.invented, exact.reversed) == (3, 0, 1)
    contains = found["paper-contains@1"]
    # "not toxic" is toxic there
    assert (contains.agreed, contains.lost, contains.invented, contains.reversed) == (4, 0, 0, 2)
    assert found["strict@1"].agreed == 3
    assert found["lenient@1"].agreed == 4
    assert contains.share is not None
    assert contains.share.value == pytest.approx(4 / 6)
    assert exact.confusion["toxic"] == {"toxic": 1, "respectful": 1, "invalid": 2}


def test_policies_are_compared_on_the_models_that_they_apply_to(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("set", [MadeSentence(id="a")])
    maker.model("text")
    maker.model("class", parser="class-label", labels=CLASS_NAMES)
    maker.predictions(
        [
            MadePrediction(model="text", dataset="set", sentence="a", outcome="toxic", raw_text="toxic"),
            MadePrediction(model="class", dataset="set", sentence="a", outcome="toxic", raw_text="hate"),
        ]
    )
    made = maker.done()
    with StoreView(made.path, Selection(parsed="any")) as view:
        judged = [(row, "toxic") for row in view.rows()]
        found = {item.policy: item.judged for item in agreements(view.connection, judged)}
    assert found["paper"] == 2
    assert found["strict@1"] == found["class-label@1"] == 1


def test_a_policy_of_one_s_own_and_nothing_judged(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('name = "own"\n[words]\ntoxic = ["hm"]\nrespectful = ["no"]\nmatch = "exact"\n')
    made = spoken_store(tmp_path / "s.db", {"m": ["hm"]}, sentences=[MadeSentence(id="a")])
    connection = connect(made.path)
    assert [item.share for item in agreements(connection, [])] == [None]
    connection.close()
    with StoreView(made.path, Selection(parsed="any")) as view:
        judged = [(row, "toxic") for row in view.rows()]
        found = {item.policy: item.agreed for item in agreements(view.connection, judged, [str(file)])}
    assert found["own@1"] == 1
