"""Tables of the audit on a terminal, in a narrower form where the usual one has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hatevolution.analysis.audit.rules import KINDS
from hatevolution.inert import one_line
from hatevolution.terminal import room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from hatevolution.analysis.audit.agreement import Agreement
    from hatevolution.analysis.audit.kinds import KindCount

__all__ = ["agreement_table", "kinds_tables"]

_NAME: Final = 80
_EXAMPLE: Final = 120
"""Characters of an example that are shown."""
_EXAMPLE_ROOM: Final = 30
"""Columns of a terminal that an example beside the numbers needs, so that no ordinary word is broken."""
_NOTHING: Final = "(no text)"
_COUNTS: Final = ("Answers", "% of all", "Of this kind")
_SHARES: Final = ("Judged", "Agree", "%", "95 % interval", "Label lost", "Label invented", "Reversed")


def _wide() -> Table:
    return Table(box=box.SIMPLE_HEAD)


def _narrow() -> Table:
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)


def _numbers(table: Table, names: Sequence[str]) -> None:
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)


def agreement_table(found: Sequence[Agreement], console: Console) -> Table:
    """Return how policies agree with a person, one line for each policy.

    Args:
        found: The policies; those that nothing was judged of are left out.
        console: Where it will be printed: on a narrow one the headings take two lines.
    """
    table = _wide()
    _agreements(table, found, _SHARES)
    if room(console, table) < 0:
        table = _narrow()
        _agreements(table, found, [name.replace("Label ", "Label\n") for name in _SHARES])
    return table


def _agreements(table: Table, found: Sequence[Agreement], names: Sequence[str]) -> None:
    table.add_column("Policy", overflow="fold")
    _numbers(table, names)
    for item in found:
        if item.share is not None:
            share = item.share
            table.add_row(
                Text(one_line(item.policy, _NAME)),
                str(item.judged),
                str(item.agreed),
                f"{100 * share.value:.1f}",
                f"{100 * share.low:.1f} to {100 * share.high:.1f}",
                str(item.lost),
                str(item.invented),
                str(item.reversed),
            )


def kinds_tables(rows: Sequence[KindCount], cut: int, console: Console) -> Iterator[RenderableType]:
    """Yield the kinds of broken answers and what each of them is; nothing where there is none.

    Args:
        rows: The kinds of each model and data set.
        cut: Characters of an example that are shown, 120 at most.
        console: Where they will be printed: on a narrow one models, data sets and examples have lines of their own.
    """
    if not rows:
        return
    if room(console, _wide_kinds(rows, None)) < _EXAMPLE_ROOM:
        yield _narrow_kinds(rows, cut)
        yield Text()
    else:
        yield _wide_kinds(rows, cut)
    found = {row.kind for row in rows}
    legend = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for kind in KINDS:
        if kind.name in found:
            legend.add_row(kind.identity, kind.description)
    yield legend
    yield Text(
        "Answers: by the first kind of each, in this order. Of this kind: with those that are of an earlier kind too.",
        style="dim",
    )


def _counts(row: KindCount) -> tuple[str, str, str]:
    share = f"{100 * row.primary / row.answered:.2f}" if row.answered else "-"
    return str(row.primary), share, str(row.of_kind)


def _example(row: KindCount, cut: int) -> Text:
    said = row.examples[0].raw_text or _NOTHING if row.examples else ""
    return Text(one_line(said, min(cut, _EXAMPLE)))


def _wide_kinds(rows: Sequence[KindCount], cut: int | None) -> Table:
    """Return the table; without its last column, whose width is what is left, where ``cut`` is None."""
    table = _wide()
    table.add_column("Model", overflow="fold")
    table.add_column("Data set", overflow="fold")
    table.add_column("Kind", no_wrap=True)
    _numbers(table, _COUNTS)
    if cut is not None:
        table.add_column("Example", overflow="fold", ratio=1)
    last: tuple[Any, Any] = (None, None)
    for row in rows:
        cell = (row.model, row.dataset)
        names = ("", "") if cell == last else tuple(one_line(name, _NAME) for name in cell)
        last = cell
        examples = () if cut is None else (_example(row, cut),)
        table.add_row(*map(Text, names), row.kind, *_counts(row), *examples)
    return table


def _narrow_kinds(rows: Sequence[KindCount], cut: int) -> Table:
    table = _narrow()
    table.add_column("Model, data set, kind, example", overflow="fold")
    _numbers(table, _COUNTS)
    model = dataset = None
    for row in rows:
        if row.model != model:
            model, dataset = row.model, None
            table.add_row(Text(one_line(row.model, _NAME)))
        if row.dataset != dataset:
            dataset = row.dataset
            table.add_row(_indented(Text(one_line(row.dataset, _NAME)), 2))
        table.add_row(_indented(Text(row.kind), 4), *_counts(row))
        if row.examples:
            table.add_row(_indented(_example(row, cut), 6))
    return table


def _indented(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns))
