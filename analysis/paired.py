"""Which differences between models mean something: paired bootstrap and McNemar's test, on the same sentences.

McNemar's exact test (McNemar 1947) asks whether, of the sentences that just one of two models gets right, more than
chance fall to one of them: two-sided binomial, p = 0.5. The paired bootstrap's p-value is twice the smaller share of
resampled differences on either side of zero, with one added to count and resamples (Davison and Hinkley 1997,
*Bootstrap Methods and their Application*, eq. 4.11).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from scipy import stats

from hatevolution.analysis.columns import code
from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, percentiles
from hatevolution.analysis.rankings import MEASURES
from hatevolution.analysis.resample import Key
from hatevolution.analysis.robust import benjamini_hochberg, holm
from hatevolution.domain import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hatevolution.analysis.resample import Samples
    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["DIFFERENCES", "differences", "flipped", "mcnemar", "two_sided"]

DIFFERENCES: Final = {
    "dataset": pl.String,
    "metric": pl.String,
    "a": pl.String,
    "b": pl.String,
    "difference": pl.Float64,  # a - b
    "low": pl.Float64,
    "high": pl.Float64,
    "p_bootstrap": pl.Float64,
    "only_a": pl.Int64,  # sentences (pairs) that a alone gets right (that flip in a alone)
    "only_b": pl.Int64,
    "p_mcnemar": pl.Float64,
    "p_mcnemar_holm": pl.Float64,  # adjusted over all pairs of models of this data set and metric
    "q_mcnemar": pl.Float64,  # Benjamini and Hochberg's
}


def differences(
    study: Study, scores: pl.DataFrame, samples: Samples, confidence: float = DEFAULT_CONFIDENCE
) -> pl.DataFrame:
    """Compare every two models on every set, by macro F1 (over time where the set has years) and by label flips.

    Args:
        study: The answers.
        scores: Tidy; the differences are of its values.
        samples: The joint bootstrap.
        confidence: Of the intervals of the differences.

    Returns:
        Columns ``DIFFERENCES``; without a row where one of the two has no value.
    """
    whole = scores.filter(scores["group_key"].is_null())
    values = {
        (model, dataset, metric): value
        for model, dataset, metric, value in whole.select("model", "dataset", "metric", "value").iter_rows()
    }
    frames = [pl.DataFrame(schema=DIFFERENCES)]
    for item in study.datasets:
        right = _right(study, item)
        metrics = {MEASURES[item.kind]: right}
        if item.kind == "pairs":
            metrics = {"macro_f1": right, "label_flip": flipped(study, item)}
        for metric, (success, counted) in metrics.items():
            names = [model.name for model in study.single_models if values[model.name, item.name, metric] is not None]
            if len(names) > 1:
                own = np.array([values[name, item.name, metric] for name in names])
                rows = [next(i for i, m in enumerate(study.models) if m.name == name) for name in names]
                drawn = np.column_stack([samples.of(Key(item.name, metric), name) for name in names])
                table = _compare(names, own, drawn, success[rows], counted[rows], confidence)
                frames.append(
                    table.with_columns(dataset=pl.lit(item.name), metric=pl.lit(metric)).select(list(DIFFERENCES))
                )
    return pl.concat(frames)


def mcnemar(success: NDArray[np.bool_], counted: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Test every two models.

    Args:
        success: Whether a model succeeds, shape (models, rows).
        counted: Whether its answer counts, same shape; a row counts for two models where both do.

    Returns:
        How often the first succeeds and the second fails, and the exact two-sided p-values, shape (models, models).
    """
    wins, fails = (success & counted).astype(np.float64), (~success & counted).astype(np.float64)
    only = (wins @ fails.T).round().astype(np.int64)
    both = only + only.T
    p: NDArray[np.float64] = np.minimum(1.0, 2.0 * stats.binom.cdf(np.minimum(only, only.T), both, 0.5))
    return only, p


def _compare(
    names: list[str],
    own: NDArray[np.float64],
    drawn: NDArray[np.float64],
    success: NDArray[np.bool_],
    counted: NDArray[np.bool_],
    confidence: float,
) -> pl.DataFrame:
    first, second = np.array(list(combinations(range(len(names)), 2))).T
    gaps = drawn[:, first] - drawn[:, second]
    low, high = percentiles(gaps, confidence)
    only, p = mcnemar(success, counted)
    p_values = p[first, second].tolist()
    return pl.DataFrame(
        {
            "a": [names[index] for index in first],
            "b": [names[index] for index in second],
            "difference": own[first] - own[second],
            "low": low,
            "high": high,
            "p_bootstrap": two_sided(gaps),
            "only_a": only[first, second],
            "only_b": only[second, first],
            "p_mcnemar": p_values,
            "p_mcnemar_holm": holm(p_values),
            "q_mcnemar": benjamini_hochberg(p_values),
        }
    ).with_columns(pl.col("low", "high", "p_bootstrap").fill_nan(None))


def two_sided(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bootstrap's two-sided p-value of each column of differences, NaN left out; see the module."""
    counts = (~np.isnan(gaps)).sum(axis=0)
    smaller = np.minimum((gaps <= 0).sum(axis=0), (gaps >= 0).sum(axis=0))
    return np.where(counts > 0, np.minimum(1.0, 2.0 * (1 + smaller) / (1 + counts)), np.nan)


def _right(study: Study, item: DatasetInfo) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    sentences, outcomes = study.of(item.name), study.outcomes(item.name)
    gold = sentences["gold"].to_physical().fill_null(255).to_numpy()
    judged = gold != 255
    if item.kind == "pairs":
        judged = judged & (sentences["role"] == Role.ORIGINAL.value).fill_null(value=False).to_numpy()
    elif item.kind == "years":
        judged = judged & sentences["year"].is_in(item.years).fill_null(value=False).to_numpy()
    return outcomes == gold, _valid(outcomes) & judged


def flipped(study: Study, item: DatasetInfo) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether each model's label flips in each pair, and whether both its answers are valid."""
    sentences, outcomes = study.of(item.name), study.outcomes(item.name)
    indexed = sentences.with_row_index("row").filter(pl.col("pair").is_not_null())
    sides = [indexed.filter(pl.col("role") == role.value).select("pair", "row") for role in Role]
    both = sides[0].join(sides[1], on="pair", maintain_order="left")
    one, two = outcomes[:, both["row"].to_numpy()], outcomes[:, both["row_right"].to_numpy()]
    return one != two, _valid(one) & _valid(two)


def _valid(outcomes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = (outcomes == code("toxic")) | (outcomes == code("respectful"))
    return valid
