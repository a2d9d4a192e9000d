"""Tables 5 and A11 to A13: correlations of the rankings, and their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.analysis.tables.table import NO_VALUE, Cell, Column, Row, Table, text_cell, value_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.rankings import Ranking

__all__ = ["correlation_tables"]


def correlation_tables(
    rankings: Sequence[Ranking], correlations: Sequence[Correlation], titles: Mapping[str, str]
) -> list[Table]:
    """Return Tables 5, A11, A12 and A13, as far as there are rankings for them.

    Args:
        rankings: Of the models.
        correlations: Of every two of them.
        titles: Model -> how tables name it.
    """
    timed = [ranking.name for ranking in rankings if ranking.measure != "macro_f1"]
    static = [ranking.name for ranking in rankings if ranking.measure == "macro_f1"]
    known = {frozenset((item.x, item.y)): item for item in correlations}
    every = _notes(rankings, correlations, titles)
    # A note stands under the tables that its ranking is in, and under no other.
    among = [ranking for ranking in rankings if ranking.name in static]
    inside = _notes(among, [item for item in correlations if item.x in static and item.y in static], titles)
    at = f"Intervals at {100 * correlations[0].confidence:.0f} %." if correlations else ""
    tables = []
    if timed and static:
        tables.append(
            _table("5", "Spearman's rho of static and time-sensitive rankings", static, timed, known, _rho, every)
        )
    if len(static) > 1:
        tables.append(_table("A11", "Spearman's rho of static rankings", static, static, known, _rho, inside))
    if timed and static:
        tables.append(_table("A12", "Intervals of Table 5 (Fisher)", static, timed, known, _interval, (at,)))
    if len(static) > 1:
        tables.append(
            _table("A13", "Intervals of Table A11 (Fisher)", static[:-1], static[1:], known, _interval, (at,))
        )
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


def _notes(
    rankings: Sequence[Ranking], correlations: Sequence[Correlation], titles: Mapping[str, str]
) -> tuple[str, ...]:
    counts = sorted({item.n for item in correlations if item.spearman is not None})
    notes = [f"Ranks are matched by model; n = {', '.join(map(str, counts))} models."] if counts else []
    for ranking in rankings:
        unranked = ranking.unranked or {}
        last = [titles[name] for name in ranking.constant if name not in unranked]
        if last:
            notes.append(f"Last in {ranking.name} since all their valid answers are one label: {', '.join(last)}.")
        by_reason: dict[str, list[str]] = {}
        for name, reason in unranked.items():
            by_reason.setdefault(reason, []).append(titles[name])
        notes += [f"Not in {ranking.name} ({reason}): {', '.join(names)}." for reason, names in by_reason.items()]
    return tuple(notes)
