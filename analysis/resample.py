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
from hatevolution.analysis.percentiles import DEFAULT_CONFIDENCE, percentiles
from hatevolution.analysis.weights import draws, generator, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from hatevolution.analysis.contributions import Block
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["DEFAULT_RESAMPLES", "Bounds", "Key", "Samples", "needed_later", "resample"]

DEFAULT_RESAMPLES: Final = 2000
_BLOCKS: Final = 32
"""Groups whose samples are in memory at a time: at 2,000 resamples of 22 models some 100 MB."""


class Key(NamedTuple):
    """Names one metric of one group."""

    dataset: str
    metric: str
    group_key: str | None = None
    group: str | None = None


class Bounds(NamedTuple):
    """The intervals of one metric, each of shape (lines,)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    undefined: NDArray[np.int64]
    """Resamples in which the metric is not defined; they are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What the bootstrap drew."""

    seed: int
    resamples: int
    confidence: float
    lines: tuple[str, ...]
    """Names of the models, then of the composites: the columns of each array."""
    bounds: Mapping[Key, Bounds]
    """Of every metric and group."""
    values: Mapping[Key, NDArray[np.float64]]
    """Shape (resamples, lines), NaN where a metric is not defined in a resample; of the keys that were to be kept."""

    def of(self, key: Key, line: str) -> NDArray[np.float64]:
        """Return one model's values, shape (resamples,)."""
        return self.values[key][:, self.lines.index(line)]


def needed_later(key: Key) -> bool:
    """Return whether ranks, differences or trends need the values of a key, and not its interval alone."""
    return key.group_key in (None, "year")


def resample(
    study: Study,
    *,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    invalid: InvalidPolicy = "drop",
    confidence: float = DEFAULT_CONFIDENCE,
    keep: Callable[[Key], bool] = needed_later,
) -> Samples:
    """Draw resamples of every set and compute every metric in each.

    Args:
        study: The answers.
        seed: Of the random numbers; the same seed gives the same samples, whichever sets are taken.
        resamples: How many.
        invalid: What an invalid answer counts as; not ``raw``, whose classes are not counts of rows.
        confidence: Of the intervals, between 0 and 1.
        keep: Of which keys the values are kept, and not the intervals alone.
    """
    if invalid == "raw":
        raise ValueError("the policy raw has no resamples")
    index = {model.name: number for number, model in enumerate(study.models)}
    members = [[index[name] for name in composite.members] for composite in study.composites]
    values: dict[Key, NDArray[np.float64]] = {}
    bounds: dict[Key, Bounds] = {}
    for item in study.datasets:
        for key, found in _dataset(study, item, seed, resamples, invalid):
            drawn = np.column_stack([found, *(found[:, columns].mean(axis=1) for columns in members)])
            bounds[key] = Bounds(*percentiles(drawn, confidence), np.isnan(drawn).sum(axis=0))
            if keep(key):
                values[key] = drawn
    lines = (*(model.name for model in study.models), *(composite.name for composite in study.composites))
    return Samples(
        seed=seed, resamples=resamples, confidence=confidence, lines=lines, bounds=bounds, values=values
    )  # fmt: skip


def _dataset(
    study: Study, item: DatasetInfo, seed: int, resamples: int, invalid: InvalidPolicy
) -> Iterator[tuple[Key, NDArray[np.float64]]]:
    """Yield the samples of one set, group by group; the draws are made anew, and equal, for every few groups."""
    if item.sentences == 0 or not study.models:
        return
    units = units_of(item, study.of(item.name))
    blocks = _blocks(study, item, units.of_sentence, invalid)
    yearly: dict[Key, NDArray[np.float64]] = {}
    for start in range(0, len(blocks), _BLOCKS):
        found: dict[Key, list[NDArray[np.float64]]] = {}
        for weights in draws(units, resamples, generator(seed, item.name)):
            for (group_key, group), block in blocks[start : start + _BLOCKS]:
                for metric, values in block.metrics(weights).items():
                    found.setdefault(Key(item.name, metric, group_key, group), []).append(values)
        for key, parts in found.items():
            whole = np.concatenate(parts)
            yield key, whole
            if key.group_key == "year":
                yearly[key] = whole
    yield from _over_years(item, yearly)


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


def _over_years(
    item: DatasetInfo, values: Mapping[Key, NDArray[np.float64]]
) -> Iterator[tuple[Key, NDArray[np.float64]]]:
    if item.kind != "years":
        return
    for metric, name in (
        ("macro_f1", "time_sensitive_macro_f1"),
        ("f1_hateful", "f1_hateful_std_over_years"),
        ("f1_nonhateful", "f1_nonhateful_std_over_years"),
    ):
        keys = [Key(item.name, metric, "year", str(year)) for year in item.years]
        if all(key in values for key in keys):
            yearly = np.stack([values[key] for key in keys])
            yield Key(item.name, name), yearly.mean(axis=0) if metric == "macro_f1" else yearly.std(axis=0)
