"""matplotlib's SVG, made fit to stand inside a page.

On the page a drawing may have no ``style`` attribute (the page's policy forbids them), no id that another drawing has,
and no colour that is fixed for one colour scheme.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Final

from hatevolution.analysis.report_page.figures.style import COLOURS
from hatevolution.inert import one_line

__all__ = ["inline"]

_SVG: Final = "{http://www.w3.org/2000/svg}"
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_DROPPED: Final = frozenset({f"{_SVG}metadata", f"{_SVG}style"})
_ROLES: Final = {colour: f"var(--{role}, {colour})" for role, colour in COLOURS.items()}
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_STYLES: Final = frozenset(
    {
        "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
        "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor",
    }
)  # fmt: skip
"""What may become an attribute; the page's own style sets the font and the rest."""


def inline(document: str, *, prefix: str, title: str, description: str, width: int) -> str:
    """Return a drawing of matplotlib as an element for a page.

    Args:
        document: The SVG document.
        prefix: Put before every id.
        title: Its name for those who don't see it.
        description: What it shows, for the same.
        width: At which its text has the size of the page's small text, in CSS pixels.
    """
    root = ET.fromstring(document)  # noqa: S314 - matplotlib's own output
    _clean(root, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    label, text = f"{prefix}-title", f"{prefix}-desc"
    root.attrib |= {"width": str(width), "role": "img", "aria-labelledby": f"{label} {text}", "class": "plot"}
    for place, (tag, name, content) in enumerate((("title", label, title), ("desc", text, description))):
        child = ET.Element(tag, {"id": name})
        child.text = one_line(content)
        root.insert(place, child)
    return ET.tostring(root, encoding="unicode")


def _clean(parent: ET.Element, prefix: str) -> None:
    for child in list(parent):
        if child.tag in _DROPPED:
            parent.remove(child)
        else:
            _clean(child, prefix)
    # Inside a page, the parser of HTML knows the namespace by itself.
    parent.tag = parent.tag.removeprefix(_SVG)
    _attributes(parent, prefix)
    if parent.text is not None and not parent.text.strip():
        parent.text = None
    parent.tail = None


def _attributes(element: ET.Element, prefix: str) -> None:
    given = dict(element.attrib)
    element.attrib.clear()
    # A group's name is of no use on the page; what is pointed at are paths and clips.
    if "id" in given and element.tag != "g":
        element.attrib["id"] = f"{prefix}-{given['id']}"
    for name, value in given.items():
        if name == _HREF:
            element.attrib["href"] = f"#{prefix}-{value.removeprefix('#')}"
        elif name == "clip-path":
            element.attrib[name] = value.replace("url(#", f"url(#{prefix}-")
        elif name == "style":
            for part in value.split(";"):
                key, _, setting = (item.strip() for item in part.partition(":"))
                if key in _STYLES:
                    element.attrib[key] = _ROLES.get(setting, setting)
        elif name != "id":
            element.attrib[name] = _rounded(" ".join(value.split()))


def _rounded(value: str) -> str:
    """Return a value with two decimals, a fiftieth of a point."""
    value = re.sub(r"rotate\(-?0(?:\.0*)? [^)]*\)", "", value).strip() if value.startswith("rotate(") else value
    return _NUMBER.sub(lambda found: f"{float(found.group()):.2f}".rstrip("0").rstrip("."), value)
