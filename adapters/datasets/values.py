"""Cells of tables as text, and years out of text."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any, Final

from hatevolution.configs.dataset_schema import spelling
from hatevolution.domain import Label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hatevolution.configs.dataset_schema import Labels

__all__ = ["Years", "as_text", "gold_labels", "lost_digits"]

_FIRST_YEAR: Final = 1000
_LAST_YEAR: Final = 2999
_MEMO: Final = 50_000
"""Different cells whose year is remembered; time stamps to the second would fill the memory otherwise."""
_EXACT: Final = 10**15
"""Excel keeps 15 significant digits; a number beyond them is no longer the one that was typed."""
_YEAR: Final = re.compile(r"([0-9]{4})(?:\.0+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?=$|[T ])")


def as_text(value: Any) -> str | None:
    """Return a cell of a typed format (xlsx, JSON, Parquet) as the text that a CSV file would hold.

    Args:
        value: What the reader of the format gave: text, number, boolean, date, or nothing.

    Returns:
        None for a missing value (null, NaN).

    Raises:
        TypeError: The cell holds a list, a table or something else that is no single value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool | int | float):
        return spelling(value)
    if isinstance(value, dt.date | dt.time):  # a datetime is a date
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def lost_digits(value: Any) -> bool:
    """Return whether an id was stored as a floating-point number too large to be exact."""
    return isinstance(value, float) and abs(value) >= _EXACT


def gold_labels(labels: Labels | None) -> dict[str | None, Label]:
    """Return the closed map from a cell's text to the gold label; empty where a set has no labels."""
    if labels is None:
        return {}
    golds: dict[str | None, Label] = {spelling(value): Label.TOXIC for value in labels.toxic}
    return golds | {spelling(value): Label.RESPECTFUL for value in labels.respectful}


class Years(dict[str | None, int | None]):
    """From a cell's text to its year, each different cell parsed once.

    Args:
        dates: Whether cells are dates (ISO 8601 at their beginning) and not years.
        none: Spellings that mean "no year"; empty and missing cells always do.

    A lookup raises ValueError for a cell that is neither.
    """

    def __init__(self, *, dates: bool, none: Iterable[str] = ()) -> None:
        super().__init__(dict.fromkeys(none))
        self[None] = self[""] = None
        self._parse = _year_of_date if dates else _year

    def __missing__(self, cell: str) -> int:
        year = self._parse(cell)
        if len(self) < _MEMO:
            self[cell] = year
        return year

    def accepts(self, cell: str | None) -> bool:
        """Return whether a cell can be looked up."""
        try:
            self[cell]
        except ValueError:
            return False
        return True


def _year(cell: str) -> int:
    match = _YEAR.fullmatch(cell.strip())
    if match is None or not _FIRST_YEAR <= int(match[1]) <= _LAST_YEAR:
        raise ValueError(f"{cell!r} is not a year such as 2021")
    return int(match[1])


def _year_of_date(cell: str) -> int:
    match = _DATE.match(cell.strip())
    try:
        year = 0 if match is None else dt.date.fromisoformat(match[0]).year
    except ValueError:
        year = 0
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        raise ValueError(f"{cell!r} is not a date such as 2021-05-30")
    return year
