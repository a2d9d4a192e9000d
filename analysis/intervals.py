"""The bootstrap's intervals as a frame, and beside the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.percentiles import DEFAULT_CONFIDENCE, percentiles

if TYPE_CHECKING:
    from hatevolution.analysis.resample import Samples

__all__ = ["DEFAULT_CONFIDENCE", "INTERVALS", "intervals", "percentiles", "with_intervals"]

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


def intervals(samples: Samples, confidence: float | None = None) -> pl.DataFrame:
    """Return the interval of every metric of every model and composite.

    Args:
        samples: Of :func:`hatevolution.analysis.resample.resample`.
        confidence: That of the samples, which None stands for.

    Returns:
        Columns ``INTERVALS``.

    Raises:
        ValueError: The samples were summed up at another confidence.
    """
    if confidence not in (None, samples.confidence):
        raise ValueError(f"the samples have intervals at {samples.confidence}, not at {confidence}")
    frames = [
        pl.DataFrame({"model": samples.lines, **found._asdict()}).select(
            "model",
            *(pl.lit(part, dtype=pl.String).alias(name) for name, part in zip(key._fields, key, strict=True)),
            pl.col("low", "high").fill_nan(None),
            pl.col("undefined").cast(pl.Int64),
        )
        for key, found in samples.bounds.items()
    ]
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
