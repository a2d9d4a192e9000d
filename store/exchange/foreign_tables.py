"""Tables of ids and answers, CSV or JSON lines, as the study's notebooks write them (``id,results``)."""

from __future__ import annotations

import csv
import difflib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.errors import DataError
from hatevolution.store.exchange.foreign import Foreign, at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FAILURES", "Columns", "json_lines", "read_csv", "read_jsonl"]

FAILURES: Final = ("Error",)
"""What the study's notebooks write where a request failed (02_Inference, ``responses.append("Error")``)."""

_LONGEST_CELL: Final = 2**31 - 1


class Columns(NamedTuple):
    """Where things stand in a table's rows."""

    id: str | None = "id"
    text: str | None = None
    answer: str = "results"
    failures: tuple[str, ...] = FAILURES
    """Answers that stand for a failed request."""
    empty_is_answer: bool = False
    """Whether an empty cell is an answer of no characters. A table can't tell that from a missing one."""


def read_csv(path: Path, columns: Columns) -> Iterator[Foreign]:
    """Read a CSV file with a header; the first row below it is row 2.

    Raises:
        DataError: It is no CSV in UTF-8, or lacks a column; the text names file and column or row.
    """
    csv.field_size_limit(_LONGEST_CELL)
    number = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, None)
            if header is None:
                raise DataError(f"{path} is empty; a header with the columns {_wanted(columns)} is needed.")
            _require(path, columns, header)
            for number, row in enumerate(reader, 2):
                if not row:
                    continue
                if len(row) != len(header):
                    raise DataError(f"{path}, row {number}: {len(row)} cells, but the header has {len(header)}.")
                yield _foreign(number, dict(zip(header, row, strict=True)), columns)
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except csv.Error as error:
        raise DataError(f"{path}, row {number + 1}: not valid CSV: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None


def read_jsonl(path: Path, columns: Columns) -> Iterator[Foreign]:
    """Read JSON lines; columns are keys, or paths of keys such as ``output.text``.

    Raises:
        DataError: A line is no JSON object, or none of the lines has the answers' key.
    """
    seen = False
    for number, record, _ in json_lines(path):
        seen = seen or at(record, columns.answer) is not None
        yield _foreign(number, record, columns)
    if not seen:
        raise DataError(f"{path}: no line has {columns.answer!r}, where the answers are looked for.")


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Yield line number, object and line of a file of JSON lines.

    Raises:
        DataError: It can't be read, or a line is no JSON object.
    """
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise DataError(f"{path}, line {number}: not a JSON object.")
                yield number, record, line.rstrip("\n")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not valid JSON: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None


def _foreign(number: int, record: dict[str, Any], columns: Columns) -> Foreign:
    answer, why_not = _answer(at(record, columns.answer), columns)
    return Foreign(
        number=number,
        record=json.dumps(record),
        id=None if columns.id is None else _text(at(record, columns.id)),
        text=None if columns.text is None else _text(at(record, columns.text)),
        answer=answer,
        why_not=why_not,
    )


def _answer(value: Any, columns: Columns) -> tuple[str | None, str | None]:
    if value is None:
        return None, "no answer"
    if isinstance(value, (dict, list)):
        return None, f"{columns.answer!r} is not a text"
    text = _text(value)
    if text in columns.failures:
        return None, f"a failed request ({text!r})"
    if text == "" and not columns.empty_is_answer:
        return None, "an empty cell: missing, or an answer of no characters"
    return text, None


def _text(value: Any) -> str | None:
    """Return a JSON value as text: numbers and booleans as JSON spells them."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _wanted(columns: Columns) -> str:
    return " and ".join(repr(name) for name in (columns.id, columns.text, columns.answer) if name is not None)


def _require(path: Path, columns: Columns, header: list[str]) -> None:
    for name in (columns.id, columns.text, columns.answer):
        if name is not None and name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise DataError(f"{path} has no column {name!r}{hint}; it has: {', '.join(map(repr, header))}.")
        if name is not None and header.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice; which one is meant can't be told.")
