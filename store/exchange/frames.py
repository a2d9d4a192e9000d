"""Rows of a store as Parquet columns, and back without loss.

A column of type ANY (text from outside, see :mod:`hatevolution.store.text`) becomes two: ``body`` holds the text, and
``body_bytes`` the exact bytes where the value is no valid Unicode text (a body in another encoding, an unpaired
surrogate); the text beside them then has U+FFFD in place of what is no text. Reading back takes the bytes where there
are some. All other values are Parquet strings, 64-bit integers and doubles, which hold SQLite's exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.errors import StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

__all__ = ["BYTES", "Column", "columns_of", "frame_of", "parts_of", "rows_of"]

BYTES: Final = "_bytes"
"""What the name of the second column of a pair ends in."""

_ROWS: Final = 100_000
_SIZE: Final = 64 * 2**20
"""A part of a table ends at so many rows, or so many characters of text; memory is bounded by one part."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    """SQLite's STRICT type: TEXT, INTEGER, REAL or ANY."""


def columns_of(connection: sqlite3.Connection, table: str, names: Iterable[str] | None = None) -> list[Column]:
    """Return columns of a table, in the order of the names (None: all, in the table's order)."""
    kinds = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}
    return [Column(name, kinds[name]) for name in (kinds if names is None else names)]


def parts_of(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Cut rows into parts of a bounded size; a table without rows has one part without rows."""
    part: list[Sequence[Any]] = []
    size = 0
    empty = True
    for row in rows:
        part.append(row)
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(part) >= _ROWS or size >= _SIZE:
            yield part
            part, size, empty = [], 0, False
    if part or empty:
        yield part


def frame_of(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Return rows as a frame with the columns' types, whatever is in them."""
    import polars as pl

    kinds: dict[str, pl.DataType] = {"TEXT": pl.String(), "INTEGER": pl.Int64(), "REAL": pl.Float64()}
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    found: list[pl.Series] = []
    for column, values in zip(columns, by_column, strict=True):
        if column.kind == "ANY":
            found.append(pl.Series(column.name, [_shown(value) for value in values], pl.String()))
            exact = [value if isinstance(value, bytes) else None for value in values]
            found.append(pl.Series(column.name + BYTES, exact, pl.Binary()))
        else:
            found.append(pl.Series(column.name, values, kinds[column.kind]))
    return pl.DataFrame(found)


def _shown(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def rows_of(columns: Sequence[Column], frame: pl.DataFrame, where: str) -> Iterator[tuple[Any, ...]]:
    """Return the rows that :func:`frame_of` was given; further columns are left aside.

    Raises:
        StoreError: A column is missing; the text begins with ``where``.
    """
    wanted = [name for column in columns for name in _names(column)]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise StoreError(f"{where} has no column {missing[0]!r}; an export has it.")
    values: list[Sequence[Any]] = []
    for column in columns:
        series = frame[column.name].to_list()
        if column.kind == "ANY":
            exact = frame[column.name + BYTES].to_list()
            series = [text if raw is None else raw for text, raw in zip(series, exact, strict=True)]
        values.append(series)
    return zip(*values, strict=True)


def _names(column: Column) -> tuple[str, ...]:
    return (column.name, column.name + BYTES) if column.kind == "ANY" else (column.name,)
