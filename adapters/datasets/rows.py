"""Tables of any format, read in blocks: the wanted columns in their order, cells as text.

Blocks of columns, and not rows, since a set may have millions of rows: whole columns are checked and converted by
C code, and memory holds one block at a time.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from itertools import compress, islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.adapters.datasets.values import as_text, lost_digits
from hatevolution.configs.dataset_schema import format_of, spelling
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hatevolution.configs.dataset_schema import Layout

__all__ = [
    "BLOCK_ROWS",
    "Block",
    "Wanted",
    "bad_row",
    "column_indices",
    "no_column",
    "read_blocks",
    "typed_blocks",
    "typed_column",
]

BLOCK_ROWS: Final = 256
"""Measured: with blocks of thousands of rows the garbage collector costs more than all else together."""


class Block(NamedTuple):
    """Some consecutive rows that count."""

    numbers: Sequence[int]
    """Of each row, as a person sees it in the file: the header is row 1; JSON lines and Parquet have none."""
    columns: list[Sequence[str | None]]
    """The wanted columns; None where the format has a value for "missing"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The columns to read."""

    names: tuple[str, ...]
    """In the order in which blocks shall hold them; a name may occur twice."""
    required: frozenset[str] = frozenset()
    """Those that no row may lack, in formats whose rows have keys of their own (JSONL)."""
    exact: str | None = None
    """The column of ids, which a number with rounded digits may not stand for."""


def read_blocks(path: Path, layout: Layout, wanted: Wanted) -> Iterator[Block]:
    """Yield the rows that the layout's filters keep, with its replacements made. Filters see the file's own values.

    Args:
        path: The file.
        layout: How it is written, which rows count, which values to replace.
        wanted: The columns to read.

    Raises:
        DataError: The file can't be read, lacks a column, or has a malformed row; the text names file and row.
    """
    count = len(wanted.names)
    names = (*wanted.names, *layout.filters)  # those of the filters are read as well, behind the wanted ones
    allowed = [frozenset(map(spelling, values)) for values in layout.filters.values()]
    replaced = [(at, layout.replace[name]) for at, name in enumerate(wanted.names) if name in layout.replace]
    everything = Wanted(names=names, required=wanted.required | layout.filters.keys(), exact=wanted.exact)
    for block in _blocks(path, layout, everything):
        kept = _filtered(block, count, allowed) if allowed else block
        for at, table in replaced:
            kept.columns[at] = [cell if cell is None else table.get(cell, cell) for cell in kept.columns[at]]
        yield kept


def _blocks(path: Path, layout: Layout, wanted: Wanted) -> Iterator[Block]:
    # One module per format, imported when used: reading CSV files needs neither Polars nor Calamine.
    kind = format_of(layout, path)
    if kind == "csv":
        from hatevolution.adapters.datasets.rows_csv import csv_blocks

        delimiter = layout.delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
        return csv_blocks(path, wanted, layout.encoding, delimiter)
    if kind == "jsonl":
        from hatevolution.adapters.datasets.rows_jsonl import jsonl_blocks

        return jsonl_blocks(path, wanted)
    if kind == "parquet":
        from hatevolution.adapters.datasets.rows_parquet import parquet_blocks

        return parquet_blocks(path, wanted)
    from hatevolution.adapters.datasets.rows_xlsx import xlsx_blocks

    return xlsx_blocks(path, wanted, layout.sheet)


def _filtered(block: Block, count: int, allowed: Sequence[frozenset[str]]) -> Block:
    """Return the rows whose last columns hold allowed values, without those columns."""
    tests = zip(*block.columns[count:], strict=True)
    keep = [all(cell in values for cell, values in zip(cells, allowed, strict=True)) for cells in tests]
    columns: list[Sequence[str | None]] = [list(compress(column, keep)) for column in block.columns[:count]]
    return Block(list(compress(block.numbers, keep)), columns)


def typed_blocks(path: Path, wanted: Wanted, rows: Iterable[Sequence[Any]], first: int) -> Iterator[Block]:
    """Yield rows of a typed format in blocks, as text.

    Args:
        path: The file, for errors.
        wanted: What the columns are.
        rows: The wanted values of each row.
        first: Number of the first row.

    Raises:
        DataError: See :func:`typed_column`.
    """
    stream = iter(rows)
    while some := list(islice(stream, BLOCK_ROWS)):
        numbers = range(first, first + len(some))
        columns = zip(wanted.names, zip(*some, strict=True), strict=True)
        yield Block(numbers, [typed_column(path, numbers, wanted, name, values) for name, values in columns])
        first += len(some)


def typed_column(
    path: Path, numbers: Sequence[int], wanted: Wanted, name: str, values: Sequence[Any]
) -> Sequence[str | None]:
    """Return the values of one column as text.

    Raises:
        DataError: A cell is no single value, or an id was stored as a number that has lost its last digits.
    """
    kinds = set(map(type, values))
    if kinds <= {str, NoneType}:
        return values
    if kinds == {int}:
        return list(map(str, values))
    return [_typed_cell(path, number, wanted, name, value) for number, value in zip(numbers, values, strict=True)]


def _typed_cell(path: Path, row: int, wanted: Wanted, name: str, value: Any) -> str | None:
    if name == wanted.exact and lost_digits(value):
        what = f"the id in {name!r} is stored as the number {value!r}, which has lost its last digits"
        raise bad_row(path, row, f"{what}; ids of more than 15 digits have to be stored as text")
    try:
        return as_text(value)
    except TypeError as error:
        raise bad_row(path, row, f"{name!r} holds {error}, where one value is expected") from None


def bad_row(path: Path, row: int, what: str) -> DataError:
    """Return the error for one row of a file."""
    return DataError(f"{path}, row {row}: {what}.")


def no_column(path: Path, name: str, known: Sequence[str]) -> DataError:
    """Return the error for a column that a file has not got."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return DataError(f"{path} has no column {name!r}{hint}; its columns are {', '.join(map(repr, known)) or 'none'}.")


def column_indices(path: Path, header: Sequence[str], wanted: Wanted) -> list[int]:
    """Return where each wanted column stands.

    Raises:
        DataError: A wanted column is missing, or there are several of its name.
    """
    counts = Counter(header)
    for name in wanted.names:
        if counts[name] == 0:
            raise no_column(path, name, [column for column in header if column])
        if counts[name] > 1:
            raise DataError(
                f"{path} has {counts[name]} columns named {name!r}, so it is not clear which one is meant; rename one."
            )
    return [header.index(name) for name in wanted.names]
