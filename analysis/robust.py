"""What a rank correlation is worth: resampled intervals, permutation p-values, correction for their number."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hatevolution.analysis.correlation import PAPER_CONFIDENCE, Correlation, Interval, spearman_rows
from hatevolution.analysis.intervals import percentiles
from hatevolution.analysis.ranks import goodness_samples
from hatevolution.analysis.weights import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.resample import Samples
    from hatevolution.analysis.study import Study

__all__ = ["Robust", "benjamini_hochberg", "holm", "robust"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Robust:
    """What resampling says of one correlation."""

    x: str
    y: str
    over_models: Interval | None
    """Percentile interval when models are drawn anew: would other models agree as much?"""
    over_sentences: Interval | None
    """Percentile interval when sentences (pairs) are drawn anew: how much of it is noise of the rankings?"""
    p_permutation: float | None
    """Two-sided; models are permuted between the rankings."""
    p_holm: float | None
    """Adjusted for all correlations of the call (Holm 1979): the family-wise error rate."""
    q_benjamini_hochberg: float | None
    """Adjusted likewise (Benjamini and Hochberg 1995): the false discovery rate."""


def robust(
    study: Study,
    rankings: Sequence[Ranking],
    correlations: Sequence[Correlation],
    samples: Samples,
    confidence: float = PAPER_CONFIDENCE,
) -> list[Robust]:
    """Return what resampling says of each correlation.

    Args:
        study: The answers.
        rankings: All that the correlations are of.
        correlations: Of them.
        samples: The joint bootstrap; its seed and number of resamples serve for models and permutations as well.
        confidence: Of the intervals.
    """
    by_name = {ranking.name: ranking for ranking in rankings}
    drawn = {ranking.name: goodness_samples(study, ranking, samples) for ranking in rankings}
    found: list[tuple[Interval | None, Interval | None, float | None]] = []
    for item in correlations:
        if item.spearman is None:
            found.append((None, None, None))
            continue
        x, y = by_name[item.x], by_name[item.y]
        models = [name for name in x.goodness if name in y.goodness]
        ranks = [stats.rankdata([ranking.goodness[name] for name in models]) for ranking in (x, y)]
        columns = [[list(ranking.goodness).index(name) for name in models] for ranking in (x, y)]
        rng = generator(samples.seed, f"{item.x} with {item.y}")
        found.append(
            (
                _over_models(ranks, samples.resamples, confidence, rng),
                _interval(spearman_rows(drawn[item.x][:, columns[0]], drawn[item.y][:, columns[1]]), confidence),
                _permutation(ranks, samples.resamples, rng),
            )
        )
    p_values = [p for *_, p in found]
    adjusted = zip(holm(p_values), benjamini_hochberg(p_values), strict=True)
    return [
        Robust(
            x=item.x,
            y=item.y,
            over_models=models_interval,
            over_sentences=sentences_interval,
            p_permutation=p,
            p_holm=p_holm,
            q_benjamini_hochberg=q,
        )
        for item, (models_interval, sentences_interval, p), (p_holm, q) in zip(
            correlations, found, adjusted, strict=True
        )
    ]


def _rho(x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    x, y = np.broadcast_arrays(np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1))
    return spearman_rows(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])).reshape(x.shape[:-1])


def _over_models(
    ranks: Sequence[ArrayLike], resamples: int, confidence: float, rng: np.random.Generator
) -> Interval | None:
    with warnings.catch_warnings():
        # Of few models a resample may hold one alone, whose rho is not defined; such resamples are left out below.
        warnings.simplefilter("ignore", RuntimeWarning)
        drawn = stats.bootstrap(
            ranks, _rho, paired=True, vectorized=True, n_resamples=resamples, method="percentile", rng=rng
        )
    return _interval(drawn.bootstrap_distribution, confidence)


def _permutation(ranks: Sequence[NDArray[np.float64]], resamples: int, rng: np.random.Generator) -> float:
    result = stats.permutation_test(
        (ranks[0],),
        lambda x, axis=-1: _rho(x, ranks[1], axis),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=resamples,
        rng=rng,
    )
    return float(result.pvalue)


def _interval(values: NDArray[np.float64], confidence: float) -> Interval | None:
    low, high = percentiles(values.reshape(-1, 1), confidence)
    return None if np.isnan(low[0]) else Interval(float(low[0]), float(high[0]))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted by Holm's step-down method; None stays None and does not count.

    Source: Holm (1979), *Scandinavian Journal of Statistics* 6, 65-70.

    >>> holm([0.01, None, 0.04])
    [0.02, None, 0.04]
    """
    known = [p for p in p_values if p is not None]
    order = np.argsort(known, kind="stable")
    factors = np.arange(len(known), 0, -1)
    stepped = np.minimum(np.maximum.accumulate(np.array(known)[order] * factors), 1.0) if known else np.empty(0)
    adjusted = np.empty(len(known))
    adjusted[order] = stepped
    return _fill(p_values, adjusted.tolist())


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for the false discovery rate (scipy); None stays None and does not count."""
    known = [p for p in p_values if p is not None]
    return _fill(p_values, stats.false_discovery_control(known).tolist() if known else [])


def _fill(p_values: Sequence[float | None], adjusted: Sequence[float]) -> list[float | None]:
    rest = iter(adjusted)
    return [None if p is None else next(rest) for p in p_values]
