"""How each model breaks the instruction: its share of answers of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.report_page.figures.figure import Figure, Panel, clipped
from hatevolution.analysis.report_page.figures.style import COLOURS, ink_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

__all__ = ["kinds_figure"]

_SCALE: Final = "Blues"


def kinds_figure(counts: pl.DataFrame, titles: Mapping[str, str]) -> Figure | None:
    """Return the figure; None where no answer broke the instruction.

    Args:
        counts: Columns model, kind, count, answered: answers by primary kind, and all answers of the model.
        titles: Model -> how it is named; models that are not in it are not shown.
    """
    shown = counts.filter(pl.col("model").is_in(list(titles)) & (pl.col("count") > 0))
    if shown.is_empty():
        return None
    kinds = shown.group_by("kind", maintain_order=True).agg(pl.col("count").sum()).sort("count", descending=True)
    present = set(shown["model"])
    models = [name for name in titles if name in present]
    data = shown.select(
        pl.col("model").replace_strict(dict(titles), return_dtype=pl.String),
        "kind", "count", "answered", share=pl.col("count") / pl.col("answered"),
    )  # fmt: skip
    return Figure(
        key="kinds-of-broken-answers",
        title="Kinds of broken answers",
        caption="Percent of a model’s answers, each counted by its first kind; models without a broken answer are left "
        "out.",
        panels=(_panel(models, titles, kinds["kind"].to_list(), shown),),
        data=data,
        columns=1,
    )


def _panel(models: list[str], titles: Mapping[str, str], kinds: list[str], shown: pl.DataFrame) -> Panel:
    shares = np.zeros((len(models), len(kinds)))
    for model, kind, count, answered in shown.select("model", "kind", "count", "answered").iter_rows():
        shares[models.index(model), kinds.index(kind)] = count / answered

    def draw(axes: Axes) -> None:
        from matplotlib import colormaps

        # The square root spreads small shares, which are the many.
        scaled = np.sqrt(shares)
        axes.pcolormesh(
            np.where(shares > 0, scaled, np.nan), cmap=_SCALE, vmin=0, vmax=1, edgecolors=COLOURS["paper"], linewidth=1
        )
        for (row, column), share in np.ndenumerate(shares):
            if share > 0:
                ink = ink_on(colormaps[_SCALE](float(scaled[row, column])))
                axes.text(column + 0.5, row + 0.5, _percent(share), ha="center", va="center", fontsize=7.5, color=ink)
        axes.set_yticks(np.arange(len(models)) + 0.5, [clipped(titles[name], 24) for name in models])
        axes.set_xticks(np.arange(len(kinds)) + 0.5, kinds, rotation=35, ha="left", rotation_mode="anchor")
        axes.xaxis.tick_top()
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)

    totals = shares.sum(axis=1)
    told = "; ".join(f"{titles[name]} {100 * total:.1f} %" for name, total in zip(models, totals, strict=True))
    return Panel(
        title="Percent of answers by kind",
        description=f"Broken answers of each model: {told}. Most frequent kind: {kinds[0]}.",
        draw=draw,
        width=0.52 * len(kinds) + 2.2,
        height=0.22 * len(models) + 1.1,
        margins=(1.7, 0.5, 1.05, 0.05),
    )


def _percent(share: float) -> str:
    percent = 100 * share
    return "<.1" if percent < 0.05 else f"{percent:.1f}" if percent < 9.95 else f"{percent:.0f}"
