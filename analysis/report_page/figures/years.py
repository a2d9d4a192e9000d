"""F1 of either label over the years, one small plot per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.metrics import counted
from hatevolution.analysis.report_page.figures.figure import Figure, Key, Panel, slug
from hatevolution.analysis.report_page.figures.style import COLOURS, MARKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hatevolution.analysis.study import DatasetInfo
    from hatevolution.analysis.tables.context import Context

__all__ = ["years_figure"]

_LABELS: Final = (("f1_hateful", "hateful"), ("f1_nonhateful", "non-hateful"))


def years_figure(context: Context, intervals: pl.DataFrame, item: DatasetInfo) -> Figure:
    """Return the figure of a set with years.

    Args:
        context: Models and titles.
        intervals: Tidy scores by year with ``low`` and ``high`` (null where there is no interval).
        item: The set.
    """
    titles = {line.name: line.title for line in context.lines}
    data = (
        intervals.filter(
            (pl.col("dataset") == item.name)
            & (pl.col("group_key") == "year")
            & pl.col("metric").is_in([metric for metric, _ in _LABELS])
            & pl.col("group").is_in([str(year) for year in item.years])
            & pl.col("model").is_in(list(titles))
        )
        .with_columns(
            label=pl.col("metric").replace_strict(dict(_LABELS), return_dtype=pl.String),
            year=pl.col("group").cast(pl.Int32),
            stands_on=counted(intervals, context.invalid),
        )
        .select("model", "label", "year", "value", "low", "high", "n", "stands_on", "reason")
    )
    panels = tuple(
        _panel(title, data.filter(pl.col("model") == name), item.years)
        for name, title in titles.items()
    )  # fmt: skip
    return Figure(
        key=f"f1-over-years-{slug(item.name)}",
        title=f"F1 over the years, {item.title}",
        caption="One plot per model; bands, where drawn, are 95 % bootstrap intervals. A gap is a year in which "
        "F1 is not defined.",
        panels=panels,
        data=data.with_columns(pl.col("model").replace_strict(titles, return_dtype=pl.String)),
        columns=4,
        legend=tuple(
            Key(f"F1 of {label}", colour, marker, line)
            for (_, label), (colour, marker, line) in zip(_LABELS, MARKS, strict=False)
        ),
    )


def _panel(title: str, rows: pl.DataFrame, years: tuple[int, ...]) -> Panel:
    series = {label: _values(rows.filter(pl.col("label") == label), years) for _, label in _LABELS}

    def draw(axes: Axes) -> None:
        for (label, values), (colour, marker, line) in zip(series.items(), MARKS, strict=False):
            axes.fill_between(years, values[1], values[2], color=COLOURS[colour], alpha=0.18, linewidth=0)
            axes.plot(
                years, values[0], color=COLOURS[colour], marker=marker, markersize=3.5, linestyle=line, linewidth=1.4,
                label=label, clip_on=False,
            )  # fmt: skip
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", ".5", "", "1"])
        axes.set_xlim(years[0] - 0.3, years[-1] + 0.3)
        step = -(-len(years) // 6)
        axes.set_xticks(years[::step], [f"’{year % 100:02}" for year in years[::step]])
        axes.grid(axis="y")
        axes.tick_params(length=0)

    told = [f"F1 of {label}: {_told(values[0], years)}." for label, values in series.items()]
    return Panel(
        title=title, description=" ".join(told), draw=draw, width=2.5, height=1.5, margins=(0.2, 0.05, 0.08, 0.2)
    )


def _values(rows: pl.DataFrame, years: tuple[int, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return value, low and high of each year, shape (3, years); NaN where there is none."""
    found = {row[0]: row[1:] for row in rows.select("year", "value", "low", "high").iter_rows()}
    columns = [[np.nan if part is None else part for part in found.get(year, (None,) * 3)] for year in years]
    return np.array(columns, dtype=np.float64).T


def _told(values: np.ndarray[tuple[int], np.dtype[np.float64]], years: tuple[int, ...]) -> str:
    known = [(year, value) for year, value in zip(years, values, strict=True) if not np.isnan(value)]
    if not known:
        return "not defined in any year"
    (first, start), (last, end) = known[0], known[-1]
    lowest, highest = min(value for _, value in known), max(value for _, value in known)
    return f"{start:.2f} in {first}, {end:.2f} in {last}, between {lowest:.2f} and {highest:.2f}"
