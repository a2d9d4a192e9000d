"""Experiment 1: metrics over the years of a set.

Time-sensitive macro F1 is the mean over years of each year's macro F1 (paper, section 3.3), which is the mean of all
yearly F1 figures of both labels. The published standard deviations (Table A1) are over years, population form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.counts import COVERAGE

if TYPE_CHECKING:
    from hatevolution.analysis.study import Study

__all__ = ["TIME_METRICS", "time_scores"]

TIME_METRICS: Final = ("time_sensitive_macro_f1", "f1_hateful_std_over_years", "f1_nonhateful_std_over_years")


def time_scores(study: Study, scores: pl.DataFrame) -> pl.DataFrame:
    """Return the metrics over years; a year in which one is not defined makes it null, with that year in the reason.

    Args:
        study: Tells which years count (``DatasetInfo.years``).
        scores: Tidy, with the groups by year.
    """
    frames = [scores.clear()]
    for item in study.datasets:
        if item.kind != "years":
            continue
        years = [str(year) for year in item.years]
        yearly = scores.filter(
            (pl.col("dataset") == item.name) & (pl.col("group_key") == "year") & pl.col("group").is_in(years)
        )
        mean, deviation = pl.col("value").mean(), pl.col("value").std(ddof=0)
        for name, base, value in zip(
            TIME_METRICS, ("macro_f1", "f1_hateful", "f1_nonhateful"), (mean, deviation, deviation), strict=True
        ):
            frames.append(_over_years(yearly.filter(pl.col("metric") == base), name, value))
    return pl.concat(frames)


def _over_years(yearly: pl.DataFrame, name: str, value: pl.Expr) -> pl.DataFrame:
    undefined = pl.struct("group", "reason").filter(pl.col("value").is_null())
    defined = pl.col("value").is_not_null().all()
    return (
        yearly.sort("group", maintain_order=True)
        .group_by("model", "dataset", maintain_order=True)
        .agg(
            pl.lit(name).alias("metric"),
            pl.lit(None, dtype=pl.String).alias("group_key"),
            pl.lit(None, dtype=pl.String).alias("group"),
            pl.when(defined).then(value).alias("value"),
            undefined.alias("reason"),
            *(pl.col(column).sum() for column in COVERAGE),
        )
        .with_columns(pl.col("reason").map_elements(_reason, return_dtype=pl.String))
    )


def _reason(undefined: pl.Series) -> str | None:
    """Say for which years there is no value and why: years differ in the label that they lack."""
    years: dict[str, list[str]] = {}
    for row in undefined:
        years.setdefault(row["reason"], []).append(row["group"])
    said = "; ".join(f"in {', '.join(found)}: {reason}" for reason, found in years.items())
    return f"not defined {said}" if said else None
