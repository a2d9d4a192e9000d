"""Bootstrap resamples as weights: how often each unit of a data set was drawn.

Units are sentences; in sets made of pairs they are pairs, so that the two sentences of one are drawn together. Where a
set has years, units are drawn within their year (the years' sizes are the set's design, not chance); else from the
whole set. All models of a set share the draws, which is what makes differences between them paired.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    from numpy.typing import NDArray

    from hatevolution.analysis.study import DatasetInfo

__all__ = ["BATCH", "Units", "draws", "generator", "units_of"]

BATCH: Final = 250
"""Resamples at a time: bounds the memory (250 x 4120 weights are 4 MB) and is part of what a seed stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What is drawn: units are numbered stratum by stratum."""

    of_sentence: NDArray[np.int64]
    """Unit of each sentence, shape (sentences,)."""
    sizes: tuple[int, ...]
    """Number of units of each stratum."""

    @property
    def count(self) -> int:
        """Number of units."""
        return sum(self.sizes)


def units_of(item: DatasetInfo, sentences: pl.DataFrame) -> Units:
    """Return the units of a set.

    Args:
        item: The set.
        sentences: Its sentences, in order of position.
    """
    count = len(sentences)
    if item.kind == "pairs":
        # A sentence without a partner is a unit of its own.
        keys = [
            f"row {row}" if pair is None else f"pair {pair}" for row, pair in enumerate(sentences["pair"])
        ]  # fmt: skip
        found, of_sentence = np.unique(np.array(keys, dtype=str), return_inverse=True)
        return Units(of_sentence=of_sentence, sizes=(len(found),))
    if item.kind == "years":
        years = sentences["year"].fill_null(-1).to_numpy()
        of_sentence = np.empty(count, dtype=np.int64)
        of_sentence[np.argsort(years, kind="stable")] = np.arange(count)
        return Units(of_sentence=of_sentence, sizes=tuple(np.unique(years, return_counts=True)[1].tolist()))
    return Units(of_sentence=np.arange(count), sizes=(count,))


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the random numbers for one purpose: the same for a seed, whatever else is computed beside it."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def draws(units: Units, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.float32]]:
    """Yield the weights, shape (at most BATCH, units); each row draws every stratum at its own size.

    Weights are small whole numbers, exact in single precision.
    """
    for start in range(0, resamples, BATCH):
        rows = min(BATCH, resamples - start)
        parts = [_tally(rng, rows, size) for size in units.sizes]
        yield parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _tally(rng: np.random.Generator, rows: int, size: int) -> NDArray[np.float32]:
    drawn = rng.integers(0, size, size=(rows, size))
    drawn += np.arange(rows)[:, None] * size
    return np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float32)
