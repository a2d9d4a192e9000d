"""Rank correlations against scipy, published intervals, and values computed by hand or by R's formulas."""

from __future__ import annotations

import math
import warnings
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from store_maker import MadeSentence, Maker

from hatevolution.analysis.correlation import bonett_wright, correlate, every_pair, fisher, spearman_rows
from hatevolution.analysis.frames import load
from hatevolution.analysis.rankings import Ranking, rankings
from hatevolution.analysis.resample import resample
from hatevolution.analysis.robust import benjamini_hochberg, holm, robust
from hatevolution.analysis.scores import scores
from hatevolution.analysis.study import Study

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 0.1, 0.2]), min_size=4, max_size=12)


def ranking(name: str, numbers: list[float], measure: str = "macro_f1") -> Ranking:
    return Ranking(name=name, dataset=name, measure=measure, goodness={f"m{i}": v for i, v in enumerate(numbers)})


@settings(deadline=None, max_examples=40)
@given(values, values)
def test_coefficients_are_scipys(x: list[float], y: list[float]) -> None:
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    found = correlate(ranking("x", x), ranking("y", y))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found.spearman is None and found.reason is not None
        return
    expected = stats.spearmanr(x, y)
    assert found.spearman == pytest.approx(expected.statistic, abs=1e-12)
    assert found.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert found.p_value is None or found.p_value == pytest.approx(expected.pvalue, abs=1e-12)
    assert found.n == size


@settings(deadline=None, max_examples=20)
@given(values, st.randoms())
def test_it_is_matched_by_model_and_not_by_position(x: list[float], rng: object) -> None:
    assume(len(set(x)) > 1)
    names = [f"m{i}" for i in range(len(x))]
    shuffled = names.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    known = dict(zip(names, x, strict=True))
    one = Ranking(name="a", dataset="a", measure="macro_f1", goodness=known)
    two = Ranking(name="b", dataset="b", measure="macro_f1", goodness={name: known[name] for name in shuffled})
    assert correlate(one, two).spearman == pytest.approx(1.0)


@settings(deadline=None, max_examples=20)
@given(values)
def test_invariances(x: list[float]) -> None:
    assume(len(set(x)) > 1)
    y = list(reversed(x))
    forward, back = correlate(ranking("x", x), ranking("y", y)), correlate(ranking("y", y), ranking("x", x))
    assert forward.spearman == pytest.approx(back.spearman)
    cubed = correlate(ranking("x", [value**3 for value in x]), ranking("y", y))
    assert cubed.spearman == pytest.approx(forward.spearman)
    negated = correlate(ranking("x", [-value for value in x]), ranking("y", y))
    assert forward.spearman is not None
    assert negated.spearman == pytest.approx(-forward.spearman)


def test_models_missing_from_one_ranking_are_left_out() -> None:
    one = Ranking(name="x", dataset="x", measure="macro_f1", goodness={"a": 1, "b": 2, "c": 3, "d": 4, "e": 9})
    two = Ranking(name="y", dataset="y", measure="macro_f1", goodness={"d": 1, "c": 2, "b": 3, "a": 4, "f": 5})
    found = correlate(one, two)
    assert (found.n, found.spearman) == (4, -1.0)
    assert found.fisher is None, "not defined at -1"


def test_too_few_models_and_constant_rankings_are_null_with_a_reason() -> None:
    assert correlate(ranking("x", [1.0, 2.0]), ranking("y", [1.0, 2.0])).reason == (
        "fewer than 3 models are in both rankings (2)"
    )
    found = correlate(ranking("x", [1.0, 1.0, 1.0, 1.0]), ranking("y", [1.0, 2.0, 3.0, 4.0]))
    assert found.spearman is None and found.reason == "all models share one place in x"


@pytest.mark.parametrize(
    ("rho", "low", "high"),
    [(-0.2662, -0.586, 0.126), (0.8647, 0.722, 0.937), (0.3865, 0.009, 0.668), (-0.0707, -0.438, 0.317)],
)
def test_fisher_interval_is_the_published_one(rho: float, low: float, high: float) -> None:
    found = fisher(rho, 20)
    assert found is not None
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)


def test_bonett_wright_by_hand() -> None:
    """rho = 0.5, n = 28, 95 %: z = 0.549306 +- 1.959964 * sqrt(1.125 / 25) = 0.1335350 .. 0.9650773."""
    found = bonett_wright(0.5, 28, 0.95)
    assert found is not None
    assert found.low == pytest.approx(math.tanh(0.13353500), abs=1e-7)
    assert found.high == pytest.approx(math.tanh(0.96507729), abs=1e-7)
    wider, narrower = found.high - found.low, fisher(0.5, 28, 0.95)
    assert narrower is not None and wider > narrower.high - narrower.low


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(values, values), min_size=1, max_size=4))
def test_rows_of_resamples_are_scipys(pairs: list[tuple[list[float], list[float]]]) -> None:
    size = min(len(row) for pair in pairs for row in pair)
    x, y = (np.array([pair[side][:size] for pair in pairs]) for side in (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        expected = [stats.spearmanr(*rows).statistic for rows in zip(x, y, strict=True)]
    np.testing.assert_allclose(spearman_rows(x, y), expected, rtol=0, atol=1e-12)


def test_rows_with_nan_have_no_rho() -> None:
    assert np.isnan(spearman_rows(np.array([[1.0, np.nan, 3.0]]), np.array([[1.0, 2.0, 3.0]]))[0])


@pytest.mark.parametrize("size", [0, 1, 2, 5, 15, 40])
def test_adjustments_are_statsmodels(size: int) -> None:
    rng = np.random.default_rng(size)
    p_values = [None if rng.random() < 0.2 else round(float(rng.random() ** 2), 2) for _ in range(size)]
    known = [p for p in p_values if p is not None]
    for method, function in (("holm", holm), ("fdr_bh", benjamini_hochberg)):
        found = function(p_values)
        assert [p is None for p in found] == [p is None for p in p_values]
        if known:
            expected = multipletests(known, method=method)[1]
            np.testing.assert_allclose([p for p in found if p is not None], expected, rtol=0, atol=1e-12)


# -- on a store ----------------------------------------------------------------------------------------------------


def small(tmp_path: object, models: int = 5) -> Study:
    """Two sets on which the models have all kinds of scores."""
    rng = np.random.default_rng(4)
    maker = Maker(tmp_path / "s.db")  # type: ignore[operator]
    golds = ["toxic", "respectful"] * 40
    for number in range(models):
        maker.model(f"m{number}")
    for dataset in ("one", "two"):
        maker.dataset(dataset, [MadeSentence(id=str(i), gold=gold) for i, gold in enumerate(golds)])
        for number in range(models):
            right = rng.random(len(golds)) < 0.5 + 0.1 * number
            other = {"toxic": "respectful", "respectful": "toxic"}
            maker.answers(f"m{number}", dataset, [g if ok else other[g] for g, ok in zip(golds, right, strict=True)])
    return load(maker.done().path)


def test_permutation_p_value_is_exact_for_few_models(tmp_path: object) -> None:
    study = small(tmp_path)
    found = scores(study)
    ranked = rankings(study, found)
    correlations = every_pair(ranked)
    (more,) = robust(study, ranked, correlations, resample(study, seed=1, resamples=2000))
    x, y = (stats.rankdata(list(item.goodness.values())) for item in ranked)
    own = abs(stats.spearmanr(x, y).statistic)
    every = [abs(stats.spearmanr(order, y).statistic) >= own - 1e-12 for order in permutations(x)]
    assert more.p_permutation == pytest.approx(np.mean(every))
    assert more.p_holm == more.p_permutation == more.q_benjamini_hochberg


def test_over_models_is_scipys_bootstrap(tmp_path: object) -> None:
    study = small(tmp_path, models=9)
    ranked = rankings(study, scores(study))
    (more,) = robust(study, ranked, every_pair(ranked), resample(study, seed=1, resamples=4000))
    x, y = (np.array(list(item.goodness.values())) for item in ranked)
    rng = np.random.default_rng(99)
    drawn = rng.integers(0, 9, size=(4000, 9))
    expected = np.nanpercentile(spearman_rows(x[drawn], y[drawn]), [5, 95])
    assert more.over_models is not None
    np.testing.assert_allclose(more.over_models, expected, atol=0.06)  # two draws of one distribution


def test_noise_of_sentences_lowers_the_correlation_and_a_seed_repeats_it(tmp_path: object) -> None:
    study = small(tmp_path)
    ranked = rankings(study, scores(study))
    pairs = every_pair(ranked)
    one, two = (robust(study, ranked, pairs, resample(study, seed=5, resamples=300)) for _ in range(2))
    assert one == two
    between = one[0].over_sentences
    assert between is not None and between.low <= pairs[0].spearman + 1e-12  # type: ignore[operator]


def test_constant_predictors_of_flips_are_last_and_reported(study_once: Study) -> None:
    found = {item.name: item for item in rankings(study_once, scores(study_once))}
    flips = found["Experiment 2"]
    assert set(flips.constant) == {"always-respectful", "always-toxic"}
    assert set(flips.order[-2:]) == set(flips.constant)
    assert set(flips.unranked or {}) == {"never-valid", "never-asked"}
    assert "member-a" not in flips.goodness and "Together" not in flips.goodness
    low_first = [-flips.goodness[name] for name in flips.order[:-2]]
    assert low_first == sorted(low_first)


def test_a_null_correlation_is_null_throughout(study_once: Study) -> None:
    ranked = rankings(study_once, scores(study_once))
    pairs = every_pair(ranked)
    found = robust(study_once, ranked, pairs, resample(study_once, seed=1, resamples=50))
    nulls = [(pair, more) for pair, more in zip(pairs, found, strict=True) if pair.spearman is None]
    assert nulls
    for pair, more in nulls:
        assert pair.reason
        assert (more.p_permutation, more.p_holm, more.over_models, more.over_sentences) == (None,) * 4
