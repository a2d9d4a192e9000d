"""Paired tests, ranks, trends and agreement against statsmodels, scikit-learn, scipy and published examples."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import rows
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from hatevolution.analysis.agreement import ALPHAS, KAPPAS, alpha, alphas, kappa_matrix, kappas
from hatevolution.analysis.columns import checked, code
from hatevolution.analysis.paired import DIFFERENCES, differences, mcnemar
from hatevolution.analysis.rankings import rankings
from hatevolution.analysis.ranks import RANKS, rank_probabilities, rank_summary
from hatevolution.analysis.resample import Key, Samples, resample
from hatevolution.analysis.scores import scores
from hatevolution.analysis.trend import BASE_RATES, TRENDS, base_rates, trends

if TYPE_CHECKING:
    from store_maker import Made

    from hatevolution.analysis.study import Study


@pytest.fixture(scope="module")
def samples(study_once: Study) -> Samples:
    return resample(study_once, seed=2, resamples=150)


@pytest.fixture(scope="module")
def tidy(study_once: Study) -> pl.DataFrame:
    return scores(study_once)


# -- paired tests --------------------------------------------------------------------------------------------------

outcome_matrices = hnp.arrays(np.uint8, st.tuples(st.integers(2, 4), st.integers(1, 40)), elements=st.integers(0, 6))


@settings(deadline=None, max_examples=40)
@given(outcome_matrices)
def test_mcnemar_is_statsmodels(outcomes: np.ndarray) -> None:
    success, counted = outcomes == 0, outcomes < 2
    only, p = mcnemar(success, counted)
    for a, b in combinations(range(len(outcomes)), 2):
        both = counted[a] & counted[b]
        first, second = int((both & success[a] & ~success[b]).sum()), int((both & ~success[a] & success[b]).sum())
        assert (only[a, b], only[b, a]) == (first, second)
        expected = statsmodels_mcnemar([[0, first], [second, 0]], exact=True).pvalue if first + second else 1.0
        assert p[a, b] == pytest.approx(expected, abs=1e-12)


def test_differences(made_once: Made, study_once: Study, tidy: pl.DataFrame, samples: Samples) -> None:
    frame = checked(differences(study_once, tidy, samples, 0.9), DIFFERENCES)
    whole = {
        (r["model"], r["dataset"], r["metric"]): r["value"]
        for r in tidy.iter_rows(named=True)
        if r["group_key"] is None
    }
    for row in frame.iter_rows(named=True):
        a, b = (whole[row[name], row["dataset"], row["metric"]] for name in ("a", "b"))
        assert row["difference"] == pytest.approx(a - b, abs=1e-12)
        gaps = [samples.of(Key(row["dataset"], row["metric"]), row[name]) for name in ("a", "b")]
        gap = (gaps[0] - gaps[1])[~np.isnan(gaps[0] - gaps[1])]
        assert (row["low"], row["high"]) == pytest.approx(np.percentile(gap, [5, 95]), abs=1e-12)
        smaller = min((gap <= 0).sum(), (gap >= 0).sum())
        assert row["p_bootstrap"] == pytest.approx(min(1.0, 2 * (1 + smaller) / (1 + len(gap))))
        if row["metric"] == "macro_f1" and row["dataset"] == "plain":
            records = [rows(made_once, row[name], "plain") for name in ("a", "b")]
            sides = [
                (one["outcome"] == one["gold"], two["outcome"] == two["gold"])
                for one, two in zip(*records, strict=True)
                if {one["outcome"], two["outcome"]} <= {"toxic", "respectful"}
            ]
            assert row["only_a"] == sum(one and not two for one, two in sides)
            assert row["only_b"] == sum(two and not one for one, two in sides)
    for _, group in frame.group_by("dataset", "metric"):
        expected = multipletests(group["p_mcnemar"].to_numpy(), method="holm")[1]
        np.testing.assert_allclose(group["p_mcnemar_holm"], expected, atol=1e-12)
    assert {"plain", "timed", "paired", "cases"} <= set(frame["dataset"])
    assert set(frame.filter(pl.col("dataset") == "paired")["metric"]) == {"macro_f1", "label_flip"}


def test_twins_do_not_differ(study_once: Study, tidy: pl.DataFrame, samples: Samples) -> None:
    frame = differences(study_once, tidy, samples)
    twins = frame.filter((pl.col("a") == "good-exact") & (pl.col("b") == "twin-exact"))
    assert twins.height > 3
    for column, value in (("difference", 0.0), ("low", 0.0), ("high", 0.0), ("p_bootstrap", 1.0), ("p_mcnemar", 1.0)):
        assert (twins[column] == value).all()


# -- ranks ---------------------------------------------------------------------------------------------------------


def test_rank_probabilities(study_once: Study, tidy: pl.DataFrame, samples: Samples) -> None:
    ranked = rankings(study_once, tidy)
    frame = checked(rank_probabilities(study_once, ranked, samples), RANKS)
    sums = frame.group_by("ranking", "model").agg(pl.col("probability").sum())
    np.testing.assert_allclose(sums["probability"], 1.0)
    for ranking in ranked:
        if ranking.measure != "macro_f1" or not ranking.goodness:
            continue
        values = np.column_stack([samples.of(Key(ranking.dataset, "macro_f1"), name) for name in ranking.goodness])
        first = [
            (name, float(np.mean([value == max(row) for value, row in zip(column, values, strict=True)])))
            for name, column in zip(ranking.goodness, values.T, strict=True)
        ]
        own = frame.filter((pl.col("ranking") == ranking.name) & (pl.col("rank") == 1))
        known = dict(zip(own["model"], own["probability"], strict=True))
        for name, share in first:
            assert known.get(name, 0.0) == pytest.approx(share)
        summary = rank_summary(study_once, ranking, samples)
        assert dict(zip(summary["model"], summary["first"], strict=True)) == pytest.approx(dict(first))
        expected = stats.rankdata([-value for value in ranking.goodness.values()], method="min")
        by_name = dict(zip(ranking.goodness, expected, strict=True))
        assert dict(zip(summary["model"], summary["rank"], strict=True)) == by_name
        assert summary["rank"].is_sorted()


# -- trends --------------------------------------------------------------------------------------------------------


def test_slopes_are_ordinary_least_squares(study_once: Study, tidy: pl.DataFrame, samples: Samples) -> None:
    frame = checked(trends(study_once, tidy, samples, 0.9), TRENDS)
    yearly = {
        (r["dataset"], r["model"], r["metric"], r["group"]): r["value"]
        for r in tidy.iter_rows(named=True)
        if r["group_key"] == "year"
    }
    tested = 0
    for row in frame.iter_rows(named=True):
        known = [
            (year, yearly[row["dataset"], row["model"], row["metric"], str(year)])
            for year in range(2017, 2022)
            if yearly[row["dataset"], row["model"], row["metric"], str(year)] is not None
        ]
        assert row["years"] == len(known)
        if len(known) < 3:
            assert row["slope"] is None
            continue
        years, values = (np.array(side, dtype=float) for side in zip(*known, strict=True))
        if len(set(values)) == 1:
            assert (row["slope"], row["p_value"]) == (0.0, None)
            continue
        fit = OLS(values, np.column_stack([np.ones_like(years), years - years.mean()])).fit()
        assert row["slope"] == pytest.approx(fit.params[1], abs=1e-12)
        assert (row["low"], row["high"]) == pytest.approx(fit.conf_int(0.1)[1], abs=1e-10)
        assert row["p_value"] == pytest.approx(fit.pvalues[1], abs=1e-10)
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(known, 2)]
        assert row["theil_sen"] == pytest.approx(np.median(slopes), abs=1e-12)
        if row["bootstrap_low"] is not None:
            keys = [Key(row["dataset"], row["metric"], "year", str(int(year))) for year in years]
            drawn = np.column_stack([samples.of(key, row["model"]) for key in keys])
            fits = np.array([np.polyfit(years, line, 1)[0] for line in drawn[~np.isnan(drawn).any(axis=1)]])
            bounds = np.percentile(fits, [5, 95])
            assert (row["bootstrap_low"], row["bootstrap_high"]) == pytest.approx(bounds, abs=1e-9)
            tested += 1
    assert tested > 20


def test_base_rates(made_once: Made, study_once: Study) -> None:
    frame = checked(base_rates(study_once), BASE_RATES)
    for row in frame.iter_rows(named=True):
        golds = [s.gold for s in made_once.datasets[row["dataset"]] if s.year == row["year"]]
        assert (row["sentences"], row["hateful"]) == (len(golds), golds.count("toxic"))
        assert row["share"] == golds.count("toxic") / len(golds)
    assert frame.filter(pl.col("dataset") == "timed")["year"].to_list() == [2017, 2018, 2019, 2020, 2021]


# -- agreement -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(outcome_matrices)
def test_kappa_is_scikit_learns(outcomes: np.ndarray) -> None:
    n, agreement, kappa = kappa_matrix(outcomes)
    for a, b in combinations(range(len(outcomes)), 2):
        both = (outcomes[a] < 2) & (outcomes[b] < 2)
        assert n[a, b] == both.sum()
        if not both.any():
            assert np.isnan(agreement[a, b]) and np.isnan(kappa[a, b])
            continue
        one, two = outcomes[a][both], outcomes[b][both]
        assert agreement[a, b] == pytest.approx((one == two).mean())
        if len({*one, *two}) > 1:
            assert kappa[a, b] == pytest.approx(cohen_kappa_score(one, two), abs=1e-12)
        else:
            assert np.isnan(kappa[a, b])


def test_alpha_of_krippendorffs_binary_example() -> None:
    """Krippendorff (2011), *Computing Krippendorff's Alpha-Reliability*, A: two observers, ten units, alpha = 0.095."""
    one, two = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    units, value = alpha(np.array([one, two], dtype=np.uint8))
    assert units == 10 and value == pytest.approx(0.095, abs=5e-4)


def test_alpha_by_hand_with_missing_answers() -> None:
    """Units (toxic, respectful): (2,1), (3,0), (0,2), one alone left out. Do = 2/3 * ... by the coincidence matrix."""
    gone = code("missing")
    outcomes = np.array([[0, 0, 1, 0], [0, 0, 1, gone], [1, 0, gone, gone]], dtype=np.uint8)
    # Coincidences: unit 1 gives 2*1/(3-1) = 1 to each mixed cell and 2*1/2 = 1 to toxic-toxic; unit 2 gives 3*2/2 = 3
    # to toxic-toxic; unit 3 gives 2*1/1 = 2 to respectful-respectful. n_toxic = 5, n_respectful = 3, n = 8.
    observed, expected = 2 / 8, 2 * 5 * 3 / (8 * 7)
    units, value = alpha(outcomes)
    assert units == 3 and value == pytest.approx(1 - observed / expected, abs=1e-12)


def test_no_agreement_where_there_is_nothing_to_agree_on() -> None:
    assert alpha(np.array([[0, 0], [0, 0]], dtype=np.uint8)) == (2, None)
    assert alpha(np.array([[0, 0]], dtype=np.uint8)) == (0, None)
    assert alpha(np.zeros((0, 3), dtype=np.uint8)) == (0, None)


def test_agreement_frames(study_once: Study) -> None:
    checked(kappas(study_once), KAPPAS)
    frame = checked(alphas(study_once), ALPHAS)
    assert frame["dataset"].to_list() == [item.name for item in study_once.datasets]
    assert not frame["alpha"].drop_nulls().is_nan().any()
