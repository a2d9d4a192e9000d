"""Label flips and hallucinations by linguistic type and by year: a row per model, a mark per group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.metrics import counted
from hatevolution.analysis.report_page.figures.figure import Figure, Key, Panel, clipped, slug
from hatevolution.analysis.report_page.figures.style import COLOURS, MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hatevolution.analysis.study import DatasetInfo
    from hatevolution.analysis.tables.context import Context, Line

__all__ = ["rate_figures"]

_RATES: Final = (("label_flip", "Label flips"), ("hallucination", "Hallucinations"))
_Known = dict[tuple[str, str], tuple[float | None, float | None, float | None]]
"""(model, group) -> value, low, high."""

_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")


def rate_figures(context: Context, intervals: pl.DataFrame, item: DatasetInfo) -> list[Figure]:
    """Return one figure by type and one by year, as far as a set of pairs has them.

    Args:
        context: Models and titles.
        intervals: Tidy scores with ``low`` and ``high`` (null where there is no interval).
        item: The set.
    """
    own = intervals.filter(
        (pl.col("dataset") == item.name) & pl.col("metric").is_in([metric for metric, _ in _RATES])
    )  # fmt: skip
    years = [str(year) for year in item.years]
    types = sorted(own.filter(pl.col("group_key") == "type")["group"].unique())
    found = []
    for key, groups, words in (("type", types, "by linguistic type"), ("year", years, "by year")):
        rows = own.filter((pl.col("group_key") == key) & pl.col("group").is_in(groups))
        if groups and rows.height:
            found.append(_figure(context, rows, item, key, groups, words))
    return found


def _figure(
    context: Context, rows: pl.DataFrame, item: DatasetInfo, key: str, groups: Sequence[str], words: str
) -> Figure:
    keys = _keys(groups)
    panels = []
    for metric, title in _RATES:
        # A classifier has no instruction to break; a member of a composite does not stand for itself.
        lines = [line for line in context.lines if metric == "label_flip" or not line.classifier]
        if lines:
            own = rows.filter((pl.col("metric") == metric) & pl.col("model").is_in([line.name for line in lines]))
            panels.append(_panel(f"{title} {words}", lines, own, keys))
    titles = {line.name: line.title for line in context.lines}
    data = rows.filter(pl.col("model").is_in(list(titles))).select(
        pl.col("model").replace_strict(titles, return_dtype=pl.String),
        "metric", pl.col("group").alias(key), "value", "low", "high", "n",
        counted(rows, context.invalid).alias("stands_on"), "invalid", "reason",
    )  # fmt: skip
    return Figure(
        key=f"pairs-{key}-{slug(item.name)}",
        title=f"Label flips and hallucinations {words}, {item.title}",
        caption="Label flips are of the pairs with two valid answers, hallucinations of the pairs with two answers; "
        "a thin line, where drawn, is a 95 % bootstrap interval. No mark: no such pair.",
        panels=tuple(panels),
        data=data,
        columns=2,
        legend=tuple(keys.values()),
    )


def _keys(groups: Sequence[str]) -> dict[str, Key]:
    return {
        group: Key(clipped(group), MARKS[index % len(MARKS)][0], _MARKERS[index % len(_MARKERS)], "")
        for index, group in enumerate(groups)
    }


def _panel(title: str, lines: Sequence[Line], rows: pl.DataFrame, keys: dict[str, Key]) -> Panel:
    known = {
        (model, group): (value, low, high)
        for model, group, value, low, high in rows.select("model", "group", "value", "low", "high").iter_rows()
    }
    gap = 0.7 / len(keys)

    def draw(axes: Axes) -> None:
        bands = np.arange(0, len(lines), 2)
        axes.barh(bands, 1, 1, color=COLOURS["faint"], alpha=0.35, transform=axes.get_yaxis_transform())
        # One call for each group: one for each mark would take a second.
        for index, (group, key) in enumerate(keys.items()):
            places = np.arange(len(lines)) + gap * (index - (len(keys) - 1) / 2)
            value, low, high = _percents(lines, group, known)
            colour = COLOURS[key.colour]
            axes.hlines(places, low, high, color=colour, linewidth=0.8, alpha=0.7)
            axes.plot(value, places, color=colour, marker=key.marker, markersize=3.5, linestyle="", clip_on=False)
        axes.set_yticks(range(len(lines)), [clipped(line.title, 24) for line in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.margins(x=0.03)
        axes.grid(axis="x")
        axes.tick_params(length=0)
        axes.set_xlabel("% of pairs")

    return Panel(
        title=title,
        description=_told(lines, keys, known),
        draw=draw,
        width=4.4,
        height=len(lines) * max(0.2, 0.075 * len(keys)) + 0.5,
        margins=(1.75, 0.1, 0.05, 0.45),
    )


def _percents(lines: Sequence[Line], group: str, known: _Known) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return value, low and high of each line, shape (3, lines), in percent; NaN where there is none."""
    rows = [known.get((line.name, group), (None, None, None)) for line in lines]
    found = [[np.nan if part is None else 100 * part for part in row] for row in rows]
    return np.array(found, dtype=np.float64).reshape(-1, 3).T


def _told(lines: Sequence[Line], keys: dict[str, Key], known: _Known) -> str:
    told = []
    for group in keys:
        values = [(known.get((line.name, group), (None,))[0], line.title) for line in lines]
        present = [(value, title) for value, title in values if value is not None]
        if present:
            low, high = min(present), max(present)
            told.append(f"{group}: from {100 * low[0]:.1f} % ({low[1]}) to {100 * high[0]:.1f} % ({high[1]})")
    return "; ".join(told) + "." if told else "No model has a value."
