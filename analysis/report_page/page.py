"""The page as text: the template, with everything that it prints escaped and made visible."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution import __version__
from hatevolution.analysis.report_page.figures import panel_svg
from hatevolution.analysis.report_page.sections import sections
from hatevolution.analysis.report_page.tables import PageTable, frame_table
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from hatevolution.analysis.report_page.content import Content
    from hatevolution.analysis.report_page.figures import Figure, Panel

__all__ = ["render"]

_DASHES: Final = {"-": "", "--": "6 3", "-.": "8 3 2 3", ":": "2 3"}
_MARKERS: Final = {
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "s": "M-3.6 -3.6h7.2v7.2h-7.2z",
    "^": "M0 -4.4l4.4 8h-8.8z",
    "v": "M0 4.4l4.4 -8h-8.8z",
    "D": "M0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "P": "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "X": "M-4 -2l2 -2l2 2l2 -2l2 2l-2 2l2 2l-2 2l-2 -2l-2 2l-2 -2l2 -2z",
    "*": "M0 -5l1.3 3.4h3.6l-2.9 2.2l1.1 3.6l-3.1 -2.1l-3.1 2.1l1.1 -3.6l-2.9 -2.2h3.6z",
}
"""matplotlib's lines and markers, for legends."""

_LIMIT: Final = 4000
_LONG_LIMIT: Final = 200_000
"""Characters of one line of a value, and of a configuration; longer ones are no part of a sane store and would fill the
page."""


class _PageFigure(NamedTuple):
    figure: Figure
    panels: list[tuple[Panel, Any]]
    data: PageTable
    layout: str


def render(content: Content) -> str:
    """Return the page, valid UTF-8 whatever the store holds."""
    from markupsafe import Markup

    style, script = (_asset(name) for name in ("page.css", "page.js"))
    store = content.report.study.source.replace("\\", "/").rpartition("/")[2]
    values = {
        "title": f"Hatevolution report: {store}",
        "store": store,
        "version": __version__,
        "made_at": content.made_at.isoformat(timespec="seconds"),
        "made_at_words": f"{content.made_at:%Y-%m-%d %H:%M} UTC",
        "policy": _policy(style, script),
        "style": Markup(style),  # noqa: S704 - a file of this package
        "script": Markup(script),  # noqa: S704 - a file of this package
        "sections": [_ready(section) for section in sections(content)],
        "dashes": _DASHES,
        "markers": _MARKERS,
    }
    source = _asset("macros.html.j2") + _asset("page.html.j2")
    written = _environment().from_string(source).render(values)
    return str(written)


def _asset(name: str) -> str:
    return (files("hatevolution.analysis.report_page") / "assets" / name).read_text(encoding="utf-8").strip()


def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        autoescape=True, finalize=_visible, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["long"] = _long
    return made


def _visible(value: Any, limit: int = _LIMIT) -> Any:
    """Make what can't be seen visible in every text that the template prints; line ends stay."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isprintable() and len(value) <= limit:
        return value
    return "\n".join(one_line(line, limit) for line in value.split("\n"))


def _long(value: str) -> Any:
    from markupsafe import escape

    return escape(_visible(value, _LONG_LIMIT))


def _policy(style: str, script: str) -> str:
    """Return the content security policy: this style and this script, and nothing from anywhere.

    Were a tag of an answer ever to slip through, the browser would neither run nor load what it names.
    """
    allowed = {"style-src": style, "script-src": script}
    parts = ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    parts += [f"{name} '{_digest(text)}'" for name, text in allowed.items()]
    return "; ".join([*parts, "require-trusted-types-for 'script'"])


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _ready(section: Any) -> dict[str, Any]:
    ready = {name: getattr(section, name) for name in section.__slots__}
    return ready | {"figures": [_drawn(figure) for figure in section.figures]}


def _drawn(figure: Figure) -> _PageFigure:
    from markupsafe import Markup

    panels = [
        (panel, Markup(panel_svg(figure, index)))  # noqa: S704 - made by an XML writer
        for index, panel in enumerate(figure.panels)
    ]
    widest = max(panel.width for panel in figure.panels)
    layout = "single" if figure.columns == 1 else "wide" if widest > 3 else "many"
    data = frame_table(f"data-{figure.key}", f"{figure.title}: data", figure.data)
    return _PageFigure(figure, panels, data, layout)
