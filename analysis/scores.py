"""All scores of a study, tidy: one row per model, data set, metric and group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from hatevolution.analysis.columns import GROUP_KEYS, SCORES, checked
from hatevolution.analysis.counts import COVERAGE, cube
from hatevolution.analysis.metrics import sentence_scores
from hatevolution.analysis.pairs import pair_rows, pair_scores
from hatevolution.analysis.timeline import time_scores

if TYPE_CHECKING:
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import Composite, Study

__all__ = ["scores"]


def scores(study: Study, invalid: InvalidPolicy = "drop") -> pl.DataFrame:
    """Return every score, composites included, in order of data set, model, metric and group.

    Args:
        study: Of :func:`hatevolution.analysis.frames.load`.
        invalid: What an invalid answer counts as.

    Returns:
        Columns ``SCORES``.
    """
    cells = cube(study)
    frames = sentence_scores(study, cells, None, invalid)
    for key in GROUP_KEYS:
        if any(key in item.groups for item in study.datasets):
            frames += sentence_scores(study, cells, key, invalid)
    if any(item.kind == "pairs" for item in study.datasets):
        rows = pair_rows(study)
        for pair_key in (None, "year", "type"):
            frames += pair_scores(rows, pair_key, invalid)
    found = pl.concat(frames)
    found = pl.concat([found, time_scores(study, found)])
    # Ordered before the composites, whose reasons name the first member without a value.
    found = _ordered(found, study)
    found = pl.concat([found, *(_composite(found, item) for item in study.composites)])
    found = found.with_columns(low=pl.lit(None, dtype=pl.Float64), high=pl.lit(None, dtype=pl.Float64))
    return checked(_ordered(found, study), SCORES)


def _composite(found: pl.DataFrame, composite: Composite) -> pl.DataFrame:
    """Return the mean over the members; null where a member has no value. The coverage is the members' together."""
    members = found.filter(pl.col("model").is_in(composite.members))
    blank = pl.col("model").filter(pl.col("value").is_null()).first()
    why = pl.col("reason").filter(pl.col("value").is_null()).first()
    complete = pl.col("value").is_not_null().all()
    return (
        members.group_by("dataset", "metric", "group_key", "group", maintain_order=True)
        .agg(
            pl.when(complete).then(pl.col("value").mean()).alias("value"),
            pl.when(~complete).then(pl.format("member {}: {}", blank, why)).alias("reason"),
            *(pl.col(column).sum() for column in COVERAGE),
        )
        .with_columns(model=pl.lit(composite.name))
        .select(found.columns)
    )


def _ordered(found: pl.DataFrame, study: Study) -> pl.DataFrame:
    models = [*(item.name for item in study.models), *(item.name for item in study.composites)]
    datasets = [item.name for item in study.datasets]
    return (
        found.with_columns(
            pl.col("dataset").replace_strict(datasets, range(len(datasets)), return_dtype=pl.UInt32).alias("_dataset"),
            pl.col("model").replace_strict(models, range(len(models)), return_dtype=pl.UInt32).alias("_model"),
            pl.col("group_key").replace_strict(
                list(GROUP_KEYS), range(len(GROUP_KEYS)), default=-1, return_dtype=pl.Int32
            ).alias("_key"),
        )
        .sort("_dataset", "_model", "_key", "metric", "group", maintain_order=True)
        .drop("_dataset", "_model", "_key")
    )  # fmt: skip
