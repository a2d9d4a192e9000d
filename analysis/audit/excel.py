"""Excel files, row by row (XlsxWriter with constant memory)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Final

from hatevolution.analysis.audit.inert import visible_cell
from hatevolution.errors import ConfigError, not_installed

if TYPE_CHECKING:
    from hatevolution.analysis.audit.export import Rows
    from hatevolution.analysis.audit.flat import Columns

__all__ = ["need_xlsxwriter", "write_xlsx"]

_CELL: Final = 32_767
"""Characters (UTF-16 units) that a cell of Excel holds (Microsoft, "Excel specifications and limits")."""
_PART: Final = 16_000
"""Characters per part of a longer text: below the limit even where each needs two UTF-16 units."""
_ROWS: Final = 1_048_576
"""Rows of a sheet, the header included (same source)."""
_MARK: Final = " ... (continued in the sheet 'long texts')"


def need_xlsxwriter() -> None:
    """Make sure that Excel files can be written.

    Raises:
        ConfigError: XlsxWriter is not installed.
    """
    if find_spec("xlsxwriter") is None:
        raise not_installed("An Excel file", "XlsxWriter", "excel")


def write_xlsx(rows: Rows, columns: Columns, file: IO[bytes]) -> None:
    """Write rows as a workbook with the sheet ``audit`` and, where a text is too long for a cell, ``long texts``.

    Raises:
        ConfigError: There are more rows than a sheet holds.
    """
    import xlsxwriter

    # The defaults would make formulas and links of texts that look like one.
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(file, options) as book:
        sheet = _Sheet(book, "audit", list(columns))
        long_texts: _Sheet | None = None
        for row in rows:
            number = sheet.add([row.get(name) for name in columns])
            for name, text in sheet.too_long:
                long_texts = long_texts or _Sheet(book, "long texts", ["row", "column", "part", "text"])
                for part, start in enumerate(range(0, len(text), _PART), 1):
                    long_texts.add([number, name, part, text[start : start + _PART]])
        sheet.end()


class _Sheet:
    """A sheet with a header, written row by row."""

    def __init__(self, book: Any, title: str, names: list[str]) -> None:
        self._sheet = book.add_worksheet(title)
        self._sheet.freeze_panes(1, 0)
        self._names = names
        self._rows = 0
        self.too_long: list[tuple[str, str]] = []
        """Column and whole text of what did not fit its cell in the row that was added last."""
        for column, name in enumerate(names):
            self._sheet.write_string(0, column, name)

    def add(self, values: list[Any]) -> int:
        """Add a row and return its number as Excel counts."""
        self._rows += 1
        if self._rows >= _ROWS:
            raise ConfigError(
                f"A sheet of Excel holds {_ROWS - 1} rows and there are more; narrow the selection, "
                "or export to .parquet, .csv or .jsonl."
            )
        self.too_long = []
        for column, value in enumerate(values):
            rest = _write(self._sheet, self._rows, column, value)
            if rest is not None:
                self.too_long.append((self._names[column], rest))
        return self._rows + 1

    def end(self) -> None:
        """Let people filter by the columns."""
        self._sheet.autofilter(0, 0, self._rows, len(self._names) - 1)


def _write(sheet: Any, row: int, column: int, value: object) -> str | None:
    """Write one cell; return the whole of a text that does not fit it."""
    if value is None:
        return None
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, int | float):
        sheet.write_number(row, column, value)
    else:
        text = visible_cell(str(value))
        if len(text) > _PART and len(text.encode("utf-16-le")) // 2 > _CELL:
            sheet.write_string(row, column, text[:_PART] + _MARK)
            return text
        sheet.write_string(row, column, text)
    return None
