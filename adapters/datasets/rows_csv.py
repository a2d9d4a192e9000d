"""CSV files, strictly: a malformed row is an error that names it, and never skipped."""

from __future__ import annotations

import codecs
import csv
from itertools import islice
from typing import TYPE_CHECKING, Final

from hatevolution.adapters.datasets.rows import BLOCK_ROWS, Block, bad_row, column_indices
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hatevolution.adapters.datasets.rows import Wanted

__all__ = ["csv_blocks"]

_BUFFER: Final = 1 << 20
_LONGEST_FIELD: Final = 2**31 - 1
"""Characters; the csv module refuses texts beyond 131,072 by default."""


def csv_blocks(path: Path, wanted: Wanted, encoding: str | None, delimiter: str) -> Iterator[Block]:
    """Yield the wanted cells of the rows below the header, exactly as they stand in the file.

    Lines end where the csv module says, inside and outside quotes: U+2028, U+0085 and the like are text.

    Raises:
        DataError: The file can't be read or decoded, lacks a column, or has a row that is malformed or of another
            length than the header.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        with path.open(newline="", encoding=encoding or _utf8(path), buffering=_BUFFER) as stream:
            rows = _well_formed(path, csv.reader(stream, delimiter=delimiter, strict=True))
            header = next(rows, [[]])[0]
            indices = column_indices(path, header, wanted)
            first = 2
            for some in rows:
                if set(map(len, some)) != {len(header)}:
                    _check_shapes(path, first, some, rows, len(header))
                columns = list(zip(*some, strict=True))
                if columns:
                    yield Block(range(first, first + len(some)), [columns[at] for at in indices])
                first += len(some)
    except UnicodeDecodeError as error:
        raise _undecodable(path, error) from None
    except LookupError:
        raise DataError(f"{path}: there is no encoding named {encoding!r}; utf-8 and cp1252 are common ones.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None


def _well_formed(path: Path, reader: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    """Yield the header alone, then blocks of rows."""
    done, most = 0, 1
    while True:
        some: list[list[str]] = []
        try:
            some.extend(islice(reader, most))
        except csv.Error as error:
            row = done + len(some) + 1  # extend() has kept the rows before the bad one
            what = f"malformed CSV ({error}); quotes inside a quoted field have to be doubled"
            raise bad_row(path, row, what) from None
        if not some:
            return
        yield some
        done, most = done + len(some), BLOCK_ROWS


def _check_shapes(path: Path, first: int, some: list[list[str]], rest: Iterable[list[list[str]]], width: int) -> None:
    """Take blank lines off the end of the file, and refuse any other row that is longer or shorter than the header."""
    if some[-1] == [] and not any(any(more) for more in rest):
        while some and some[-1] == []:
            some.pop()
    for row, cells in enumerate(some, first):
        if not cells and width:
            raise bad_row(path, row, "the row is empty")
        if len(cells) != width:
            what = f"{len(cells)} cells where the header has {width}"
            raise bad_row(path, row, f"{what}; a text with a comma or a line end has to stand in quotes")


def _utf8(path: Path) -> str:
    # The decoder that looks for a byte order mark is slower, so it is used for files that have one.
    with path.open("rb") as stream:
        return "utf-8-sig" if stream.read(3) == codecs.BOM_UTF8 else "utf-8"


def _undecodable(path: Path, error: UnicodeDecodeError) -> DataError:
    """Return the error for bytes that are no text, with the line they stand in."""
    line = None
    if error.encoding == "utf-8":  # in UTF-8, and not in every encoding, this byte ends a line and nothing else
        with path.open("rb") as stream:
            line = next((number for number, raw in enumerate(stream, 1) if not _is_utf8(raw)), None)
    place = "" if line is None else f" (line {line})"
    return DataError(
        f"{path} is not {error.encoding} text{place}; say how it is written with encoding, such as cp1252."
    )


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
