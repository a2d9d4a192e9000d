"""The predictions of a store, column by column, in chunks of bounded size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import adbc_driver_sqlite.dbapi as adbc
import polars as pl

from hatevolution.errors import StoreError
from hatevolution.store.reader import BUSY_S, uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adbc_driver_manager.dbapi import Connection

__all__ = ["CHUNK_ROWS", "chunks"]

CHUNK_ROWS: Final = 400_000
"""Predictions per chunk: at some 200 bytes each, a chunk and what is made of it stay below half a gigabyte."""

_BATCH_ROWS: Final = 65_536
"""Rows per Arrow batch; ADBC's default of 1024 costs more than the reading."""

# ADBC takes a column's type from the first batch and fails where a later value has another one: a column that begins
# with NULLs, or a text that had to be stored as a BLOB, would end the read. Hence no column has a NULL, and the raw
# text (of type ANY) is read as bytes, which also keeps invalid UTF-8 away from Polars' strings.
_QUERY: Final = """
SELECT model, dataset, sentence, status,
       coalesce(CAST(raw_text AS BLOB), x'') AS raw_text, coalesce(scores, '') AS scores
FROM predictions WHERE rowid BETWEEN {first} AND {last}
"""

_SCHEMA: Final = {
    "model": pl.String,
    "dataset": pl.String,
    "sentence": pl.String,
    "status": pl.String,
    "raw_text": pl.Binary,
    "scores": pl.String,
}


def chunks(path: Path | str, rows: int = CHUNK_ROWS) -> Iterator[pl.DataFrame]:
    """Yield all predictions: model, dataset, sentence, status, raw_text (bytes), scores (JSON or empty).

    Raises:
        StoreError: SQLite can't read the file.
    """
    try:
        with adbc.connect(uri(Path(path), "ro")) as connection:
            _read(connection, f"PRAGMA busy_timeout = {1000 * BUSY_S:.0f}")
            last = _last_row(connection)
            for first in range(1, last + 1, rows):
                yield _read(connection, _QUERY.format(first=first, last=first + rows - 1)).cast(_SCHEMA)  # type: ignore[arg-type]
    except (adbc.Error, pl.exceptions.ComputeError) as error:
        raise StoreError(f"{path} can't be read: {' '.join(str(error).split())}.") from None


def _last_row(connection: Connection) -> int:
    return int(_read(connection, "SELECT coalesce(max(rowid), 0) AS last FROM predictions")["last"][0])


def _read(connection: Connection, query: str) -> pl.DataFrame:
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
        cursor.execute(query)
        return pl.DataFrame(cursor.fetch_arrow())
