"""How sure a ranking is: the probability of each rank, from the joint bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from scipy import stats

from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, percentiles
from hatevolution.analysis.rankings import goodness
from hatevolution.analysis.resample import Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.resample import Samples
    from hatevolution.analysis.study import Study

__all__ = ["RANKS", "goodness_samples", "rank_probabilities", "rank_summary"]

RANKS: Final = {"ranking": pl.String, "model": pl.String, "rank": pl.Int64, "probability": pl.Float64}


def goodness_samples(study: Study, ranking: Ranking, samples: Samples) -> NDArray[np.float64]:
    """Return the resampled goodness of a ranking's models, shape (resamples, models); NaN where it is not defined.

    Which models are constant predictors is taken from the answers themselves, not anew in each resample.
    """
    item = study.dataset(ranking.dataset)
    key = Key(ranking.dataset, ranking.measure)
    columns = [goodness(item, samples.of(key, name), name in ranking.constant) for name in ranking.goodness]
    return np.column_stack(columns) if columns else np.empty((samples.resamples, 0))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks in each resample, 1 for the best; ties share the better rank, an undefined value the last."""
    known = np.where(np.isnan(values), -np.inf, values)
    ranks: NDArray[np.float64] = stats.rankdata(-known, method="min", axis=1)
    return ranks


def rank_probabilities(study: Study, rankings: Sequence[Ranking], samples: Samples) -> pl.DataFrame:
    """Return how often each model had each rank.

    Returns:
        Columns ``RANKS``; the probabilities of a model in a ranking add up to 1, and ranks it never had are left out.
    """
    rows = []
    for ranking in rankings:
        values = goodness_samples(study, ranking, samples)
        ranks = _ranks(values) if values.shape[1] else values
        for name, column in zip(ranking.goodness, ranks.T, strict=True):
            found, counts = np.unique(column, return_counts=True)
            rows += [
                (ranking.name, name, int(rank), count / samples.resamples)
                for rank, count in zip(found, counts.tolist(), strict=True)
            ]
    return pl.DataFrame(rows, schema=RANKS, orient="row")


def rank_summary(
    study: Study, ranking: Ranking, samples: Samples, confidence: float = DEFAULT_CONFIDENCE
) -> pl.DataFrame:
    """Return rank, its interval, its mean, and the probability of the first place, for each model, best first.

    Returns:
        Columns model, rank, low, high, mean, first.
    """
    names = list(ranking.goodness)
    if not names:
        return pl.DataFrame(
            schema={"model": pl.String} | dict.fromkeys(("rank", "low", "high", "mean", "first"), pl.Float64)
        )
    ranks = _ranks(goodness_samples(study, ranking, samples))
    low, high = percentiles(ranks, confidence)
    own = _ranks(np.array([[ranking.goodness[name] for name in names]]))[0]
    return pl.DataFrame(
        {
            "model": names,
            "rank": own,
            "low": low,
            "high": high,
            "mean": ranks.mean(axis=0),
            "first": (ranks == 1).mean(axis=0),
        }
    ).sort("rank", maintain_order=True)
