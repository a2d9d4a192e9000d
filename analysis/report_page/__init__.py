"""``hatevolution report``: one page about a store, complete in itself."""

from hatevolution.analysis.report_page.content import Content, Options, gather
from hatevolution.analysis.report_page.figures import write_figures
from hatevolution.analysis.report_page.output import check, write
from hatevolution.analysis.report_page.page import render

__all__ = ["Content", "Options", "check", "gather", "render", "write", "write_figures"]
