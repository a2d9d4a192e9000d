"""How plots look: colours by role, which the page replaces by its own for either colour scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.report_page.figures.figure import Line

__all__ = ["COLOURS", "MARKS", "SETTINGS", "ink_on"]

COLOURS: Final = {
    "paper": "#fefefe",
    "ink": "#1f2328",
    "muted": "#59636e",
    "faint": "#d1d9e0",
    "blue": "#0060a8",
    "orange": "#b84a00",
    "green": "#00755e",
    "purple": "#7a3f9d",
}
"""Role -> colour in files and on a light page. Darker relatives of Okabe and Ito's palette (2008, "Color Universal
Design"), so that each has a contrast of 4.5 on white; no plot tells anything by colour alone. Each is unique, since the
page finds them by their value."""

MARKS: Final[tuple[tuple[str, str, Line], ...]] = (
    ("blue", "o", "-"),
    ("orange", "s", "--"),
    ("green", "^", "-."),
    ("purple", "D", ":"),
)
"""Colour, marker and line of the first, second, ... series of a plot."""

SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hatevolution",
    "font.size": 9.0,
    "font.family": ["sans-serif"],
    "figure.facecolor": COLOURS["paper"],
    "savefig.facecolor": COLOURS["paper"],
    "axes.facecolor": COLOURS["paper"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlecolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "text.parse_math": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": COLOURS["faint"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
"""matplotlib's settings; text stays text, and the same plot gives the same file."""


def ink_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever has the higher contrast on a colour.

    Source: relative luminance and contrast ratio of WCAG 2.2.

    Args:
        colour: Red, green, blue (and alpha, taken as 1), from 0 to 1.

    >>> ink_on((1, 1, 1)), ink_on((0, 0, 0.5))
    ('#000000', '#ffffff')
    """
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"
