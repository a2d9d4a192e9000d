"""The joint bootstrap against scikit-learn on the drawn rows, and its summaries against numpy."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import accuracy_score, f1_score, recall_score

from hatevolution.analysis.columns import code
from hatevolution.analysis.frames import load
from hatevolution.analysis.intervals import intervals, percentiles, with_intervals
from hatevolution.analysis.metrics import INVALID_POLICIES, InvalidPolicy
from hatevolution.analysis.resample import Key, Samples, resample
from hatevolution.analysis.scores import scores
from hatevolution.analysis.weights import BATCH, draws, generator, units_of

if TYPE_CHECKING:
    from store_maker import Made

    from hatevolution.analysis.study import Study

LINEAR = [policy for policy in INVALID_POLICIES if policy != "raw"]


@pytest.fixture(scope="module")
def samples(study_once: Study) -> Samples:
    return resample(study_once, seed=7, resamples=60, keep=lambda _: True)


@pytest.mark.parametrize("policy", LINEAR)
def test_one_draw_of_every_row_gives_the_scores_themselves(
    study_once: Study, policy: InvalidPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = lambda units, resamples, rng: iter([np.ones((1, units.count), dtype=np.float32)])  # noqa: E731
    monkeypatch.setattr("hatevolution.analysis.resample.draws", once)
    drawn = resample(study_once, seed=0, resamples=1, invalid=policy, keep=lambda _: True)
    compared = 0
    for row in scores(study_once, policy).iter_rows(named=True):
        key = Key(row["dataset"], row["metric"], row["group_key"], row["group"])
        if key not in drawn.values:
            assert row["value"] is None, key
            continue
        value = drawn.of(key, row["model"])[0]
        if row["value"] is None:
            assert np.isnan(value), key
        else:
            assert abs(value - row["value"]) <= 1e-12, key
            compared += 1
    assert compared > 2000


def test_resamples_are_the_metrics_of_the_drawn_rows(study_once: Study, samples: Samples) -> None:
    for dataset in ("plain", "timed", "cases"):
        item, sentences = study_once.dataset(dataset), study_once.of(dataset)
        units = units_of(item, sentences)
        weights = next(draws(units, samples.resamples, generator(samples.seed, dataset)))[:, units.of_sentence]
        gold = sentences["gold"].to_physical().to_numpy()
        for number, model in enumerate(study_once.models):
            said = study_once.outcomes(dataset)[number]
            valid = said <= code("respectful")
            if not valid.any():
                continue
            for row in range(0, samples.resamples, 13):
                weight = weights[row][valid]
                options = {"sample_weight": weight, "zero_division": 0.0}
                support = [weight[gold[valid] == label].sum() for label in (0, 1)]
                expected = {
                    "accuracy": accuracy_score(gold[valid], said[valid], sample_weight=weight),
                    "macro_f1": f1_score(gold[valid], said[valid], labels=[0, 1], average="macro", **options),
                    "balanced_accuracy": recall_score(
                        gold[valid], said[valid], labels=[0, 1], average="macro", **options
                    ),
                }
                for metric, value in expected.items():
                    if metric == "accuracy" or min(support) > 0:
                        assert abs(samples.of(Key(dataset, metric), model.name)[row] - value) <= 1e-12


def test_time_sensitive_samples_are_means_over_years(samples: Samples) -> None:
    yearly = [samples.values[Key("timed", "macro_f1", "year", str(year))] for year in range(2017, 2022)]
    np.testing.assert_allclose(samples.values[Key("timed", "time_sensitive_macro_f1")], np.mean(yearly, axis=0))


def test_draws_keep_the_size_of_every_year(study_once: Study) -> None:
    item, sentences = study_once.dataset("timed"), study_once.of("timed")
    units = units_of(item, sentences)
    assert sorted(units.of_sentence) == list(range(item.sentences))
    for weights in draws(units, BATCH + 3, generator(1, "x")):
        by_sentence = weights[:, units.of_sentence]
        years = sentences["year"].fill_null(-1).to_numpy()
        for year in np.unique(years):
            assert np.all(by_sentence[:, years == year].sum(axis=1) == (years == year).sum())


def test_the_sentences_of_a_pair_are_drawn_together(study_once: Study) -> None:
    sentences = study_once.of("paired")
    units = units_of(study_once.dataset("paired"), sentences)
    pairs = dict(zip(sentences["pair"], units.of_sentence, strict=True))
    assert all(pairs[pair] == unit for pair, unit in zip(sentences["pair"], units.of_sentence, strict=True))
    assert len(set(pairs.values())) == len(pairs) == units.count


def test_each_unit_is_drawn_equally_often(study_once: Study) -> None:
    units = units_of(study_once.dataset("plain"), study_once.of("plain"))
    total = np.concatenate(list(draws(units, 2000, generator(5, "y")))).sum(axis=0)
    # 2000 draws of each of n units on average; six standard deviations of a binomial count.
    assert np.all(np.abs(total - 2000) < 6 * np.sqrt(2000))


def test_a_seed_stands_for_the_same_numbers_whatever_is_beside_it(made_once: Made, study_once: Study) -> None:
    every = resample(study_once, seed=3, resamples=10)
    few = resample(load(made_once.path, models=["flags", "classes"], datasets=["plain"]), seed=3, resamples=10)
    for key, values in few.values.items():
        np.testing.assert_array_equal(values[:, 0], every.of(key, "flags"))
    other = resample(study_once, seed=4, resamples=10)
    assert not np.array_equal(other.values[Key("plain", "macro_f1")], every.values[Key("plain", "macro_f1")])


def test_raw_has_no_resamples(study_once: Study) -> None:
    with pytest.raises(ValueError, match="raw"):
        resample(study_once, seed=0, resamples=1, invalid="raw")


@settings(deadline=None, max_examples=50)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 30), st.integers(1, 4)),
        elements=st.one_of(st.floats(-1, 1), st.just(float("nan"))),
    ),
    st.floats(0.5, 0.99),
)
def test_percentiles_are_numpys(values: np.ndarray, confidence: float) -> None:
    low, high = percentiles(values, confidence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's word on columns of NaN alone
        expected = np.nanpercentile(values, [50 * (1 - confidence), 50 * (1 + confidence)], axis=0)
    np.testing.assert_allclose([low, high], expected, rtol=0, atol=1e-12)


def test_intervals_hold_their_values_and_null_where_there_is_none(study_once: Study) -> None:
    drawn = resample(study_once, seed=1, resamples=200)
    frame = with_intervals(scores(study_once), intervals(drawn))
    assert frame.filter(frame["value"].is_null())["low"].null_count() == frame["value"].null_count()
    whole = frame.filter(
        frame["metric"].is_in(["macro_f1", "accuracy", "expected_output"]) & frame["value"].is_not_null()
    )
    assert whole["low"].null_count() == 0
    inside = (whole["low"] <= whole["value"] + 1e-9) & (whole["value"] <= whole["high"] + 1e-9)
    assert inside.sum() > 0.97 * len(inside)
    assert (whole["low"] <= whole["high"]).all()


def test_more_confidence_is_a_wider_interval(study_once: Study, samples: Samples) -> None:
    narrow, wide = (
        intervals(resample(study_once, seed=7, resamples=60, confidence=confidence)) for confidence in (0.5, 0.95)
    )
    keep = narrow["low"].is_not_null()
    assert ((wide["low"] <= narrow["low"]) & (narrow["high"] <= wide["high"])).filter(keep).all()
    assert wide.equals(intervals(samples, 0.95)), "the default, and what is kept changes nothing"
    with pytest.raises(ValueError, match="not at"):
        intervals(samples, 0.5)


def test_intervals_are_percentiles_of_the_samples(samples: Samples) -> None:
    for row in intervals(samples).iter_rows(named=True):
        key = Key(row["dataset"], row["metric"], row["group_key"], row["group"])
        drawn = samples.of(key, row["model"])
        known = drawn[~np.isnan(drawn)]
        assert row["undefined"] == len(drawn) - len(known)
        if len(known):
            assert (row["low"], row["high"]) == pytest.approx(np.percentile(known, [2.5, 97.5]), abs=1e-12)
        else:
            assert row["low"] is None


def test_many_groups_are_drawn_alike_in_parts(study_once: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    one = intervals(resample(study_once, seed=2, resamples=20))
    monkeypatch.setattr("hatevolution.analysis.resample._BLOCKS", 3)
    assert intervals(resample(study_once, seed=2, resamples=20)).equals(one)


def test_only_what_is_needed_later_is_kept(study_once: Study) -> None:
    drawn = resample(study_once, seed=2, resamples=5)
    assert {key.group_key for key in drawn.values} == {None, "year"}
    assert {key.group_key for key in drawn.bounds} == {None, "year", "type", "role", "functionality", "target"}
