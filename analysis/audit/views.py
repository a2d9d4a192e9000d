"""The views of the audit, each with its rows, its pages, its columns in files and its look on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from hatevolution.analysis.audit import flat
from hatevolution.analysis.audit.comparing import Differing, count_disagreements, disagreements
from hatevolution.analysis.audit.kinds import count_kinds
from hatevolution.analysis.audit.pairs import count_pairs, pairs
from hatevolution.analysis.audit.rules import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hatevolution.analysis.audit.pairs import Change
    from hatevolution.analysis.audit.store_view import StoreView

__all__ = ["RULES", "Page", "View", "ViewName", "document", "open_view"]

ViewName = Literal["answers", "kinds", "pairs", "disagreements", "differ"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows of a view."""

    rows: list[Any]
    """Each has a method ``as_json``."""
    number: int
    """From 1."""
    size: int
    count: Callable[[], int]
    """Tells the number of rows of the whole view."""
    more: bool
    """Whether rows follow."""

    @property
    def total(self) -> int:
        """Rows of the whole view; may take longer than the page did, so a page is shown before it is asked for this."""
        return self.first + len(self.rows) - 1 if self.rows and not self.more else self.count()

    @property
    def first(self) -> int:
        """Number of its first row, from 1."""
        return (self.number - 1) * self.size + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view of a selection."""

    name: ViewName
    columns: flat.Columns
    """Of its rows in files."""
    count: Callable[[], int]
    """Number of its rows; costs time where they are not found one and all before the first page is."""
    rows: Callable[[int, int | None], Iterator[Any]]
    """Offset and most rows (None: all) -> rows, each with a method ``as_json``."""
    flatten: Callable[[Iterable[Any]], Iterator[dict[str, Any]]]
    """Rows -> rows of a file."""

    def page(self, number: int, size: int) -> Page:
        """Return a page; ``number`` counts from 1."""
        rows = list(self.rows((number - 1) * size, size + 1))
        return Page(rows=rows[:size], number=number, size=size, count=self.count, more=len(rows) > size)

    def flat_rows(self) -> Iterator[dict[str, Any]]:
        """Yield all rows as they stand in files."""
        return self.flatten(self.rows(0, None))


def open_view(
    store: StoreView, name: ViewName, *, changes: Sequence[Change] | None = None, second: str | None = None
) -> View:
    """Return a view of a store's selection.

    Args:
        store: Selection and store.
        name: Which view.
        changes: For ``pairs``: only these changes.
        second: For ``differ``: the second policy; the first is the selection's parser.

    Raises:
        StoreError: The store can't be read.
        ConfigError: There is no such policy.
    """
    if name == "answers":
        return View(
            name=name, columns=flat.ANSWER, count=store.count, rows=store.rows, flatten=flat.flat_answers
        )  # fmt: skip
    if name == "kinds":
        counts = count_kinds(store)
        return View(
            name=name,
            columns=flat.KIND,
            count=lambda: len(counts),
            rows=lambda offset, limit: islice(counts, offset, None if limit is None else offset + limit),
            flatten=flat.flat_kinds,
        )
    if name == "pairs":
        return View(
            name=name,
            columns=flat.PAIR,
            count=lambda: count_pairs(store, changes),
            rows=_paged(lambda: pairs(store, changes)),
            flatten=flat.flat_pairs,
        )
    if name == "disagreements":
        return View(
            name=name,
            columns=flat.DISAGREEMENT,
            count=lambda: count_disagreements(store),
            rows=_paged(lambda: disagreements(store)),
            flatten=flat.flat_disagreements,
        )
    differing = Differing(store, second or store.selection.parser)
    return View(name=name, columns=flat.READINGS, count=store.count, rows=differing.rows, flatten=flat.flat_readings)


def _paged(rows: Callable[[], Iterator[Any]]) -> Callable[[int, int | None], Iterator[Any]]:
    return lambda offset, limit: islice(rows(), offset, None if limit is None else offset + limit)


RULES: Final = [{"name": kind.name, "version": kind.version, "description": kind.description} for kind in KINDS]
"""The kinds in order of precedence, for documents."""


def document(view: View, page: Page, store: StoreView) -> dict[str, Any]:
    """Return a page as a JSON document; texts are exactly as they came."""
    return {
        "store": str(store.path),
        "view": view.name,
        "filters": store.selection.as_json(),
        "total": page.total,
        "page": page.number,
        "page_size": page.size,
        "more": page.more,
        **({"kinds": RULES} if view.name == "kinds" else {}),
        "rows": [row.as_json() for row in page.rows],
    }
