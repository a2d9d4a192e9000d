"""Excel workbooks, by Calamine: cell values as Excel last computed them, formulas never recalculated.

openpyxl reads the same values from the study's files, but gives formulas instead of values unless told otherwise, and
takes ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

from hatevolution.adapters.datasets.rows import column_indices, typed_blocks
from hatevolution.adapters.datasets.values import as_text
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hatevolution.adapters.datasets.rows import Block, Wanted

__all__ = ["xlsx_blocks"]


def xlsx_blocks(path: Path, wanted: Wanted, sheet: str | None) -> Iterator[Block]:
    """Yield the wanted cells of the rows below the header, which is row 1 of the sheet.

    Raises:
        DataError: The file is no workbook, has no such sheet (or several and none is named), or lacks a column.
    """
    grid = _grid(path, sheet)
    while grid and all(cell == "" for cell in grid[-1]):  # rows that were only formatted
        grid.pop()
    header = [_heading(cell) for cell in grid[0]] if grid else []
    indices = column_indices(path, header, wanted)
    yield from typed_blocks(path, wanted, ([row[at] for at in indices] for row in grid[1:]), 2)


def _grid(path: Path, sheet: str | None) -> list[list[Any]]:
    try:
        with CalamineWorkbook.from_path(path) as book:
            name = _sheet_name(path, book, sheet)
            # Empty areas are kept, so that row numbers are those that Excel shows.
            return book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except CalamineError as error:
        raise DataError(f"{path} can't be read as an Excel workbook: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from None


def _sheet_name(path: Path, book: CalamineWorkbook, sheet: str | None) -> str:
    names = [
        item.name
        for item in book.sheets_metadata
        if item.typ == SheetTypeEnum.WorkSheet and item.visible == SheetVisibleEnum.Visible
    ]
    if sheet is None and len(names) == 1:
        return names[0]
    if sheet in book.sheet_names and sheet is not None:
        return sheet
    known = ", ".join(map(repr, names))
    if sheet is None:
        raise DataError(f"{path} has {len(names)} sheets ({known}); name the one to read with sheet.")
    raise DataError(f"{path} has no sheet {sheet!r}; its sheets are {known}.")


def _heading(cell: Any) -> str:
    try:
        return as_text(cell) or ""
    except TypeError:
        return ""
