"""Static rank against time-sensitive rank: one slope chart for each pair of a static and a time-sensitive ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from scipy import stats

from hatevolution.analysis.report_page.figures.figure import Figure, Key, Panel, clipped
from hatevolution.analysis.report_page.figures.style import COLOURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.rankings import Ranking

__all__ = ["slope_figure"]

_FAR: Final = 3
"""Ranks from which a model is said to rise or fall."""
_NAME: Final = 22
"""Characters of a name that are shown."""
_WIDTH: Final = 4.3
"""Inches."""

_DIRECTIONS: Final = {
    "higher": Key(f"{_FAR} or more ranks higher with time", "blue", "^", "-"),
    "lower": Key(f"{_FAR} or more ranks lower with time", "orange", "v", "--"),
    "alike": Key("less than that", "muted", "o", ":"),
}


class _Line(NamedTuple):
    title: str
    left: int
    right: int
    """Ranks, 1 for the best; equal ones share the lowest number."""
    left_place: int
    right_place: int
    """Where it is drawn, 0 at the top: no two models share a place."""

    @property
    def direction(self) -> str:
        gain = self.left - self.right
        return "alike" if abs(gain) < _FAR else "higher" if gain > 0 else "lower"


def slope_figure(
    rankings: Sequence[Ranking], correlations: Sequence[Correlation], titles: Mapping[str, str]
) -> Figure | None:
    """Return the figure; None where a store has no static or no time-sensitive ranking.

    Args:
        rankings: All of them.
        correlations: Theirs, for the titles.
        titles: Model -> how it is named.
    """
    timed = [ranking for ranking in rankings if ranking.measure != "macro_f1"]
    static = [ranking for ranking in rankings if ranking.measure == "macro_f1"]
    known = {frozenset((item.x, item.y)): item for item in correlations}
    panels, frames = [], []
    for right in timed:
        for left in static:
            lines = _lines(left, right, titles)
            if not lines:
                continue
            panels.append(_panel(left, right, lines, known.get(frozenset((left.name, right.name)))))
            frames.append(_data(left, right, lines))
    if not panels:
        return None
    return Figure(
        key="static-and-time-sensitive-ranks",
        title="Static rank against time-sensitive rank",
        caption="Left the rank on a static set, right that over time; the best model is on top, and equal ranks are "
        "marked with =. Each chart has the models that both rankings have.",
        panels=tuple(panels),
        data=pl.concat(frames),
        columns=min(4, len(static)),
        legend=tuple(_DIRECTIONS.values()),
    )


def _lines(left: Ranking, right: Ranking, titles: Mapping[str, str]) -> list[_Line]:
    models = [name for name in left.goodness if name in right.goodness]
    if not models:
        return []
    ranks = [
        stats.rankdata([-ranking.goodness[name] for name in models], method="min").astype(int).tolist()
        for ranking in (left, right)
    ]
    # Equal models are drawn in the order of the other side, so that their lines cross as little as can be.
    by_left = sorted(range(len(models)), key=lambda index: (ranks[0][index], ranks[1][index], index))
    by_right = sorted(range(len(models)), key=lambda index: (ranks[1][index], by_left.index(index)))
    return [
        _Line(titles[name], ranks[0][index], ranks[1][index], by_left.index(index), by_right.index(index))
        for index, name in enumerate(models)
    ]


def _data(left: Ranking, right: Ranking, lines: Sequence[_Line]) -> pl.DataFrame:
    return pl.DataFrame(
        [(left.name, right.name, line.title, line.left, line.right) for line in lines],
        schema={
            "static": pl.String,
            "time_sensitive": pl.String,
            "model": pl.String,
            "static_rank": pl.Int64,
            "time_sensitive_rank": pl.Int64,
        },
        orient="row",
    )


def _panel(left: Ranking, right: Ranking, lines: Sequence[_Line], item: Correlation | None) -> Panel:
    longest = max(len(clipped(line.title, _NAME)) for line in lines)
    room = 0.45 + 0.062 * longest
    beside = room / (_WIDTH - 2 * room)

    def draw(axes: Axes) -> None:
        for direction, key in _DIRECTIONS.items():
            # One line with gaps for each direction, which is drawn several times faster than one for each model.
            own = [line for line in lines if line.direction == direction]
            places = [place for line in own for place in (line.left_place, line.right_place, float("nan"))]
            axes.plot(
                [0, 1, float("nan")] * len(own), places, color=COLOURS[key.colour], linestyle=key.line,
                linewidth=1.3, marker=key.marker, markersize=3.5,
            )  # fmt: skip
        for line in lines:
            name = clipped(line.title, _NAME)
            ranks = _rank(lines, line.left, left=True), _rank(lines, line.right, left=False)
            axes.text(-0.04, line.left_place, f"{name}  {ranks[0]}", ha="right", va="center", fontsize=7.5)
            axes.text(1.04, line.right_place, f"{ranks[1]}  {name}", ha="left", va="center", fontsize=7.5)
        axes.text(0, -1.1, clipped(left.name, 26), ha="center", weight="bold", fontsize=8)
        axes.text(1, -1.1, clipped(right.name, 26), ha="center", weight="bold", fontsize=8)
        axes.set_xlim(-beside, 1 + beside)
        axes.set_ylim(len(lines) - 0.4, -1.9)
        axes.set_axis_off()

    coefficient = "" if item is None or item.spearman is None else f", ρ = {item.spearman:.2f}"
    moved = [line for line in lines if line.direction != "alike"]
    told = "; ".join(f"{line.title} from {line.left} to {line.right}" for line in moved)
    return Panel(
        title=f"{left.name} and {right.name}{coefficient}",
        description=f"{len(lines)} models; {len(moved)} of them rise or fall by {_FAR} ranks or more"
        + (f": {told}." if moved else "."),
        draw=draw,
        width=_WIDTH,
        height=0.19 * len(lines) + 0.5,
        margins=(0.02, 0.02, 0.02, 0.02),
    )


def _rank(lines: Sequence[_Line], rank: int, *, left: bool) -> str:
    same = sum((line.left if left else line.right) == rank for line in lines)
    return f"={rank}" if same > 1 else str(rank)
