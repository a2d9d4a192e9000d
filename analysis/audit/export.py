"""Views of the audit as files: CSV, JSON Lines, Parquet, Excel. Complete, inert, and in bounded memory.

======  ====================================================================================================
.csv    UTF-8 with a byte order mark; every text in quotes, none runs as a formula, each row is one line
        (:mod:`hatevolution.analysis.audit.inert`); an empty text is ``""``, a missing value is nothing
.jsonl  one ASCII JSON object a line; every text exactly as it is, unpaired surrogates and NUL included
.parquet  texts as they are; one with an unpaired surrogate has U+FFFD there, and its exact bytes (UTF-8 with
        ``surrogatepass``) in the column NAME_bytes
.xlsx   texts as strings, never formulas or links, with the escapes of the CSV; one that is longer than Excel's cells
        goes on in the sheet "long texts"
======  ====================================================================================================
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from hatevolution.analysis.audit.inert import csv_cell
from hatevolution.errors import ConfigError
from hatevolution.store.text import encode, visible

if TYPE_CHECKING:
    from hatevolution.analysis.audit.flat import Columns

__all__ = ["SUFFIXES", "Rows", "check_target", "export"]

Rows = Iterable[Mapping[str, Any]]
_BATCH_ROWS: Final = 2_000
_BATCH_CHARACTERS: Final = 8_000_000


def check_target(path: Path) -> str:
    """Return a file's ending.

    Raises:
        ConfigError: No format belongs to it, what writes it is not installed, or the file is there. What was exported
            may have notes and verdicts of people in it by now, so as `store export` this overwrites nothing.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"{path} ends in none of {', '.join(SUFFIXES)}, which say the format of an export.")
    if suffix == ".xlsx":
        from hatevolution.analysis.audit.excel import need_xlsxwriter

        need_xlsxwriter()
    if os.path.lexists(path):
        raise ConfigError(f"{path} exists already; an export never overwrites anything. Choose another --export.")
    return suffix


def export(rows: Rows, columns: Columns, path: Path) -> int:
    """Write rows into a file, which appears whole or not at all, and return their number.

    Args:
        rows: One mapping per row; what a column has not is missing.
        columns: Names and dtypes, in order.
        path: Its ending says the format.

    Raises:
        ConfigError: See :func:`check_target`; or the folder can't be written to.
    """
    suffix = check_target(path)
    counter = _Counter(rows)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=suffix, dir=path.parent)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}.") from None
    made = Path(name)
    try:
        os.fchmod(handle, 0o666 & ~_umask())
        with os.fdopen(handle, "wb") as file:
            SUFFIXES[suffix](counter, columns, file)
        check_target(path)  # again: it may have taken minutes
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    return counter.count


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class _Counter:
    """Rows on their way, counted."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for row in self._rows:
            self.count += 1
            yield row


def _batches(rows: Rows) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    weight = 0
    for row in rows:
        batch.append(row)
        weight += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(batch) >= _BATCH_ROWS or weight >= _BATCH_CHARACTERS:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _write_csv(rows: Rows, columns: Columns, file: IO[bytes]) -> None:
    file.write(b"\xef\xbb\xbf")
    file.write(",".join(f'"{name}"' for name in columns).encode() + b"\r\n")
    for row in rows:
        file.write((",".join(_csv_value(row.get(name)) for name in columns) + "\r\n").encode())


def _csv_value(value: object) -> str:
    # Not the csv module: until Python 3.12 it can't tell a missing value from an empty text.
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + csv_cell(value).replace('"', '""') + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_jsonl(rows: Rows, columns: Columns, file: IO[bytes]) -> None:
    for row in rows:
        line = json.dumps({name: row.get(name) for name in columns}, ensure_ascii=True, allow_nan=False)
        file.write(line.encode() + b"\n")


def _write_parquet(rows: Rows, columns: Columns, file: IO[bytes]) -> None:
    from polars.io.plugins import register_io_source

    schema: dict[str, Any] = {}
    for name, dtype in columns.items():
        schema[name] = dtype
        if dtype == pl.String and name.endswith(("text", "target", "words", "example")):
            schema[f"{name}_bytes"] = pl.Binary

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for batch in _batches(rows if n_rows is None else islice(rows, n_rows)):
            frame = pl.DataFrame({name: _column(batch, name) for name in schema}, schema=schema)
            frame = frame if with_columns is None else frame.select(with_columns)
            yield frame if predicate is None else frame.filter(predicate)

    register_io_source(source, schema=schema).sink_parquet(file)


def _column(batch: list[Mapping[str, Any]], name: str) -> list[Any]:
    exact = name.removesuffix("_bytes")
    values = [row.get(exact) for row in batch]
    if exact == name:
        return [visible(value) if isinstance(value, str) else value for value in values]
    stored = [None if value is None else encode(value) for value in values]
    return [value if isinstance(value, bytes) else None for value in stored]


def _write_xlsx(rows: Rows, columns: Columns, file: IO[bytes]) -> None:
    from hatevolution.analysis.audit.excel import write_xlsx

    write_xlsx(rows, columns, file)


SUFFIXES: Final[Mapping[str, Callable[[Rows, Columns, IO[bytes]], None]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    ".xlsx": _write_xlsx,
}
