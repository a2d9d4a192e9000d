"""What a figure is: panels that are drawn on the page one by one and in files together, and the data behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["Figure", "Key", "Line", "Panel", "clipped", "slug"]


Line = Literal["-", "--", "-.", ":", ""]


class Key(NamedTuple):
    """One entry of a legend."""

    label: str
    colour: str
    """A role of ``COLOURS``."""
    marker: str
    line: Line
    """matplotlib's line style; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot."""

    title: str
    description: str
    """What it shows, in words, for those who don't see it."""
    draw: Callable[[Axes], None]
    width: float
    """Inches; on the page, 72 units of the drawing each."""
    height: float
    margins: tuple[float, float, float, float]
    """Left, right, top and bottom of the axes, in inches: what labels need. Given, since finding out costs half a
    second for each plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Panels of one kind, with the numbers that they show."""

    key: str
    """Name of its files, and of its place on the page: lower-case letters, digits and hyphens."""
    title: str
    caption: str
    """How to read it."""
    panels: tuple[Panel, ...]
    data: pl.DataFrame
    columns: int
    """Panels beside each other in a file; the page sets as many as it has room for."""
    legend: tuple[Key, ...] = ()


def clipped(text: str, length: int = 34) -> str:
    """Return a name that fits beside a plot, inert."""
    shown = one_line(text, 4 * length)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def slug(name: str) -> str:
    """Return a name as part of a file's name or an id: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "x"
