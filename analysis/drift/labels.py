"""Which answers changed, and how: counts, shares, and whether the labels moved to one side.

Intervals of shares are Wilson's (Wilson 1927, *Journal of the American Statistical Association* 22, 209-212), as scipy
computes them. Whether more labels became toxic than respectful is McNemar's exact test on the two counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from scipy import stats

from hatevolution.analysis.columns import code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hatevolution.analysis.study import Study

__all__ = ["CHANGES", "DRIFT_LABELS", "counts", "label_drift"]

CHANGES: Final = (
    "toxic → respectful",
    "respectful → toxic",
    "valid → invalid",
    "invalid → valid",
    "answer → no answer",
    "no answer → answer",
)
"""A valid answer is toxic or respectful; an invalid one breaks the instruction; none is a refused or rejected sentence.
"""

DRIFT_LABELS: Final = {
    "dataset": pl.String,  # null: all together
    "change": pl.String,  # one of CHANGES; null: any of them
    "count": pl.Int64,
    "n": pl.Int64,  # sentences that both have a prediction for
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p_symmetry": pl.Float64,  # of label changes to either side, beside "any"; null where there is none
}


def counts(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> list[int]:
    """Return how often each of :data:`CHANGES` occurs.

    Args:
        old: Codes of outcomes, shape (sentences,), none of them ``missing``.
        new: Of the same sentences.
    """
    toxic, respectful = ((old == code(name), new == code(name)) for name in ("toxic", "respectful"))
    valid = [toxic[side] | respectful[side] for side in (0, 1)]
    broken = [np.isin(codes, (code("invalid"), code("ambiguous"))) for codes in (old, new)]
    none = [~valid[side] & ~broken[side] for side in (0, 1)]
    changes = (
        toxic[0] & respectful[1],
        respectful[0] & toxic[1],
        valid[0] & broken[1],
        broken[0] & valid[1],
        ~none[0] & none[1],
        none[0] & ~none[1],
    )
    return [int(change.sum()) for change in changes]


def label_drift(shared: Study, old: int, new: int, confidence: float) -> pl.DataFrame:
    """Count the changes on every set, and on all together where there are several.

    Args:
        shared: Of :func:`hatevolution.analysis.drift.shared.shared_study`.
        old: Place of the older model in it.
        new: Place of the newer one.
        confidence: Of the intervals.

    Returns:
        Columns ``DRIFT_LABELS``.
    """
    found: list[tuple[str | None, list[int], int]] = []
    for item in shared.datasets:
        outcomes = shared.outcomes(item.name)
        found.append((item.name, counts(outcomes[old], outcomes[new]), item.sentences))
    if len(found) > 1:
        together = [sum(column) for column in zip(*(own for _, own, _ in found), strict=True)]
        found.append((None, together, sum(n for _, _, n in found)))
    rows = [row for dataset, own, n in found for row in _rows(dataset, own, n, confidence)]
    return pl.DataFrame(rows, schema=DRIFT_LABELS, orient="row")


_Row = tuple[str | None, str | None, int, int, float, float, float, float | None]


def _rows(dataset: str | None, own: list[int], n: int, confidence: float) -> list[_Row]:
    # The changes exclude each other, so that their sum is the number of sentences with any.
    one, other = own[:2]
    symmetry = float(stats.binomtest(one, one + other).pvalue) if one + other else None
    rows: list[_Row] = []
    for change, count in ((None, sum(own)), *zip(CHANGES, own, strict=True)):
        between = stats.binomtest(count, n).proportion_ci(confidence, method="wilson")
        p = symmetry if change is None else None
        rows.append((dataset, change, count, n, count / n, float(between.low), float(between.high), p))
    return rows
