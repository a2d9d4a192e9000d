"""Parquet files, a block of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.adapters.datasets.rows import Block, Wanted, column_indices, typed_row
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parquet_blocks"]

_BLOCK: Final = 65_536
"""Rows in memory at a time."""


def parquet_blocks(path: Path, wanted: Wanted) -> Iterator[Block]:
    """Yield the wanted values of the rows; the first one is row 1, as a Parquet file has no header.

    Raises:
        DataError: The file can't be read, lacks a column, or a cell holds a list or a struct.
    """
    try:
        table = pl.scan_parquet(path, glob=False)
        column_indices(path, list(table.collect_schema()), wanted)
        height = table.select(pl.len()).collect().item()
        for start in range(0, height, _BLOCK):
            frame = table.select(dict.fromkeys(wanted.names)).slice(start, _BLOCK).collect()
            numbers = range(start + 1, start + 1 + frame.height)
            yield Block(numbers, [_texts(path, numbers, wanted, name, frame[name]) for name in wanted.names])
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} can't be read as Parquet: {reason}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from None


def _texts(path: Path, numbers: range, wanted: Wanted, name: str, cells: pl.Series) -> list[str | None]:
    if cells.dtype == pl.String:
        return cells.to_list()
    column = Wanted(names=(name,), exact=wanted.exact)
    values = cells.to_list()
    return [typed_row(path, number, column, [value])[0] for number, value in zip(numbers, values, strict=True)]
