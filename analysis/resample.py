"""The joint bootstrap: every metric of every model in every resample, by a few matrix products.

A metric is a function of counts, and a count in a resample is the sum of the drawn units' contributions: weights times
contributions. One product per data set and group therefore gives the counts of all models in all resamples: all metrics
of 21 models in the time that scipy.stats.bootstrap takes for a score of them, and with the same draws for all models,
which paired differences and ranks need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hatevolution.analysis.columns import GROUP_KEYS
from hatevolution.analysis.contributions import pair_block, sentence_block
from hatevolution.analysis.weights import draws, generator, units_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hatevolution.analysis.contributions import Block
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["DEFAULT_RESAMPLES", "Key", "Samples", "resample"]

DEFAULT_RESAMPLES: Final = 2000


class Key(NamedTuple):
    """Names one metric of one group."""

    dataset: str
    metric: str
    group_key: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What the bootstrap drew."""

    seed: int
    resamples: int
    lines: tuple[str, ...]
    """Names of the models, then of the composites: the columns of each array."""
    values: Mapping[Key, NDArray[np.float64]]
    """Shape (resamples, lines); NaN where a metric is not defined in a resample."""

    def of(self, key: Key, line: str) -> NDArray[np.float64]:
        """Return one model's values, shape (resamples,)."""
        return self.values[key][:, self.lines.index(line)]


def resample(
    study: Study, *, seed: int, resamples: int = DEFAULT_RESAMPLES, invalid: InvalidPolicy = "drop"
) -> Samples:
    """Draw resamples of every set and compute every metric in each.

    Args:
        study: The answers.
        seed: Of the random numbers; the same seed gives the same samples, whichever sets are taken.
        resamples: How many.
        invalid: What an invalid answer counts as; not ``raw``, whose classes are not counts of rows.
    """
    if invalid == "raw":
        raise ValueError("the policy raw has no resamples")
    values: dict[Key, NDArray[np.float64]] = {}
    for item in study.datasets:
        values |= _dataset(study, item, seed, resamples, invalid)
        values |= _over_years(item, values)
    index = {model.name: number for number, model in enumerate(study.models)}
    members = [[index[name] for name in composite.members] for composite in study.composites]
    if members:
        values = {
            key: np.column_stack([found, *(found[:, columns].mean(axis=1) for columns in members)])
            for key, found in values.items()
        }
    lines = (*(model.name for model in study.models), *(composite.name for composite in study.composites))
    return Samples(seed=seed, resamples=resamples, lines=lines, values=values)


def _dataset(
    study: Study, item: DatasetInfo, seed: int, resamples: int, invalid: InvalidPolicy
) -> dict[Key, NDArray[np.float64]]:
    if item.sentences == 0 or not study.models:
        return {}
    sentences = study.of(item.name)
    units = units_of(item, sentences)
    blocks = _blocks(study, item, units.of_sentence, invalid)
    found: dict[Key, list[NDArray[np.float64]]] = {}
    for weights in draws(units, resamples, generator(seed, item.name)):
        for (group_key, group), block in blocks:
            for metric, values in block.metrics(weights).items():
                found.setdefault(Key(item.name, metric, group_key, group), []).append(values)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _blocks(
    study: Study, item: DatasetInfo, unit: NDArray[np.int64], invalid: InvalidPolicy
) -> list[tuple[tuple[str | None, str | None], Block]]:
    sentences, outcomes = study.of(item.name), study.outcomes(item.name)
    groups: list[tuple[str | None, str | None, NDArray[np.bool_]]] = [(None, None, np.ones(item.sentences, dtype=bool))]
    for name in GROUP_KEYS:
        if name in item.groups:
            column = sentences[name]
            groups += [
                (name, str(group), (column == group).fill_null(value=False).to_numpy())
                for group in column.drop_nulls().unique().sort()
            ]
    blocks: list[tuple[tuple[str | None, str | None], Block]] = []
    for key, group, rows in groups:
        blocks.append(((key, group), sentence_block(item, key, sentences, outcomes, rows, unit, invalid)))
        if item.kind == "pairs" and key in (None, "year", "type"):
            blocks.append(((key, group), pair_block(sentences, outcomes, rows, unit, invalid)))
    return blocks


def _over_years(item: DatasetInfo, values: Mapping[Key, NDArray[np.float64]]) -> dict[Key, NDArray[np.float64]]:
    if item.kind != "years":
        return {}
    found = {}
    yearly = {
        metric: np.stack([values[Key(item.name, metric, "year", str(year))] for year in item.years])
        for metric in ("macro_f1", "f1_hateful", "f1_nonhateful")
        if Key(item.name, metric, "year", str(item.years[0])) in values
    }
    if "macro_f1" in yearly:
        found[Key(item.name, "time_sensitive_macro_f1")] = yearly["macro_f1"].mean(axis=0)
    for name in ("f1_hateful", "f1_nonhateful"):
        if name in yearly:
            found[Key(item.name, f"{name}_std_over_years")] = yearly[name].std(axis=0)
    return found
