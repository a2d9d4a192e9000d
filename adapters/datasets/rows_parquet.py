"""Parquet files, a block of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.adapters.datasets.rows import BLOCK_ROWS, Block, Wanted, column_indices, typed_column
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parquet_blocks"]

_READ_ROWS: Final = 65_536
"""Rows that Polars holds at a time."""


def parquet_blocks(path: Path, wanted: Wanted) -> Iterator[Block]:
    """Yield the wanted values of the rows; the first one is row 1, as a Parquet file has no header.

    Raises:
        DataError: The file can't be read, lacks a column, or a cell holds a list or a struct.
    """
    try:
        table = pl.scan_parquet(path, glob=False)
        column_indices(path, list(table.collect_schema()), wanted)
        height = table.select(pl.len()).collect().item()
        for start in range(0, height, _READ_ROWS):
            frame = table.select(list(dict.fromkeys(wanted.names))).slice(start, _READ_ROWS).collect()
            for number, piece in enumerate(frame.iter_slices(BLOCK_ROWS)):
                after = start + number * BLOCK_ROWS
                numbers = range(after + 1, after + 1 + piece.height)
                yield Block(
                    numbers, [typed_column(path, numbers, wanted, name, piece[name].to_list()) for name in wanted.names]
                )
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} can't be read as Parquet: {reason}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from None
