"""Do models get worse with time? One table for each set with years."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hatevolution.analysis.report_page.figures.figure import slug
from hatevolution.analysis.report_page.intervals import CONFIDENCE
from hatevolution.analysis.report_page.tables import Heading, PageCell, PageTable
from hatevolution.analysis.tables.table import slope_text

if TYPE_CHECKING:
    from hatevolution.analysis.report_page.content import Content
    from hatevolution.analysis.study import DatasetInfo

__all__ = ["trend_tables"]

_METRICS: Final = {
    "macro_f1": "Macro F1",
    "f1_hateful": "F1 of hateful",
    "f1_nonhateful": "F1 of non-hateful",
    "balanced_accuracy": "Balanced accuracy",
}


def trend_tables(content: Content) -> tuple[PageTable, ...]:
    """Return the tables of the sets with three years or more; none without a bootstrap."""
    found = content.uncertainty.trends
    if found is None:
        return ()
    sets = [item for item in content.report.study.datasets if item.kind == "years" and len(item.years) > 2]
    return tuple(_table(content, item, found.filter(pl.col("dataset") == item.name)) for item in sets)


def _table(content: Content, item: DatasetInfo, rows: pl.DataFrame) -> PageTable:
    study = content.report.study
    known = {(row["model"], row["metric"]): row for row in rows.iter_rows(named=True)}
    titles = {model.name: model.title for model in study.single_models}
    titles |= {composite.name: composite.name for composite in study.composites}
    base = rows["base_rate_slope"].drop_nulls()
    notes = [
        "Least squares over the years; a negative slope gets worse. Below it the "
        f"{100 * CONFIDENCE:.0f} % interval when sentences are drawn anew within their years."
    ]
    if len(base):
        notes.append(
            f"Meanwhile the share of hateful sentences moved by {100 * base[0]:+.2f} percentage points per year, and "
            "F1 moves with it; balanced accuracy does not."
        )
    return PageTable(
        id=f"table-trend-{slug(item.name)}",
        caption=f"{item.title}: change per year",
        corner="Model",
        over=(),
        headings=tuple(Heading(name, None, number=True) for name in _METRICS.values()),
        rows=tuple(
            (title, tuple(_cell(known.get((name, metric))) for metric in _METRICS)) for name, title in titles.items()
        ),
        notes=tuple(notes),
    )


def _cell(row: dict[str, Any] | None) -> PageCell:
    if row is None or row["slope"] is None:
        return PageCell("–")
    low, high = row["bootstrap_low"], row["bootstrap_high"]
    interval = "" if low is None or high is None else f"{slope_text(low)} to {slope_text(high)}"
    return PageCell(slope_text(row["slope"]), row["slope"], interval)
