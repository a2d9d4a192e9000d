"""Percentile bootstrap intervals (Efron and Tibshirani 1993, *An Introduction to the Bootstrap*, section 13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT_CONFIDENCE", "percentiles"]

DEFAULT_CONFIDENCE: Final = 0.95


def percentiles(values: NDArray[np.float64], confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and the upper bound of each column; NaN values are left out, a column of them gives NaN.

    Quantiles are linearly interpolated, as numpy's default.

    Args:
        values: Shape (resamples, columns).
        confidence: Between 0 and 1.
    """
    if len(values) == 0:
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing
    ordered = np.sort(values, axis=0)  # NaN last
    counts = len(values) - np.isnan(values).sum(axis=0)
    columns = np.arange(values.shape[1])

    def at(share: float) -> NDArray[np.float64]:
        place = share * np.maximum(counts - 1, 0)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        lower, upper = ordered[below, columns], ordered[above, columns]
        bound: NDArray[np.float64] = lower + (upper - lower) * (place - below)
        return np.where(counts > 0, bound, np.nan)

    return at((1.0 - confidence) / 2.0), at((1.0 + confidence) / 2.0)
