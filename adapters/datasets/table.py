"""One sentence per row: the loader of every set that is a plain table, a user's own among them."""

from __future__ import annotations

import functools
from itertools import repeat
from typing import TYPE_CHECKING, Final

from hatevolution.adapters.datasets.rows import Block, Wanted, bad_row, read_blocks
from hatevolution.adapters.datasets.values import Years, gold_labels
from hatevolution.domain import Label, Role, Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hatevolution.configs.dataset_schema import Layout

__all__ = ["Ids", "bad_cell", "golds_of", "table_sentences", "years_of"]

_IDS_CHECKED: Final = 200_000
"""Rows among which a repeated id is named with both rows; beyond, memory would grow with the set, and the store's key
finds it."""
_FIELDS: Final = ("id", "text", "label", "year", "date", "pair", "role", "type", "functionality", "target")
_NO_META: Final[Mapping[str, str]] = {}
_SHOWN: Final = 200
"""Characters of a wrong cell in the text of an error."""


def table_sentences(path: Path, layout: Layout) -> Iterator[Sentence]:
    """Yield a sentence for each row that the filters keep. Memory does not grow with the file, except for workbooks.

    Args:
        path: The file.
        layout: How it is to be read.

    Raises:
        DataError: A row holds what it may not hold; the text names file, row and value.
    """
    columns = layout.columns
    used = {name: column for name in _FIELDS if (column := getattr(columns, name)) is not None}
    required = frozenset(column for name, column in used.items() if name in ("id", "text", "label"))
    wanted = Wanted(names=(*used.values(), *columns.meta), required=required, exact=columns.id)
    ids, golds = Ids(path, columns.id), gold_labels(layout.labels)
    years = Years(dates=columns.date is not None, none=layout.no_year)
    # Sentence(...) itself takes keywords and is three times slower.
    make = functools.partial(tuple.__new__, Sentence)
    for block in read_blocks(path, layout, wanted):
        cells = dict(zip(used, block.columns, strict=False))
        texts = cells["text"]
        if None in texts:
            raise bad_row(path, block.numbers[texts.index(None)], f"there is no text in {columns.text!r}")
        labels = cells.get("label")
        fields = (
            ids.of(block, cells.get("id")),
            texts,
            repeat(None) if labels is None else golds_of(path, block, columns.label, labels, golds),
            repeat(None) if labels is None else labels,
            years_of(path, block, years, cells.get("year", cells.get("date"))),
            _optional(cells.get("pair")),
            _roles(path, block, cells.get("role")),
            _optional(cells.get("type")),
            _optional(cells.get("functionality")),
            _optional(cells.get("target")),
            _meta(columns.meta, block.columns[len(used) :]),
        )
        # The columns are as long as the block; constants repeat without end.
        yield from map(make, zip(*fields, strict=False))


class Ids:
    """The ids of a set, checked.

    Args:
        path: The file, for errors.
        column: The column of ids; None makes them of row numbers.
    """

    def __init__(self, path: Path, column: str | None) -> None:
        self._path, self._column = path, column
        self._rows: dict[str | None, int] = {}

    def of(self, block: Block, cells: Sequence[str | None] | None) -> Iterable[str | None]:
        """Return the ids of a block, none of them empty.

        Raises:
            DataError: An id is empty, or (among the first 200,000 rows) occurs twice.
        """
        if cells is None:
            return [f"row-{number}" for number in block.numbers]
        if not all(cells) or any(map(str.isspace, filter(None, cells))):
            raise bad_cell(self._path, block, cells, _is_id, f"the id in {self._column!r} is empty")
        if len(self._rows) < _IDS_CHECKED:
            if len(set(cells)) < len(cells) or not self._rows.keys().isdisjoint(cells):
                self._complain(block, cells)
            self._rows.update(zip(cells, block.numbers, strict=True))
        return cells

    def _complain(self, block: Block, cells: Sequence[str | None]) -> None:
        for cell, number in zip(cells, block.numbers, strict=True):
            if cell in self._rows:
                raise bad_row(self._path, number, f"the id {cell!r} is that of row {self._rows[cell]} already")
            self._rows[cell] = number


def _is_id(cell: str | None) -> bool:
    return bool(cell) and not str(cell).isspace()


def golds_of(
    path: Path, block: Block, name: str | None, cells: Sequence[str | None], golds: Mapping[str | None, Label]
) -> list[Label]:
    """Return the gold labels of a block.

    Raises:
        DataError: A cell is not in the closed map.
    """
    try:
        return [golds[cell] for cell in cells]
    except KeyError:
        known = ", ".join(repr(spelling) for spelling in golds)
        raise bad_cell(
            path, block, cells, golds.__contains__, f"the label in {name!r} is {{}}, which is not one of {known}"
        ) from None


def years_of(path: Path, block: Block, years: Years, cells: Sequence[str | None] | None) -> Iterable[int | None]:
    """Return the years of a block; None for each where the set has none.

    Raises:
        DataError: A cell is no year or date.
    """
    if cells is None:
        return repeat(None)
    try:
        return [years[cell] for cell in cells]
    except ValueError as error:
        raise bad_cell(path, block, cells, years.accepts, str(error)) from None


def bad_cell(
    path: Path, block: Block, cells: Sequence[str | None], good: Callable[[str | None], bool], what: str
) -> Exception:
    """Return the error for the first bad cell of a column.

    Args:
        path: The file.
        block: The rows.
        cells: Their cells in this column.
        good: Whether a cell is good; at least one is not.
        what: What is wrong; ``{}`` stands for the cell.
    """
    cell, number = next((cell, number) for cell, number in zip(cells, block.numbers, strict=True) if not good(cell))
    return bad_row(path, number, what.replace("{}", repr(cell[:_SHOWN]) if cell else "empty"))


def _roles(path: Path, block: Block, cells: Sequence[str | None] | None) -> Iterable[Role | None]:
    if cells is None:
        return repeat(None)
    roles: dict[str | None, Role | None] = {None: None, "": None, **{role.value: role for role in Role}}
    try:
        return [roles[cell] for cell in cells]
    except KeyError:
        what = "the role {} is neither 'original' nor 'neologism'"
        raise bad_cell(path, block, cells, roles.__contains__, what) from None


def _optional(cells: Sequence[str | None] | None) -> Iterable[str | None]:
    return repeat(None) if cells is None else [cell or None for cell in cells]


def _meta(names: Sequence[str], columns: Sequence[Sequence[str | None]]) -> Iterable[Mapping[str, str]]:
    if not names:
        return repeat(_NO_META)
    rows = zip(*columns, strict=True)
    return [{name: cell for name, cell in zip(names, cells, strict=True) if cell} for cells in rows]
