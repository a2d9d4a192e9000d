"""Tables of the study in the form that the page's template prints: headings in one or two rows, notes, sort keys."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from hatevolution.analysis.render.files import file_name
from hatevolution.analysis.render.footnotes import coverage_note, footnotes, uniform_n

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.tables import Cell, Table

__all__ = ["Heading", "Over", "PageCell", "PageTable", "frame_table", "plain_table", "study_table"]


class Over(NamedTuple):
    """A heading above several columns."""

    name: str
    span: int


class Heading(NamedTuple):
    """A column's own heading."""

    name: str
    n: int | None
    """Rows that all its numbers are of; None where they differ."""
    number: bool
    """Whether it has numbers, which are set to the right and sorted with the highest first."""


class PageCell(NamedTuple):
    """One cell."""

    text: str
    value: float | None = None
    """What it is sorted by; None: by its text, or last where it should be a number."""
    coverage: str = ""
    best: bool = False
    note: int | None = None
    """Number of the footnote that says why there is no value."""


class PageTable(NamedTuple):
    """One table."""

    id: str
    """Unique on the page."""
    caption: str
    corner: str
    over: tuple[Over, ...]
    """Empty where no two columns share a heading."""
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, tuple[PageCell, ...]], ...]
    footnotes: tuple[str, ...] = ()
    """In the order of their numbers, from 1."""
    notes: tuple[str, ...] = ()


def study_table(table: Table) -> PageTable:
    """Return a table of the study."""
    numbers = footnotes(table)
    over = [Over(name, len(list(group))) for name, group in groupby(column.over for column in table.columns)]
    headings = tuple(
        Heading(
            column.name,
            uniform_n(table, index),
            any(row.cells[index].value is not None or row.cells[index].reason for row in table.rows),
        )
        for index, column in enumerate(table.columns)
    )
    return PageTable(
        id=file_name(table.key).replace(".", "-"),
        caption=table.heading,
        corner=table.corner,
        over=tuple(over) if any(part.name for part in over) else (),
        headings=headings,
        rows=tuple((row.name, tuple(_cell(cell, numbers) for cell in row.cells)) for row in table.rows),
        footnotes=tuple(numbers),
        notes=tuple(filter(None, (*table.notes, coverage_note(table)))),
    )


def _cell(cell: Cell, numbers: dict[str, int]) -> PageCell:
    return PageCell(
        text=cell.text,
        value=cell.value,
        coverage=cell.coverage if cell.incomplete else "",
        best=cell.best,
        note=None if cell.value is not None or cell.reason is None else numbers[cell.reason],
    )


def plain_table(
    id: str,
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str | int | float | None]],
    notes: Sequence[str] = (),
) -> PageTable:
    """Return a table of plain values; the first of each row names it.

    Args:
        id: Unique on the page.
        caption: What it shows.
        headings: Of all columns, the first one included.
        rows: Text, or numbers (a float is shown with four decimals); None is shown as a dash.
        notes: Below it.
    """
    made = tuple((str(row[0]), tuple(_plain(value) for value in row[1:])) for row in rows)
    columns = [[row[index] for row in rows] for index in range(1, len(headings))]
    return PageTable(
        id=id,
        caption=caption,
        corner=headings[0],
        over=(),
        headings=tuple(
            Heading(name, None, any(isinstance(value, int | float) for value in values))
            for name, values in zip(headings[1:], columns, strict=True)
        ),
        rows=made,
        notes=tuple(notes),
    )


def _plain(value: str | int | float | None) -> PageCell:
    if value is None:
        return PageCell("–")
    if isinstance(value, str):
        return PageCell(value)
    return PageCell(f"{value:,}" if isinstance(value, int) else f"{value:.4f}", float(value))


def frame_table(id: str, caption: str, frame: pl.DataFrame) -> PageTable:
    """Return a frame as a table; the first column names the rows, and columns without a value are left out.

    Years are names, not amounts: they have no separator of thousands.
    """
    used = frame.select(
        column for index, column in enumerate(frame.get_columns()) if index == 0 or column.null_count() < frame.height
    )
    headings = [name.replace("_", " ") for name in used.columns]
    named = used.with_columns(pl.col(name).cast(pl.String) for name in used.columns if name == "year")
    rows = [[value if value is not None else "" for value in row] for row in named.iter_rows()]
    return plain_table(id, caption, headings, rows)
