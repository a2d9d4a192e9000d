"""JSON lines: one object per line; lines end at line feeds and nowhere else."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

import msgspec

from hatevolution.adapters.datasets.rows import bad_row, no_column, typed_blocks
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hatevolution.adapters.datasets.rows import Block, Wanted

__all__ = ["jsonl_blocks"]


def jsonl_blocks(path: Path, wanted: Wanted) -> Iterator[Block]:
    """Yield the wanted values of the lines.

    A key that only some lines have is missing in the others; one that no line has is a mistake in the configuration.

    Raises:
        DataError: The file can't be read, a line is no JSON object, or one lacks a required key.
    """
    return typed_blocks(path, wanted, _rows(path, wanted), 1)


def _rows(path: Path, wanted: Wanted) -> Iterator[list[Any]]:
    absent = set(wanted.names)
    seen: tuple[str, ...] = ()
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.isspace():
                    if any(not rest.isspace() for rest in stream):
                        raise bad_row(path, number, "the line is empty")
                    break  # blank lines at the end of the file
                values = _object(path, number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
                if not wanted.required <= values.keys():
                    lacking = next(name for name in wanted.names if name in wanted.required and name not in values)
                    raise bad_row(path, number, f"there is no {lacking!r}; its keys are {', '.join(values) or 'none'}")
                if absent:
                    absent -= values.keys()
                    seen = tuple(values)
                yield [values.get(name) for name in wanted.names]
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    if absent and seen:
        raise no_column(path, min(absent), seen)


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        # The standard library's slower parser also takes unpaired surrogates ("\ud800") and NaN.
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise bad_row(path, number, f"not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise bad_row(path, number, f"a JSON object is expected, not a {type(value).__name__}")
    return value
