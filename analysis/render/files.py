"""Tables as files: CSV, Parquet, Markdown, LaTeX.

CSV and Parquet have the study's columns, its rounding, and a last column ``best`` that names the columns in which a
row has the best value. A second file (``NAME.coverage``) of the same shape says how many rows each number stands on,
of how many, and a third one (``NAME.intervals``) has the bootstrap intervals, where they were asked for. Markdown and
LaTeX print best values in bold, and coverage and intervals beside the numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, get_args

import polars as pl
from tabulate import DataRow, Line, TableFormat, tabulate

from hatevolution.analysis.render.footnotes import coverage_note, footnotes, uniform_n
from hatevolution.analysis.render.inert import csv_text, latex_text, markdown_text
from hatevolution.analysis.tables.table import NO_VALUE
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hatevolution.analysis.tables import Cell, Table

__all__ = [
    "FORMATS",
    "FileFormat",
    "as_text",
    "file_name",
    "latex",
    "layout_frame",
    "markdown",
    "write_frame",
    "write_table",
]

FileFormat = Literal["csv", "parquet", "md", "latex"]
FORMATS: Final[tuple[FileFormat, ...]] = get_args(FileFormat)

_SUFFIX: Final[dict[FileFormat, str]] = {"csv": ".csv", "parquet": ".parquet", "md": ".md", "latex": ".tex"}

# tabulate's own LaTeX formats escape bold face or have no rules; cells arrive here finished.
_BOOKTABS: Final = TableFormat(
    lineabove=None,
    linebelowheader=Line("\\midrule", "", "", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("", " & ", " \\\\"),
    datarow=DataRow("", " & ", " \\\\"),
    padding=0,
    with_header_hide=None,
)


def file_name(key: str) -> str:
    """Return a table's file name without its ending, made of letters, digits, dots and hyphens."""
    safe = re.sub(r"[^A-Za-z0-9.-]+", "-", key).strip("-.") or "x"
    return f"table-{safe}"


def write_table(table: Table, folder: Path, form: FileFormat) -> list[Path]:
    """Write a table into a folder and return the files."""
    path = folder / f"{file_name(table.key)}{_SUFFIX[form]}"
    if form in ("md", "latex"):
        path.write_text(markdown(table) if form == "md" else latex(table), encoding="utf-8")
        return [path]
    written = [write_frame(layout_frame(table), path)]
    if any(cell.n is not None for row in table.rows for cell in row.cells):
        coverage = layout_frame(table, text=lambda cell: cell.coverage or _shown(cell), best=False)
        written.append(write_frame(coverage, path.with_name(f"{file_name(table.key)}.coverage{_SUFFIX[form]}")))
    if any(cell.interval for row in table.rows for cell in row.cells):
        between = layout_frame(table, text=lambda cell: cell.interval, best=False)
        written.append(write_frame(between, path.with_name(f"{file_name(table.key)}.intervals{_SUFFIX[form]}")))
    return written


def as_text(tables: Sequence[Table], form: FileFormat) -> str:
    """Return tables as one CSV, Markdown or LaTeX text; not as Parquet, which is no text.

    One table is the same CSV as its file. Several are one CSV with all their columns, whose first, ``table``, has the
    tables' keys: what a table has no column for is empty, so that a reader of CSV gets each back by its key, less the
    columns that are empty there.
    """
    if form != "csv":
        return "\n".join(map(markdown if form == "md" else latex, tables))
    if not tables:
        return ""
    frames = [layout_frame(table) for table in tables]
    if len(frames) > 1:
        key = _unique([*dict.fromkeys(name for frame in frames for name in frame.columns), "table"])[-1]
        frames = [
            frame.select(pl.lit(table.key).alias(key), pl.all()) for table, frame in zip(tables, frames, strict=True)
        ]
    return _inert(pl.concat(frames, how="diagonal")).write_csv()


def write_frame(frame: pl.DataFrame, path: Path) -> Path:
    """Write a frame as CSV (inert) or Parquet, as the path's ending says."""
    if path.suffix == ".parquet":
        frame.write_parquet(path)
        return path
    _inert(frame).write_csv(path)
    return path


def _inert(frame: pl.DataFrame) -> pl.DataFrame:
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    return frame.with_columns(
        pl.Series(name, [None if value is None else csv_text(value) for value in frame[name]], dtype=pl.String)
        for name in texts
    ).rename({name: csv_text(name) for name in frame.columns})


def _shown(cell: Cell) -> str:
    """Return a cell's text; nothing where it should be a number and there is none."""
    return "" if cell.text == NO_VALUE else cell.text


def layout_frame(table: Table, *, text: Callable[[Cell], str] = _shown, best: bool = True) -> pl.DataFrame:
    """Return a table in its layout: a text column per column of the table, and ``best``."""
    names = _unique([table.corner or "row", *(column.full_name for column in table.columns)])
    columns = {names[0]: [row.name for row in table.rows]}
    for index, name in enumerate(names[1:]):
        columns[name] = [text(row.cells[index]) for row in table.rows]
    if best and any(column.best for column in table.columns):
        columns[_unique([*names, "best"])[-1]] = [
            "; ".join(name for name, cell in zip(names[1:], row.cells, strict=True) if cell.best) for row in table.rows
        ]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _unique(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in found:
            candidate, number = f"{name} ({number})", number + 1
        found.append(candidate)
    return found


def markdown(table: Table) -> str:
    """Return a table in Markdown (GitHub's pipes)."""
    header, rows = _grid(table, markdown_text, bold="**{}**")
    body = tabulate(rows, header, tablefmt="pipe", disable_numparse=True, colalign=_alignment(table))
    notes = [markdown_text(note) for note in _notes(table)]
    number = f"**Table {table.number}.** " if table.number else ""
    return "\n\n".join([f"{number}{markdown_text(table.title)}", body, *notes]) + "\n"


def latex(table: Table) -> str:
    r"""Return a table in LaTeX; needs the packages booktabs, amssymb and textcomp."""
    header, rows = _grid(table, latex_text, bold=r"\textbf{{{}}}")
    body = tabulate(rows, header, tablefmt=_BOOKTABS, disable_numparse=True, colalign=_alignment(table))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}.}}",
        rf"\label{{tab:{file_name(table.key)}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex_text(note)}" for note in _notes(table)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _alignment(table: Table) -> list[str]:
    return ["left", *("right" for _ in table.columns)]


def _grid(table: Table, inert: Callable[[str], str], bold: str) -> tuple[list[str], list[list[str]]]:
    notes = footnotes(table)
    header = [inert(table.corner)]
    for index, column in enumerate(table.columns):
        n = uniform_n(table, index)
        header.append(inert(f"{column.full_name} (n = {n})" if n is not None else column.full_name))
    rows = []
    for row in table.rows:
        cells = [inert(row.name)]
        for cell in row.cells:
            text = inert(cell.text)
            if cell.best:
                text = bold.format(text)
            if cell.interval:
                text += inert(f" {cell.interval}")
            if cell.incomplete:
                text += inert(f" ({cell.coverage})")
            elif cell.value is None and cell.reason:
                text += inert(f" [{notes[cell.reason]}]")
            cells.append(text)
        rows.append(cells)
    return header, rows


def _notes(table: Table) -> list[str]:
    reasons = [f"[{number}] {one_line(reason)}." for reason, number in footnotes(table).items()]
    coverage = coverage_note(table)
    return [*reasons, *table.notes, *([coverage] if coverage else [])]
