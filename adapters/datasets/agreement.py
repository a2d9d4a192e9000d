"""How far annotators agree beyond chance."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Agreement", "annotator_agreement"]


class Agreement(NamedTuple):
    """Agreement of several annotators who judged the same items; None where chance agreement is already complete."""

    items: int
    mean_cohen_kappa: float | None
    """Mean of Cohen's kappa over all pairs of annotators."""
    fleiss_kappa: float | None


def annotator_agreement(votes: Sequence[Sequence[str]]) -> Agreement:
    """Return the agreement of annotators.

    Args:
        votes: For each item the labels given, one of each annotator, in the same order of annotators; at least one
            item and two annotators.

    References:
        Cohen, J. (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement
        20(1), equation 1. Fleiss, J. L. (1971). Measuring nominal scale agreement among many raters. Psychological
        Bulletin 76(5), equations 1 to 7.

    Examples:
        >>> round(annotator_agreement([("a", "a", "a"), ("b", "b", "a"), ("b", "b", "b")]).fleiss_kappa, 4)
        0.55
    """
    _, codes = np.unique(np.array(votes, dtype=object).astype(str), return_inverse=True)
    table = codes.reshape(len(votes), -1)
    given = np.eye(codes.max() + 1, dtype=np.int64)[table]  # items x annotators x categories
    shares = given.mean(axis=0)  # annotators x categories
    cohen = [
        _beyond_chance(float((table[:, a] == table[:, b]).mean()), float(shares[a] @ shares[b]))
        for a, b in combinations(range(table.shape[1]), 2)
    ]
    raters = table.shape[1]
    counts = given.sum(axis=1)  # items x categories
    observed = ((counts**2).sum(axis=1) - raters) / (raters * (raters - 1))
    by_chance = float((shares.mean(axis=0) ** 2).sum())
    defined = [kappa for kappa in cohen if kappa is not None]
    return Agreement(
        items=len(votes),
        mean_cohen_kappa=fmean(defined) if len(defined) == len(cohen) else None,
        fleiss_kappa=_beyond_chance(float(observed.mean()), by_chance),
    )


def _beyond_chance(observed: float, expected: float) -> float | None:
    return None if expected == 1.0 else (observed - expected) / (1.0 - expected)
