"""Figures drawn with matplotlib: panel by panel for the page, all panels together for files."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hatevolution.analysis.render.files import write_frame
from hatevolution.analysis.report_page.figures.figure import clipped
from hatevolution.analysis.report_page.figures.style import COLOURS, SETTINGS
from hatevolution.analysis.report_page.figures.svg import inline
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import matplotlib.figure
    from matplotlib.axes import Axes

    from hatevolution.analysis.report_page.figures.figure import Figure, Panel

__all__ = ["panel_svg", "write_figures"]

_DPI = 150
"""Of PNG files."""
_PER_INCH = 104
"""CSS pixels on the page: text of 9 points is then 13 pixels high."""


@contextmanager
def _settings() -> Iterator[None]:
    import matplotlib as mpl

    # The type stubs list every known key, and which are known depends on the version.
    settings: Any = SETTINGS
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A name in a script that the font has not got: browsers have other fonts, a PNG shows boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def panel_svg(figure: Figure, index: int) -> str:
    """Return one panel as an element for the page."""
    from matplotlib.figure import Figure as Canvas

    panel = figure.panels[index]
    with _settings():
        canvas = Canvas(figsize=(panel.width, panel.height))
        left, right, top, bottom = panel.margins
        inner = (panel.width - left - right) / panel.width, (panel.height - top - bottom) / panel.height
        panel.draw(canvas.add_axes((left / panel.width, bottom / panel.height, *inner)))
        document = _svg(canvas)
    prefix = f"{figure.key}-{index + 1}"
    return inline(
        document, prefix=prefix, title=panel.title, description=panel.description, width=round(panel.width * _PER_INCH)
    )


def _svg(canvas: matplotlib.figure.Figure) -> str:
    written = io.StringIO()
    # Without a date the same plot gives the same bytes.
    canvas.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def write_figures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write every figure as SVG, PNG and CSV (its data, inert) into a folder (made if need be); return the files.

    Raises:
        ConfigError: The folder can't be written to.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            with _settings():
                canvas = _together(figure)
                for ending, more in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": _DPI})):
                    path = folder / f"{figure.key}.{ending}"
                    settings: dict[str, Any] = dict(more)
                    canvas.savefig(path, **settings)
                    written.append(path)
            written.append(write_frame(figure.data, folder / f"{figure.key}.csv"))
    except OSError as error:
        raise ConfigError(f"The plots can't be written to {folder}: {error.strerror}.") from None
    return written


def _together(figure: Figure) -> matplotlib.figure.Figure:
    from matplotlib.figure import Figure as Canvas

    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    width = max(panel.width for panel in figure.panels)
    height = max(panel.height for panel in figure.panels)
    canvas = Canvas(figsize=(columns * width, rows * (height + 0.25) + 0.6), layout="constrained")
    canvas.suptitle(clipped(figure.title, 120), x=0.01, ha="left", fontsize=11, fontweight="bold")
    grid = canvas.subplots(rows, columns, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index < len(figure.panels):
            _titled(axes, figure.panels[index])
        else:
            axes.set_axis_off()
    if figure.legend:
        _legend(canvas, figure)
    return canvas


def _titled(axes: Axes, panel: Panel) -> None:
    panel.draw(axes)
    axes.set_title(clipped(panel.title, 60), loc="left")


def _legend(canvas: matplotlib.figure.Figure, figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[key.colour], marker=key.marker, linestyle=key.line, label=key.label)
        for key in figure.legend
    ]
    canvas.legend(handles=handles, loc="outside lower left", ncols=min(4, len(handles)))
