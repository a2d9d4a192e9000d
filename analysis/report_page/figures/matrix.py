"""The correlations of all rankings as a matrix, an interval below each coefficient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.report_page.figures.figure import Figure, Panel, clipped
from hatevolution.analysis.report_page.figures.style import COLOURS, ink_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hatevolution.analysis.correlation import Correlation

__all__ = ["matrix_figure"]

_SCALE: Final = "PuOr"
"""Diverging, and told apart by colour-blind readers (colorbrewer2.org)."""
_ENDS: Final = 1.4
"""Value of the scale's ends, which are nearly black and would not stand out from a dark page."""


def matrix_figure(names: Sequence[str], correlations: Sequence[Correlation]) -> Figure | None:
    """Return the figure; None where there are no two rankings with a coefficient.

    Args:
        names: Of the rankings, in their order.
        correlations: Of every two of them.
    """
    if not any(item.spearman is not None for item in correlations):
        return None
    confidence = 100 * correlations[0].confidence
    return Figure(
        key="correlations-of-rankings",
        title="Spearman’s rank correlation of every two rankings",
        caption=f"Ranks are matched by model. In brackets Fisher’s interval at {confidence:.0f} %; a dash where there "
        "is no coefficient, or no interval of it.",
        panels=(_panel(names, correlations),),
        data=_data(correlations),
        columns=1,
    )


def _data(correlations: Sequence[Correlation]) -> pl.DataFrame:
    rows = [
        (
            item.x, item.y, item.n, item.spearman, *(item.fisher or (None, None)),
            *(item.bonett_wright or (None, None)), item.confidence, item.kendall, item.p_value, item.reason,
        )
        for item in correlations
    ]  # fmt: skip
    numbers = (
        "spearman", "fisher_low", "fisher_high", "bonett_wright_low", "bonett_wright_high", "confidence", "kendall",
        "p_value",
    )  # fmt: skip
    return pl.DataFrame(
        rows,
        schema={
            "x": pl.String,
            "y": pl.String,
            "n": pl.Int64,
            **dict.fromkeys(numbers, pl.Float64),
            "reason": pl.String,
        },
        orient="row",
    )


def _panel(names: Sequence[str], correlations: Sequence[Correlation]) -> Panel:
    known = {frozenset((item.x, item.y)): item for item in correlations}
    size = len(names)
    values = np.full((size, size), np.nan)
    for row, name in enumerate(names):
        for column, other in enumerate(names[:row]):
            item = known.get(frozenset((name, other)))
            if item is not None and item.spearman is not None:
                values[row, column] = item.spearman

    def draw(axes: Axes) -> None:
        # Rows and columns without a cell of their own in the triangle are left out.
        axes.pcolormesh(
            values[1:, :-1], cmap=_SCALE, vmin=-_ENDS, vmax=_ENDS, edgecolors=COLOURS["paper"], linewidth=1.5
        )
        for row in range(1, size):
            for column in range(row):
                _cell(axes, column + 0.5, row - 0.5, known.get(frozenset((names[row], names[column]))))
        shown = [clipped(name, 18) for name in names]
        axes.set_yticks(np.arange(size - 1) + 0.5, shown[1:])
        axes.set_xticks(np.arange(size - 1) + 0.5, shown[:-1], rotation=25, ha="right", rotation_mode="anchor")
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)

    told = "; ".join(
        f"{item.x} and {item.y} {item.spearman:.2f}" for item in correlations if item.spearman is not None
    )  # fmt: skip
    return Panel(
        title="Spearman’s rho",
        description=f"{told}.",
        draw=draw,
        width=1.15 * (size - 1) + 1.6,
        height=0.62 * (size - 1) + 0.8,
        margins=(1.5, 0.1, 0.05, 0.75),
    )


def _cell(axes: Axes, x: float, y: float, item: Correlation | None) -> None:
    if item is None or item.spearman is None:
        axes.text(x, y, "–", ha="center", va="center")
        return
    from matplotlib import colormaps

    ink = ink_on(colormaps[_SCALE]((item.spearman + _ENDS) / (2 * _ENDS)))
    interval = "–" if item.fisher is None else f"[{item.fisher.low:.2f}, {item.fisher.high:.2f}]"
    axes.text(x, y - 0.14, f"{item.spearman:.2f}", ha="center", va="center", color=ink, weight="bold", fontsize=10)
    axes.text(x, y + 0.22, interval, ha="center", va="center", color=ink, fontsize=7.5)
