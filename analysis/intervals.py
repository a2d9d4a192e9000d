"""Percentile bootstrap intervals (Efron and Tibshirani 1993, *An Introduction to the Bootstrap*, section 13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hatevolution.analysis.resample import Samples

__all__ = ["DEFAULT_CONFIDENCE", "INTERVALS", "intervals", "percentiles", "with_intervals"]

DEFAULT_CONFIDENCE: Final = 0.95

INTERVALS: Final = {
    "model": pl.String,
    "dataset": pl.String,
    "metric": pl.String,
    "group_key": pl.String,
    "group": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "undefined": pl.Int64,  # resamples in which the metric is not defined; they are left out
}


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


def intervals(samples: Samples, confidence: float = DEFAULT_CONFIDENCE) -> pl.DataFrame:
    """Return the interval of every metric of every model and composite.

    Args:
        samples: Of :func:`hatevolution.analysis.resample.resample`.
        confidence: Between 0 and 1.

    Returns:
        Columns ``INTERVALS``.
    """
    frames = []
    for key, values in samples.values.items():
        low, high = percentiles(values, confidence)
        frames.append(
            pl.DataFrame(
                {
                    "model": samples.lines,
                    "low": low,
                    "high": high,
                    "undefined": np.isnan(values).sum(axis=0),
                }
            ).select(
                "model",
                *(pl.lit(part, dtype=pl.String).alias(name) for name, part in zip(key._fields, key, strict=True)),
                pl.col("low", "high").fill_nan(None),
                pl.col("undefined").cast(pl.Int64),
            )
        )
    return pl.concat(frames).select(list(INTERVALS)) if frames else pl.DataFrame(schema=INTERVALS)


def with_intervals(scores: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return the tidy scores with their ``low`` and ``high``; a score without a value has none.

    Args:
        scores: Columns ``SCORES``.
        found: Columns ``INTERVALS``.
    """
    keys = ["model", "dataset", "metric", "group_key", "group"]
    joined = scores.drop("low", "high").join(
        found.select(*keys, "low", "high"), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    defined = pl.col("value").is_not_null()
    return joined.with_columns(pl.when(defined).then(pl.col(name)).alias(name) for name in ("low", "high")).select(
        scores.columns
    )
