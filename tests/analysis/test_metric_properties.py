"""What must hold for any answers whatever (hypothesis), on studies made in memory."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hatevolution.analysis.columns import ANSWERS, GOLD, OUTCOME, SENTENCES, checked
from hatevolution.analysis.metrics import INVALID_POLICIES, InvalidPolicy
from hatevolution.analysis.parsers import policy
from hatevolution.analysis.scores import scores
from hatevolution.analysis.study import DatasetInfo, ModelInfo, Study

LABELS = ("toxic", "respectful")
rows = st.lists(
    st.tuples(
        st.sampled_from(LABELS),
        st.sampled_from((*LABELS, "invalid", "ambiguous", "refused", "rejected", "missing")),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=25,
)
Rows = list[tuple[str, str, int]]


def study_of(found: Rows) -> Study:
    """One model, one set: gold, outcome and text id of each sentence."""
    data = pl.Enum(["d"])
    sentences = pl.DataFrame(
        {
            "dataset": pl.Series(["d"] * len(found), dtype=data),
            "position": pl.Series(range(len(found)), dtype=pl.UInt32),
            "sentence": [str(i) for i in range(len(found))],
            "gold": pl.Series([row[0] for row in found], dtype=GOLD),
        }
    ).with_columns(
        pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in SENTENCES.items()
        if name not in ("dataset", "position", "sentence", "gold")
    )
    answers = pl.DataFrame(
        {
            "dataset": sentences["dataset"],
            "model": pl.Series(["m"] * len(found), dtype=pl.Enum(["m"])),
            "position": sentences["position"],
            "outcome": pl.Series([row[1] for row in found], dtype=OUTCOME),
            "text": pl.Series([row[2] if row[1] in ("invalid", "ambiguous") else 0 for row in found], dtype=pl.UInt64),
        }
    )
    return Study(
        source="memory",
        parser=None,
        models=(ModelInfo(name="m", title="m", policy=policy("paper-exact")),),
        datasets=(DatasetInfo(name="d", title="d", kind="static", sentences=len(found), pairs=0, labelled=len(found)),),
        sentences=checked(sentences, SENTENCES),
        answers=checked(answers, ANSWERS),
    )


def values(found: Rows, invalid: InvalidPolicy = "drop") -> dict[str, float | None]:
    frame = scores(study_of(found), invalid)
    return dict(zip(frame["metric"], frame["value"], strict=True))


def close(one: float | None, two: float | None) -> bool:
    return one is two is None or (one is not None and two is not None and math.isclose(one, two, abs_tol=1e-12))


@settings(deadline=None, max_examples=12)
@given(rows, st.randoms(), st.sampled_from(list(INVALID_POLICIES)))
def test_order_of_sentences_does_not_matter(found: Rows, rng: object, invalid: InvalidPolicy) -> None:
    shuffled = found.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = values(found, invalid), values(shuffled, invalid)
    assert one.keys() == two.keys() and all(close(one[name], two[name]) for name in one)


@settings(deadline=None, max_examples=12)
@given(rows, st.sampled_from(list(INVALID_POLICIES)))
def test_swapping_the_labels_swaps_their_f1(found: Rows, invalid: InvalidPolicy) -> None:
    swap = {"toxic": "respectful", "respectful": "toxic"}
    one = values(found, invalid)
    two = values([(swap[gold], swap.get(outcome, outcome), text) for gold, outcome, text in found], invalid)
    assert close(one["f1_hateful"], two["f1_nonhateful"]) and close(one["f1_nonhateful"], two["f1_hateful"])
    for name in ("macro_f1", "accuracy", "balanced_accuracy", "expected_output"):
        assert close(one[name], two[name])


@settings(deadline=None, max_examples=12)
@given(rows, st.sampled_from(LABELS), st.sampled_from(("missing", "refused", "rejected")))
def test_what_is_no_answer_changes_no_published_metric(found: Rows, gold: str, outcome: str) -> None:
    one, two = values(found), values([*found, (gold, outcome, 1)])
    for name in ("macro_f1", "f1_hateful", "f1_nonhateful", "accuracy", "balanced_accuracy"):
        assert close(one[name], two[name])


@settings(deadline=None, max_examples=12)
@given(rows)
def test_policies_are_in_their_order(found: Rows) -> None:
    """worst <= wrong, drop <= best; raw <= class <= wrong: a class more can only lower the mean."""
    by_policy = {name: values(found, name) for name in INVALID_POLICIES}
    macro = {name: found["macro_f1"] for name, found in by_policy.items()}
    for low, high in (("worst", "wrong"), ("wrong", "best"), ("class", "wrong"), ("raw", "class"), ("drop", "best")):
        one, two = macro[low], macro[high]  # type: ignore[index]
        if one is not None and two is not None:
            assert one <= two + 1e-12, (low, high)


@settings(deadline=None, max_examples=12)
@given(rows)
def test_rates_lie_between_zero_and_one_and_null_has_a_reason(found: Rows) -> None:
    for name in INVALID_POLICIES:
        frame = scores(study_of(found), name)
        assert ((frame["value"] >= 0) & (frame["value"] <= 1)).all()
        assert (frame["value"].is_null() == frame["reason"].is_not_null()).all()


@settings(deadline=None, max_examples=15)
@given(rows)
def test_right_answers_throughout_are_perfect(found: Rows) -> None:
    right = values([(gold, gold, text) for gold, _, text in found])
    assert right["accuracy"] == 1.0
    assert right["macro_f1"] in (1.0, None)
