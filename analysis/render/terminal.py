"""Tables on a terminal (rich): blocks that fit its width, coverage below the numbers, everything foreign inert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from hatevolution.analysis.render.footnotes import coverage_note, footnotes, mark, reference, uniform_n
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from hatevolution.analysis.tables import Cell, Table

__all__ = ["print_table", "print_text"]

_PADDING: Final = 3
"""Columns of a terminal that rich adds to each column of a table."""


def print_table(console: Console, table: Table) -> None:
    """Print a table; one that is wider than the console is split into blocks of columns, and of none are the notes."""
    console.print()
    console.print(Text(one_line(table.heading), style="bold"), soft_wrap=True)
    notes = footnotes(table)
    for block in _blocks(console, table, notes) if table.rows else ():
        console.print(_block(table, block, notes))
    for reason, number in notes.items():
        console.print(Text(f"{mark(number)} {one_line(reason)}", style="dim"), soft_wrap=True)
    for note in filter(None, (*table.notes, coverage_note(table))):
        console.print(Text(one_line(note), style="dim"), soft_wrap=True)


def _heading(table: Table, index: int) -> str:
    column, n = table.columns[index], uniform_n(table, index)
    lines = [one_line(column.over), one_line(column.name), f"n={n}" if n is not None else ""]
    return "\n".join(line for line in lines if line)


def _lines(cell: Cell, notes: dict[str, int]) -> list[str]:
    below = [cell.interval, cell.coverage if cell.incomplete else ""]
    return [one_line(cell.text) + reference(cell, notes), *filter(None, below)]


def _width(table: Table, index: int, notes: dict[str, int]) -> int:
    lines = _heading(table, index).split("\n")
    for row in table.rows:
        lines += _lines(row.cells[index], notes)
    return max(Text(line).cell_len for line in lines) + _PADDING


def _blocks(console: Console, table: Table, notes: dict[str, int]) -> list[list[int]]:
    first = max(
        (Text(one_line(name)).cell_len for name in (table.corner, *(row.name for row in table.rows))), default=0
    )
    room = console.width - first - _PADDING - 1
    blocks: list[list[int]] = [[]]
    used = 0
    for index in range(len(table.columns)):
        width = _width(table, index, notes)
        if blocks[-1] and used + width > room:
            blocks.append([])
            used = 0
        blocks[-1].append(index)
        used += width
    return blocks


def _block(table: Table, indices: list[int], notes: dict[str, int]) -> RichTable:
    made = RichTable(box=box.SIMPLE_HEAD, header_style="bold")
    made.add_column(Text(one_line(table.corner)), no_wrap=True)
    for index in indices:
        side: JustifyMethod = "left" if table.columns[index].words else "right"
        made.add_column(Text(_heading(table, index), justify=side), justify=side, no_wrap=True)
    for row in table.rows:
        cells = []
        for index in indices:
            cell = row.cells[index]
            text, *below = _lines(cell, notes)
            shown = Text(text, style="bold green" if cell.best else "")
            for line in below:
                shown.append(f"\n{line}", style="dim")
            cells.append(shown)
        made.add_row(Text(one_line(row.name)), *cells)
    return made


def print_text(console: Console, line: str) -> None:
    """Print a line of text, inert."""
    console.print(Text(one_line(line)), soft_wrap=True)
