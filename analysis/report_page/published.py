"""The section that sets a store beside the published tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.analysis.paper.coefficients import coefficients
from hatevolution.analysis.paper.comparison import compare
from hatevolution.analysis.paper.findings import coefficient_table
from hatevolution.analysis.report_page.figures.figure import slug
from hatevolution.analysis.report_page.section import Section
from hatevolution.analysis.report_page.tables import Heading, PageCell, PageTable, study_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.paper.comparison import Comparison, Difference
    from hatevolution.analysis.report_page.content import Content

__all__ = ["published"]


def published(content: Content) -> Section | None:
    """Return the published figures beside the store's own, and what the published correlations should be.

    None where the store has no model or no set of the study: correlations of other models are no replication of the
    study's, even where the sets are its own.
    """
    found = compare(content.report)
    if not found.models or not found.datasets:
        return None
    items = found.differences
    keys = dict.fromkeys(item.table for item in items)
    theirs = study_table(coefficient_table(coefficients()))
    return Section(
        id="published",
        title="Beside the published study",
        intro=_intro(found),
        tables=(
            *(_table(key, [item for item in items if item.table == key]) for key in keys),
            theirs._replace(caption="The study’s own correlations: as published, and what they should be"),
        ),
    )


def _intro(found: Comparison) -> tuple[str, ...]:
    lines = [f"The store has {len(found.models)} of the study’s models, and of its sets {', '.join(found.datasets)}."]
    if found.other_models:
        lines.append(f"Not in the study: {', '.join(found.other_models)}.")
    lines.append("Differences are one’s own figure minus the published one; percentages are in percentage points.")
    return tuple(lines)


def _table(key: str, items: Sequence[Difference]) -> PageTable:
    doubtful = key in ("5", "A11")
    return PageTable(
        id=f"table-published-{slug(key)}",
        caption=f"Table {key} of the paper, and this store",
        corner="Row",
        over=(),
        headings=(
            Heading("Column", None, number=False),
            *(Heading(name, None, number=True) for name in ("Published", "Own", "Difference", "Stands on")),
        ),
        rows=tuple((item.row, _cells(item)) for item in items),
        notes=(
            "The published coefficients are no rank correlations of the models; `hatevolution paper` shows how they "
            "came about.",
        )
        if doubtful
        else (),
    )


def _cells(item: Difference) -> tuple[PageCell, ...]:
    share = None if not item.n or item.counted is None else item.counted / item.n
    return (
        PageCell(item.column),
        _figure(item.published, item.decimals),
        _figure(item.own, item.decimals),
        _figure(item.difference, item.decimals, sign="+"),
        PageCell("" if item.n is None else f"{item.counted}/{item.n}", share),
    )


def _figure(value: float | None, places: int, sign: str = "") -> PageCell:
    return PageCell("–") if value is None else PageCell(f"{value:{sign}.{places}f}", value)
