"""Do models get worse with time? Slopes over the years, beside what moves without any model.

A year's F1 moves with its share of hateful texts: the same model on the same kind of texts scores higher F1 of a label
that is more frequent. So the share of hateful texts and its slope stand beside every trend, and the trend of balanced
accuracy, which does not depend on that share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from scipy import stats

from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, percentiles
from hatevolution.analysis.resample import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hatevolution.analysis.resample import Samples
    from hatevolution.analysis.study import Study

__all__ = ["BASE_RATES", "TRENDS", "TREND_METRICS", "base_rates", "trends"]

TREND_METRICS: Final = ("macro_f1", "f1_hateful", "f1_nonhateful", "balanced_accuracy")

TRENDS: Final = {
    "dataset": pl.String,
    "model": pl.String,
    "metric": pl.String,
    "years": pl.Int64,
    "slope": pl.Float64,  # per year, least squares
    "low": pl.Float64,  # interval by Student's t, n - 2 degrees of freedom
    "high": pl.Float64,
    "p_value": pl.Float64,
    "theil_sen": pl.Float64,
    "theil_sen_low": pl.Float64,
    "theil_sen_high": pl.Float64,
    "bootstrap_low": pl.Float64,  # over sentences; null without samples
    "bootstrap_high": pl.Float64,
    "base_rate_slope": pl.Float64,  # of the share of hateful texts, the same for all models
}

BASE_RATES: Final = {
    "dataset": pl.String,
    "year": pl.Int64,
    "sentences": pl.Int64,
    "hateful": pl.Int64,
    "share": pl.Float64,
}


def base_rates(study: Study) -> pl.DataFrame:
    """Return the share of hateful texts in each year of each set with years.

    Returns:
        Columns ``BASE_RATES``.
    """
    frames = [pl.DataFrame(schema=BASE_RATES)]
    for item in study.datasets:
        if item.kind == "years":
            rows = study.of(item.name).filter(pl.col("gold").is_not_null() & pl.col("year").is_in(item.years))
            frames.append(
                rows.group_by(pl.col("year").cast(pl.Int64))
                .agg(
                    pl.lit(item.name).alias("dataset"),
                    pl.len().cast(pl.Int64).alias("sentences"),
                    (pl.col("gold") == "toxic").sum().cast(pl.Int64).alias("hateful"),
                )
                .with_columns(share=pl.col("hateful") / pl.col("sentences"))
                .sort("year")
                .select(list(BASE_RATES))
            )
    return pl.concat(frames)


def trends(
    study: Study, scores: pl.DataFrame, samples: Samples | None = None, confidence: float = DEFAULT_CONFIDENCE
) -> pl.DataFrame:
    """Return the slopes over the years; years in which a metric is not defined are left out, below three give null.

    Args:
        study: The answers.
        scores: Tidy, with the groups by year.
        samples: The joint bootstrap; None leaves its intervals out.
        confidence: Of all intervals.

    Returns:
        Columns ``TRENDS``.
    """
    rates = base_rates(study)
    yearly = {
        (dataset, model, metric, group): value
        for dataset, model, metric, group, value in scores.filter(pl.col("group_key") == "year")
        .select("dataset", "model", "metric", "group", "value")
        .iter_rows()
    }
    lines = [*(model.name for model in study.models), *(composite.name for composite in study.composites)]
    rows = []
    for item in study.datasets:
        if item.kind != "years":
            continue
        own = rates.filter(rates["dataset"] == item.name)
        base = _least_squares(own["year"].to_numpy(), own["share"].to_numpy(), confidence)
        for name in lines:
            for metric in TREND_METRICS:
                values = [yearly.get((item.name, name, metric, str(year))) for year in item.years]
                known = {year: value for year, value in zip(item.years, values, strict=True) if value is not None}
                drawn = _drawn(item.name, list(known), name, metric, samples, confidence)
                rows.append((item.name, name, metric, *_trend(known, confidence), *drawn, base[0]))
    return pl.DataFrame(rows, schema=TRENDS, orient="row")


_Number = float | None


def _trend(
    known: Mapping[int, float], confidence: float
) -> tuple[int, _Number, _Number, _Number, _Number, _Number, _Number, _Number]:
    years, found = np.array(list(known), dtype=np.float64), np.array(list(known.values()), dtype=np.float64)
    line = _least_squares(years, found, confidence)
    if len(known) < 3:
        return len(known), *line, None, None, None
    robust = stats.theilslopes(found, years, alpha=confidence)
    return len(known), *line, float(robust.slope), float(robust.low_slope), float(robust.high_slope)


def _least_squares(
    years: NDArray[np.float64], values: NDArray[np.float64], confidence: float
) -> tuple[_Number, _Number, _Number, _Number]:
    if len(years) < 3:
        return None, None, None, None
    if np.all(values == values[0]):
        return 0.0, 0.0, 0.0, None  # nothing to test: scipy's p-value is not defined here
    line = stats.linregress(years, values)
    half = float(stats.t.ppf(0.5 + confidence / 2.0, len(years) - 2) * line.stderr)
    return float(line.slope), float(line.slope) - half, float(line.slope) + half, float(line.pvalue)


def _drawn(
    dataset: str, known: list[int], name: str, metric: str, samples: Samples | None, confidence: float
) -> tuple[_Number, _Number]:
    keys = [Key(dataset, metric, "year", str(year)) for year in known]
    if samples is None or len(keys) < 3 or any(key not in samples.values for key in keys):
        return None, None
    years = np.array(known, dtype=np.float64)
    centred = years - years.mean()
    # A least-squares slope is a fixed weighted sum of the yearly values.
    slopes = np.column_stack([samples.of(key, name) for key in keys]) @ (centred / (centred @ centred))
    low, high = percentiles(slopes.reshape(-1, 1), confidence)
    return (None, None) if np.isnan(low[0]) else (float(low[0]), float(high[0]))
