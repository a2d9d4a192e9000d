"""What the page says of uncertainty: intervals of scores, of ranks and of correlations, all from one bootstrap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, intervals, with_intervals
from hatevolution.analysis.ranks import rank_summary
from hatevolution.analysis.resample import resample
from hatevolution.analysis.robust import robust
from hatevolution.analysis.trend import trends

if TYPE_CHECKING:
    import polars as pl

    from hatevolution.analysis.report import Report
    from hatevolution.analysis.robust import Robust
    from hatevolution.analysis.study import Study

__all__ = ["CONFIDENCE", "Uncertainty", "uncertainty"]

CONFIDENCE = DEFAULT_CONFIDENCE
"""Of the bootstrap's intervals of scores and ranks."""


class Uncertainty(NamedTuple):
    """What the bootstrap says."""

    scores: pl.DataFrame
    """Tidy, with ``low`` and ``high``; all null where there was no bootstrap."""
    ranks: tuple[pl.DataFrame, ...]
    """One for each ranking, columns model, rank, low, high, mean, first; empty without a bootstrap."""
    correlations: tuple[Robust, ...]
    """One for each correlation; empty without a bootstrap."""
    trends: pl.DataFrame | None
    """Columns ``TRENDS``; None without a bootstrap."""


def uncertainty(report: Report, *, seed: int, resamples: int) -> Uncertainty:
    """Draw the bootstrap; there is none for 0 resamples, nor where every invalid text is a class of its own (``raw``).

    Args:
        report: A scored store.
        seed: Of the random numbers.
        resamples: How many.
    """
    if resamples == 0 or report.invalid == "raw":
        return Uncertainty(report.scores, (), (), None)
    drawn = resample(_timed(report.study), seed=seed, resamples=resamples, invalid=report.invalid)
    return Uncertainty(
        with_intervals(report.scores, intervals(drawn, CONFIDENCE)),
        tuple(rank_summary(report.study, ranking, drawn, CONFIDENCE) for ranking in report.rankings),
        tuple(robust(report.study, report.rankings, report.correlations, drawn)),
        trends(report.study, report.scores, drawn, CONFIDENCE),
    )


def _timed(study: Study) -> Study:
    """Return a study without the groups whose intervals the page does not show; the draws stay the same."""
    sets = (
        replace(item, groups=tuple(key for key in item.groups if key in ("year", "type"))) for item in study.datasets
    )
    return replace(study, datasets=tuple(sets))
