"""A table as the study prints it: titled, rounded, with best values marked and the coverage of every number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = [
    "NO_VALUE",
    "STUDY_TABLES",
    "Best",
    "Cell",
    "Column",
    "Format",
    "Row",
    "ScoreKey",
    "Table",
    "marked",
    "slope_text",
    "text_cell",
    "value_cell",
]

NO_VALUE: Final = "–"

STUDY_TABLES: Final = ("2", "3", "4", "5", *(f"A{number}" for number in range(1, 14)))
"""The numbers of the study's tables; a further set's have its name behind them (``3:mine``)."""

Best = Literal["highest", "lowest"]
Format = Literal["f1", "percent", "deviation", "coefficient", "number", "p_value", "slope"]

_NOISE: Final = 1e-12
"""Slopes nearer to 0 are what rounding leaves of 0."""


def slope_text(value: float) -> str:
    """Return a change per year with its sign; one that four decimals have no room for keeps two digits.

    >>> slope_text(0.01234), slope_text(-0.0000123), slope_text(-1e-17)
    ('+0.0123', '-1.2e-05', '0.0000')
    """
    if abs(value) < _NOISE:
        return "0.0000"
    return f"{value:+.4f}" if abs(value) >= 0.00005 else f"{value:+.1e}"


_FORMATS: Final[dict[Format, Callable[[float], str]]] = {
    "f1": lambda value: _unpadded(f"{value:.4f}"),
    "percent": lambda value: f"{100 * value:.2f}",
    "deviation": lambda value: f"{value:.4f}",
    "coefficient": lambda value: f"{value:.4f}",
    "number": lambda value: f"{value:.0f}",
    "p_value": lambda value: "<0.0001" if value < 0.00005 else f"{value:.4f}",
    "slope": slope_text,
}


def _unpadded(text: str) -> str:
    """Return a number without the zero before its point, as the study prints F1."""
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


class ScoreKey(NamedTuple):
    """Names one row of the tidy scores."""

    model: str
    dataset: str
    metric: str
    group_key: str | None
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell; a number carries what it stands on."""

    text: str
    value: float | None = None
    """Full precision; rates are fractions here."""
    counted: int | None = None
    """Rows that the value stands on."""
    n: int | None = None
    """Rows there are."""
    reason: str | None = None
    """Why there is no value."""
    best: bool = False
    interval: str = ""
    """Its bootstrap interval, rounded as the value; empty where there is none."""
    score: ScoreKey | None = None
    """The tidy score that it shows; None where it shows something else."""

    @property
    def incomplete(self) -> bool:
        """Whether the number stands on fewer rows than there are."""
        return self.value is not None and self.n is not None and self.counted != self.n

    @property
    def coverage(self) -> str:
        """``counted/n``; empty where the cell is no number of a metric."""
        return "" if self.n is None else f"{self.counted}/{self.n}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; ``over`` is the heading above it that it shares with its neighbours."""

    name: str
    over: str = ""
    best: Best | None = None
    words: bool = False
    """Whether it holds words, which are set to the left."""

    @property
    def full_name(self) -> str:
        """The heading in one line."""
        return f"{self.over} {self.name}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; ``compared`` says whether its values may be the best ones."""

    name: str
    cells: tuple[Cell, ...]
    compared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the study (``key`` is its number there), or one that the study has not got."""

    key: str
    title: str
    corner: str
    """Heading of the first column."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """Its number in the study; empty where the study has no such table."""
        base = self.key.partition(":")[0]
        return base if base in STUDY_TABLES else ""

    @property
    def heading(self) -> str:
        """What stands above it for people: the study's number, where it has one, and the title."""
        return f"Table {self.number}. {self.title}" if self.number else self.title

    def frame(self) -> pl.DataFrame:
        """Return the tidy form: one row per cell.

        Returns:
            Columns table, row, column, text, value, counted, n, reason, best.
        """
        return pl.DataFrame(
            [
                (
                    self.key,
                    row.name,
                    column.full_name,
                    cell.text,
                    cell.value,
                    cell.counted,
                    cell.n,
                    cell.reason,
                    cell.best,
                )
                for row in self.rows
                for column, cell in zip(self.columns, row.cells, strict=True)
            ],
            schema={
                "table": pl.String,
                "row": pl.String,
                "column": pl.String,
                "text": pl.String,
                "value": pl.Float64,
                "counted": pl.Int64,
                "n": pl.Int64,
                "reason": pl.String,
                "best": pl.Boolean,
            },
            orient="row",
        )


def text_cell(text: str) -> Cell:
    """Return a cell that is no number."""
    return Cell(text=text)


def value_cell(
    value: float | None,
    form: Format,
    *,
    counted: int | None = None,
    n: int | None = None,
    reason: str | None = None,
    interval: tuple[float | None, float | None] = (None, None),
    score: ScoreKey | None = None,
) -> Cell:
    """Return a number's cell, rounded as the study rounds."""
    text = NO_VALUE if value is None else _FORMATS[form](value)
    low, high = interval
    between = "" if low is None or high is None else f"[{_FORMATS[form](low)}, {_FORMATS[form](high)}]"
    return Cell(text=text, value=value, counted=counted, n=n, reason=reason, interval=between, score=score)


def marked(
    columns: Sequence[Column], rows: Sequence[Row], excluded: Collection[tuple[int, int]] = ()
) -> tuple[Row, ...]:
    """Return the rows with the best value of each column marked; ties, as printed, are all marked.

    Args:
        columns: Say whether high or low is best.
        rows: Those with ``compared`` compete.
        excluded: Cells that may not be best although their value is, as (row, column), counted from 0.
    """
    marks: set[tuple[int, int]] = set()
    for index, column in enumerate(columns):
        if column.best is None:
            continue
        competing = [
            (number, row.cells[index])
            for number, row in enumerate(rows)
            if row.compared and row.cells[index].value is not None and (number, index) not in excluded
        ]
        if len(competing) > 1:
            pick = max if column.best == "highest" else min
            top = pick(float(cell.text) for _, cell in competing)
            marks |= {(number, index) for number, cell in competing if float(cell.text) == top}
    return tuple(
        replace(row, cells=tuple(replace(cell, best=(number, index) in marks) for index, cell in enumerate(row.cells)))
        for number, row in enumerate(rows)
    )
