"""What stands below a table: why cells are empty, and what its numbers stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hatevolution.analysis.tables import Cell, Table

__all__ = ["coverage_note", "footnotes", "mark", "reference", "uniform_n"]

_SUPERSCRIPTS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def footnotes(table: Table) -> dict[str, int]:
    """Return the reasons of a table's empty cells, numbered in order of appearance."""
    empty = [cell for row in table.rows for cell in row.cells if cell.value is None]
    reasons = dict.fromkeys(cell.reason for cell in empty)
    return {reason: number for number, reason in enumerate(filter(None, reasons), 1)}


def reference(cell: Cell, notes: dict[str, int]) -> str:
    """Return the mark that leads from an empty cell to its reason; empty for other cells."""
    if cell.value is not None or cell.reason is None:
        return ""
    return mark(notes[cell.reason])


def mark(number: int) -> str:
    """Return a footnote's number as superscript digits."""
    return str(number).translate(_SUPERSCRIPTS)


def uniform_n(table: Table, index: int) -> int | None:
    """Return the number of rows that all models of a column share; None where they differ."""
    found = {row.cells[index].n for row in table.rows if row.compared and row.cells[index].n is not None}
    return found.pop() if len(found) == 1 else None


def coverage_note(table: Table) -> str | None:
    """Say how to read the coverage, and who has no number; None where there is no number, or none that is of rows."""
    counted = [(row.name, [cell for cell in row.cells if cell.n is not None]) for row in table.rows]
    cells = [cell for _, found in counted for cell in found]
    if all(cell.value is None for cell in cells):
        return None
    without = [name for name, found in counted if found and all(cell.value is None for cell in found)]
    none = f" No number at all: {', '.join(without)}." if without else ""
    if any(cell.incomplete for cell in cells):
        return f"A number that does not stand on all its n rows has the count of those it stands on beside it.{none}"
    if all(cell.value is not None for cell in cells):
        return "Every number stands on all its rows."
    return f"Every number that is there stands on all its rows.{none}"
