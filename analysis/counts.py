"""How often each outcome occurs: the one aggregation over all rows, from which every rate of sentences follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.columns import GROUP_KEYS
from hatevolution.domain import Role

if TYPE_CHECKING:
    from hatevolution.analysis.study import Study

__all__ = ["COVERAGE", "by_gold", "by_group", "coverage", "cube", "distinct_texts", "tallies"]

COVERAGE: Final = ("n", "scored", "invalid", "refused", "rejected", "missing")
"""What every number is accompanied by; the first is the sum of the others."""

_STRATUM: Final = ("dataset", "gold", *GROUP_KEYS)


def cube(study: Study) -> pl.DataFrame:
    """Count the rows of every combination of model, gold label, groups and outcome.

    Returns:
        Columns dataset, model, gold, year, type, role, functionality, target, outcome, count.
    """
    strata = study.sentences.select(_STRATUM).unique(maintain_order=True).with_row_index("stratum")
    counted = (
        study.answers.select("model", "outcome")
        .with_columns(stratum=_per_row(study, strata))
        .group_by("model", "stratum", "outcome")
        .agg(count=pl.len().cast(pl.Int64))
    )
    return counted.join(strata, on="stratum").select(*_STRATUM, "model", "outcome", "count")


def distinct_texts(study: Study, key: str | None) -> pl.DataFrame:
    """Count the different invalid answers of each group, for the policy ``raw``.

    Returns:
        Columns dataset, model, group (text; null for the whole set), distinct.
    """
    strata = study.sentences.select(_STRATUM).unique(maintain_order=True).with_row_index("stratum")
    rows = (
        study.answers.select("model", "outcome", "text")
        .with_columns(stratum=_per_row(study, strata))
        .filter(pl.col("outcome").is_in(["invalid", "ambiguous"]))
        .join(strata, on="stratum")
    )
    return (
        _f1_rows(rows, study, key)
        .with_columns(_group(key))
        .group_by("dataset", "model", "group")
        .agg(distinct=pl.col("text").n_unique().cast(pl.Int64))
    )


def by_gold(cells: pl.DataFrame, study: Study, key: str | None) -> pl.DataFrame:
    """Tally what F1 stands on: the sentences with a gold label, of paired sets the originals alone.

    Args:
        cells: Of :func:`cube`.
        study: Where they come from.
        key: One of ``GROUP_KEYS``; None for whole sets.
    """
    return by_group(_f1_rows(cells, study, key), key)


def by_group(cells: pl.DataFrame, key: str | None) -> pl.DataFrame:
    """Tally the cells of each model, data set and group; a group that is null is left out."""
    rows = cells if key is None else cells.filter(pl.col(key).is_not_null())
    return rows.with_columns(_group(key)).group_by("dataset", "model", "group").agg(*coverage(), *tallies())


def coverage() -> list[pl.Expr]:
    """Return the aggregations behind :data:`COVERAGE`, over columns outcome and count."""
    return [
        pl.col("count").sum().alias("n"),
        _sum(pl.col("outcome").is_in(["toxic", "respectful"])).alias("scored"),
        _sum(_invalid()).alias("invalid"),
        *(_sum(pl.col("outcome") == name).alias(name) for name in ("refused", "rejected", "missing")),
    ]


def tallies() -> list[pl.Expr]:
    """Return the aggregations of the confusion matrix; ``toxic`` is the positive class.

    ``tp``, ``fn``, ``fp``, ``tn`` are of valid answers. ``invalid_*`` are broken answers to sentences of that gold
    label, ``open_*`` sentences of it without an answer (refused, rejected, missing).
    """
    toxic, respectful = pl.col("gold") == "toxic", pl.col("gold") == "respectful"
    says_toxic, says_respectful = pl.col("outcome") == "toxic", pl.col("outcome") == "respectful"
    unanswered = pl.col("outcome").is_in(["refused", "rejected", "missing"])
    return [
        _sum(toxic & says_toxic).alias("tp"),
        _sum(toxic & says_respectful).alias("fn"),
        _sum(respectful & says_toxic).alias("fp"),
        _sum(respectful & says_respectful).alias("tn"),
        _sum(toxic & _invalid()).alias("invalid_toxic"),
        _sum(respectful & _invalid()).alias("invalid_respectful"),
        _sum(toxic & unanswered).alias("open_toxic"),
        _sum(respectful & unanswered).alias("open_respectful"),
    ]


def _f1_rows(cells: pl.DataFrame, study: Study, key: str | None) -> pl.DataFrame:
    cells = cells.filter(pl.col("gold").is_not_null())
    paired = [item.name for item in study.datasets if item.kind == "pairs"]
    if key == "role" or not paired:
        return cells
    # The study's macro F1 of Experiment 2 is of the answers to s1, the originals (Table 4).
    return cells.filter(~pl.col("dataset").is_in(paired) | (pl.col("role") == Role.ORIGINAL.value))


def _per_row(study: Study, strata: pl.DataFrame) -> pl.Series:
    """Return the stratum of every row of the answers, by repeating each set's column once per model."""
    column = study.sentences.select(_STRATUM).join(
        strata, on=list(_STRATUM), how="left", nulls_equal=True, maintain_order="left"
    )["stratum"]
    parts, start = [np.zeros(0, dtype=np.uint32)], 0
    for item in study.datasets:
        parts.append(np.tile(column.slice(start, item.sentences).to_numpy(), len(study.models)))
        start += item.sentences
    return pl.Series(np.concatenate(parts))


def _group(key: str | None) -> pl.Expr:
    return (pl.lit(None, dtype=pl.String) if key is None else pl.col(key).cast(pl.String)).alias("group")


def _invalid() -> pl.Expr:
    return pl.col("outcome").is_in(["invalid", "ambiguous"])


def _sum(condition: pl.Expr) -> pl.Expr:
    return pl.col("count").filter(condition).sum()
