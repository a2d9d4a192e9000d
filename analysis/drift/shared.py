"""The sentences that both models have answered, as a study of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from hatevolution.analysis.columns import ANSWERS, SENTENCES, checked, code

if TYPE_CHECKING:
    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["shared_study"]


def shared_study(study: Study) -> Study:
    """Return the study of those sentences for which every model has a prediction, whatever it came to.

    Data sets without such a sentence are left out. What remains is as dense as before: positions count anew.
    """
    masks = {item.name: (study.outcomes(item.name) != code("missing")).all(axis=0) for item in study.datasets}
    kept = [item for item in study.datasets if masks[item.name].any()]
    nothing = np.zeros(0, dtype=np.bool_)
    of_sentences = np.concatenate([nothing, *(masks[item.name] for item in study.datasets)])
    of_answers = np.concatenate([nothing, *(np.tile(masks[item.name], len(study.models)) for item in study.datasets)])
    names = pl.Enum([item.name for item in kept])
    sentences = _counted(study.sentences.filter(pl.Series(of_sentences)), names, ["dataset"])
    answers = _counted(study.answers.filter(pl.Series(of_answers)), names, ["dataset", "model"])
    return replace(
        study,
        datasets=tuple(_info(item, sentences.filter(pl.col("dataset") == item.name)) for item in kept),
        sentences=checked(sentences, SENTENCES),
        answers=checked(answers, ANSWERS),
    )


def _counted(frame: pl.DataFrame, names: pl.Enum, within: list[str]) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("dataset").cast(pl.String).cast(names),
        pl.int_range(pl.len(), dtype=pl.UInt32).over(within).alias("position"),
    )


def _info(item: DatasetInfo, own: pl.DataFrame) -> DatasetInfo:
    present = set(own["year"].drop_nulls())
    both = own.filter(pl.col("pair").is_not_null() & pl.col("role").is_not_null())
    return replace(
        item,
        sentences=own.height,
        pairs=both["pair"].n_unique() if item.pairs else 0,
        labelled=own["gold"].count(),
        years=tuple(year for year in item.years if year in present),
        outside=own.filter(pl.col("year").is_not_null() & ~pl.col("year").is_in(item.years)).height,
        groups=tuple(key for key in item.groups if own[key].count()),
    )
