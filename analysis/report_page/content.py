"""Everything that a page shows, gathered from a store in one pass."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from hatevolution.analysis import report as scored
from hatevolution.analysis.report_page.broken import Broken, broken
from hatevolution.analysis.report_page.figures.kinds import kinds_figure
from hatevolution.analysis.report_page.figures.matrix import matrix_figure
from hatevolution.analysis.report_page.figures.rates import rate_figures
from hatevolution.analysis.report_page.figures.slopes import slope_figure
from hatevolution.analysis.report_page.figures.years import years_figure
from hatevolution.analysis.report_page.intervals import Uncertainty, uncertainty
from hatevolution.analysis.report_page.provenance import Provenance, provenance
from hatevolution.analysis.tables.context import context

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from hatevolution.analysis.report import Report
    from hatevolution.analysis.report_page.figures import Figure

__all__ = ["Content", "Options", "gather"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a report is made; with the same options, the same store gives the same page."""

    parser: str = "paper"
    """Name or TOML path of a parse policy."""
    invalid: str = "drop"
    """What an invalid answer counts as."""
    seed: int = 1
    """Of the intervals and of the samples."""
    resamples: int = 1000
    """Of the bootstrap behind the intervals; 0 for no intervals."""
    samples: int = 3
    """Samples of broken answers of each model and kind; 0 for none."""
    models: tuple[str, ...] | None = None
    """Only these; None for all."""
    datasets: tuple[str, ...] | None = None
    """Only these; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a page shows."""

    options: Options
    made_at: dt.datetime
    versions: dict[str, str]
    """Of this program and of what it calculates and draws with."""
    report: Report
    provenance: Provenance
    broken: Broken
    uncertainty: Uncertainty
    year_figures: tuple[Figure, ...]
    pair_figures: tuple[Figure, ...]
    rank_figures: tuple[Figure, ...]
    broken_figures: tuple[Figure, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All of them, in the order of the page."""
        return (*self.year_figures, *self.pair_figures, *self.rank_figures, *self.broken_figures)


_PACKAGES: Final = ("hatevolution", "matplotlib", "numpy", "polars", "scipy")
_YEARS: Final = "years"
_PAIRS: Final = "pairs"


def gather(store: Path | str, options: Options, made_at: dt.datetime | None = None) -> Content:
    """Read and score a store.

    Args:
        store: Its path.
        options: How to read it.
        made_at: The time to print; None for now.

    Raises:
        StoreError: The store can't be read.
        ConfigError: A name or policy is not known.
    """
    report = scored.make(
        store, parser=options.parser, invalid=options.invalid, models=options.models, datasets=options.datasets
    )
    study = report.study
    titles = {model.name: model.title for model in study.models}
    records = _those_of(provenance(store), titles.keys(), {item.name for item in study.datasets})
    answered = {name: sum(cell.answered for cell in records.cells if cell.model == name) for name in titles}
    found = broken(
        store,
        parser=options.parser,
        models=options.models,
        datasets=options.datasets,
        answered=answered,
        samples=options.samples,
        seed=options.seed,
    )
    sure = uncertainty(report, seed=options.seed, resamples=options.resamples)
    view = context(study, report.scores, report.invalid)
    return Content(
        options=options,
        made_at=made_at or dt.datetime.now(dt.UTC),
        versions=_versions(),
        report=report,
        provenance=records,
        broken=found,
        uncertainty=sure,
        year_figures=tuple(years_figure(view, sure.scores, item) for item in study.datasets if item.kind == _YEARS),
        pair_figures=tuple(
            figure
            for item in study.datasets
            if item.kind == _PAIRS
            for figure in rate_figures(view, sure.scores, item)
        ),
        rank_figures=_present(
            slope_figure(report.rankings, report.correlations, titles),
            matrix_figure([item.name for item in report.rankings], report.correlations),
        ),
        broken_figures=_present(kinds_figure(found.counts, titles)),
    )  # fmt: skip


def _those_of(records: Provenance, models: Collection[str], datasets: Collection[str]) -> Provenance:
    """Return what is known of these models and sets alone."""
    return records._replace(
        cells=tuple(cell for cell in records.cells if cell.model in models and cell.dataset in datasets),
        models=tuple(item for item in records.models if item.model in models),
        datasets=tuple(item for item in records.datasets if item.dataset in datasets),
        spend=tuple(item for item in records.spend if item.model in models),
    )


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _present(*figures: Figure | None) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure is not None)
