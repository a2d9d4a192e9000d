"""The figures of a report."""

from hatevolution.analysis.report_page.figures.draw import panel_svg, write_figures
from hatevolution.analysis.report_page.figures.figure import Figure, Key, Panel

__all__ = ["Figure", "Key", "Panel", "panel_svg", "write_figures"]
