"""Tables 5 and A11 to A13: correlations of the rankings, and their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.analysis.tables.table import NO_VALUE, Cell, Column, Row, Table, text_cell, value_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.rankings import Ranking

__all__ = ["correlation_tables"]


def correlation_tables(rankings: Sequence[Ranking], correlations: Sequence[Correlation]) -> list[Table]:
    """Return Tables 5, A11, A12 and A13, as far as there are rankings for them."""
    timed = [ranking.name for ranking in rankings if ranking.measure != "macro_f1"]
    static = [ranking.name for ranking in rankings if ranking.measure == "macro_f1"]
    known = {frozenset((item.x, item.y)): item for item in correlations}
    notes = _notes(rankings, correlations)
    tables = []
    if timed and static:
        tables.append(
            _table("5", "Spearman's rho of static and time-sensitive rankings", static, timed, known, _rho, notes)
        )
    if len(static) > 1:
        tables.append(_table("A11", "Spearman's rho of static rankings", static, static, known, _rho, notes))
    if timed and static:
        tables.append(_table("A12", "Intervals of Table 5 (Fisher)", static, timed, known, _interval, ()))
    if len(static) > 1:
        tables.append(_table("A13", "Intervals of Table A11 (Fisher)", static[:-1], static[1:], known, _interval, ()))
    return tables


def _table(
    key: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    known: Mapping[frozenset[str], Correlation],
    cell: Callable[[Correlation | None, bool], Cell],
    notes: tuple[str, ...],
) -> Table:
    triangle = set(rows) & set(columns)
    made = []
    for row_number, row in enumerate(rows):
        cells = []
        for column in columns:
            below = column in triangle and column in rows and list(rows).index(column) < row_number
            cells.append(text_cell("-") if below else cell(known.get(frozenset((row, column))), row == column))
        made.append(Row(name=row, cells=tuple(cells)))
    return Table(
        key=key,
        title=title,
        corner="",
        columns=tuple(Column(name=name) for name in columns),
        rows=tuple(made),
        notes=notes,
    )


def _rho(item: Correlation | None, same: bool) -> Cell:
    if same:
        return value_cell(1.0, "coefficient")
    if item is None:
        return text_cell("-")
    return value_cell(item.spearman, "coefficient", reason=item.reason)


def _interval(item: Correlation | None, same: bool) -> Cell:
    if same or item is None:
        return text_cell("-")
    if item.fisher is None:
        return Cell(
            text=NO_VALUE, reason=item.reason or "not defined for a coefficient of 1 or -1, or fewer than 4 models"
        )
    return text_cell(f"({item.fisher.low:.3f}, {item.fisher.high:.3f})")


def _notes(rankings: Sequence[Ranking], correlations: Sequence[Correlation]) -> tuple[str, ...]:
    counts = sorted({item.n for item in correlations})
    notes = [
        f"Ranks are matched by model; n = {', '.join(map(str, counts))} models"
        f"; intervals at {100 * correlations[0].confidence:.0f} %."
    ] if correlations else []  # fmt: skip
    for ranking in rankings:
        if ranking.constant:
            notes.append(
                f"Last in {ranking.name} since all their answers are one label: {', '.join(ranking.constant)}."
            )
        if ranking.unranked:
            notes.append(f"Not in {ranking.name}, having no value there: {', '.join(ranking.unranked)}.")
    return tuple(notes)
