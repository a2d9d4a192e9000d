"""Everything that resampling, and the comparison of models, adds to the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hatevolution.analysis.agreement import alphas, kappas
from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, intervals
from hatevolution.analysis.paired import differences
from hatevolution.analysis.ranks import rank_probabilities, rank_summary
from hatevolution.analysis.resample import DEFAULT_RESAMPLES, resample
from hatevolution.analysis.robust import Robust, robust
from hatevolution.analysis.trend import base_rates, trends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.resample import Samples
    from hatevolution.analysis.study import Study

__all__ = ["Statistics", "statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is known beyond the scores; each frame's columns are declared in the module that makes it."""

    samples: Samples
    confidence: float
    intervals: pl.DataFrame
    robust: tuple[Robust, ...]
    rank_probabilities: pl.DataFrame
    rank_summaries: Mapping[str, pl.DataFrame]
    """Name of the ranking -> its summary."""
    differences: pl.DataFrame
    trends: pl.DataFrame
    base_rates: pl.DataFrame
    kappas: pl.DataFrame
    alphas: pl.DataFrame

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """Name -> frame, for files and JSON."""
        return {
            "intervals": self.intervals,
            "rank-probabilities": self.rank_probabilities,
            "differences": self.differences,
            "trends": self.trends,
            "base-rates": self.base_rates,
            "kappas": self.kappas,
            "alphas": self.alphas,
        }


def statistics(
    study: Study,
    scores: pl.DataFrame,
    rankings: Sequence[Ranking],
    correlations: Sequence[Correlation],
    *,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    invalid: InvalidPolicy = "drop",
) -> Statistics:
    """Resample a study and compare its models.

    Args:
        study: The answers.
        scores: Tidy.
        rankings: Of the models.
        correlations: Of the rankings.
        seed: Of all random numbers.
        resamples: How many.
        confidence: Of all intervals but those of correlations, which have the study's.
        invalid: What an invalid answer counts as; not ``raw``.
    """
    samples = resample(study, seed=seed, resamples=resamples, invalid=invalid, confidence=confidence)
    return Statistics(
        samples=samples,
        confidence=confidence,
        intervals=intervals(samples),
        robust=tuple(robust(study, rankings, correlations, samples)),
        rank_probabilities=rank_probabilities(study, rankings, samples),
        rank_summaries={ranking.name: rank_summary(study, ranking, samples, confidence) for ranking in rankings},
        differences=differences(study, scores, samples, confidence),
        trends=trends(study, scores, samples, confidence),
        base_rates=base_rates(study),
        kappas=kappas(study),
        alphas=alphas(study),
    )
