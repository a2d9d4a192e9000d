r"""Rank correlations, matched by model: never position by position.

With :math:`n` models and :math:`z` the normal quantile of the confidence:

- Spearman's rho and Kendall's tau-b as scipy computes them (ties share their mean rank).
- Fisher's interval, as published: :math:`\tanh(\operatorname{artanh} r \pm z / \sqrt{n - 3})` (Fisher 1921; paper,
  appendix D).
- Bonett and Wright's for Spearman's rho: the standard error is :math:`\sqrt{(1 + r^2 / 2) / (n - 3)}`
  (Bonett and Wright 2000, *Psychometrika* 65, 23-28, p. 24).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hatevolution.analysis.rankings import Ranking

__all__ = [
    "PAPER_CONFIDENCE",
    "Correlation",
    "Interval",
    "bonett_wright",
    "correlate",
    "every_pair",
    "fisher",
    "spearman_rows",
]

PAPER_CONFIDENCE: Final = 0.90
"""The study's: alpha = 0.10."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """How two rankings agree over the models that both have."""

    x: str
    y: str
    n: int
    spearman: float | None
    kendall: float | None
    p_value: float | None
    """Of Spearman's rho, two-sided, by scipy's t approximation."""
    fisher: Interval | None
    """Null where rho is exactly 1 or -1, or n is below 4."""
    bonett_wright: Interval | None
    confidence: float
    reason: str | None
    """Why there is no coefficient."""


def correlate(x: Ranking, y: Ranking, confidence: float = PAPER_CONFIDENCE) -> Correlation:
    """Correlate two rankings.

    Args:
        x: One ranking.
        y: The other.
        confidence: Of the intervals, between 0 and 1.
    """
    models = [name for name in x.goodness if name in y.goodness]
    values = np.array([[ranking.goodness[name] for name in models] for ranking in (x, y)]).reshape(2, len(models))
    ranks = stats.rankdata(values, axis=1)
    reason = _why_not(ranks, x.name, y.name)
    rho = tau = p_value = None
    if reason is None:
        result = stats.spearmanr(ranks[0], ranks[1])
        rho, p_value = float(result.statistic), float(result.pvalue)
        tau = float(stats.kendalltau(ranks[0], ranks[1]).statistic)
    return Correlation(
        x=x.name,
        y=y.name,
        n=len(models),
        spearman=rho,
        kendall=tau,
        p_value=None if p_value is None or math.isnan(p_value) else p_value,
        fisher=None if rho is None else fisher(rho, len(models), confidence),
        bonett_wright=None if rho is None else bonett_wright(rho, len(models), confidence),
        confidence=confidence,
        reason=reason,
    )


def _why_not(ranks: NDArray[np.float64], *names: str) -> str | None:
    if ranks.shape[1] < 3:
        return f"fewer than 3 models are in both rankings ({ranks.shape[1]})"
    for row, name in zip(ranks, names, strict=True):
        if np.all(row == row[0]):
            return f"all models share one place in {name}"
    return None


def fisher(r: float, n: int, confidence: float = PAPER_CONFIDENCE) -> Interval | None:
    """Return Fisher's interval; None for n below 4 or a coefficient of 1 or -1, where it is not defined.

    >>> [round(bound, 3) for bound in fisher(-0.2662, 20)]
    [-0.586, 0.126]
    """
    return _on_z_scale(r, n, confidence, 1.0)


def bonett_wright(r: float, n: int, confidence: float = PAPER_CONFIDENCE) -> Interval | None:
    """Return Bonett and Wright's interval for Spearman's rho; None where Fisher's is not defined."""
    return _on_z_scale(r, n, confidence, 1.0 + r * r / 2.0)


def _on_z_scale(r: float, n: int, confidence: float, variance: float) -> Interval | None:
    if n < 4 or abs(r) >= 1.0:
        return None
    half = float(stats.norm.ppf(0.5 + confidence / 2.0)) * math.sqrt(variance / (n - 3))
    return Interval(math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))


def spearman_rows(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's rho of each pair of rows; NaN where a row is constant or holds a NaN.

    Args:
        x: Shape (resamples, models).
        y: The same shape.
    """
    ranks = [stats.rankdata(values, axis=1, nan_policy="propagate") for values in (x, y)]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    product = (centred[0] * centred[1]).sum(axis=1)
    norm = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    rho: NDArray[np.float64] = np.divide(product, norm, out=np.full(len(product), np.nan), where=norm > 0)
    return rho


def every_pair(rankings: Sequence[Ranking], confidence: float = PAPER_CONFIDENCE) -> list[Correlation]:
    """Correlate every ranking with every later one."""
    return [
        correlate(x, y, confidence) for index, x in enumerate(rankings) for y in rankings[index + 1 :]
    ]  # fmt: skip
