"""All that ``hatevolution paper`` says: checks and coefficients, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hatevolution.analysis.paper.check import AGREES, DIFFERS, NOT_DERIVABLE, Check, Verdict
from hatevolution.analysis.paper.checks import all_checks
from hatevolution.analysis.paper.coefficients import Coefficient, coefficient_checks, coefficients
from hatevolution.analysis.tables.table import Cell, Column, Row, Table, text_cell, value_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.correlation import Interval

__all__ = ["as_json", "check_table", "coefficient_table", "every_check", "summary", "summary_table"]

_CONCLUSION = (
    "The published coefficients come from ranking the models' names alphabetically, position by position: each is "
    "reproduced by that. Matched by model, the same rankings, and the published scores themselves, agree strongly: "
    "static benchmarks and Experiment 1 correlate at 0.66 to 0.76, not at -0.15 to -0.28."
)


def every_check() -> list[Check]:
    """Return the checks of all tables."""
    return [*all_checks(), *coefficient_checks()]


def summary(checks: Sequence[Check]) -> str:
    """Say how many figures agree."""
    counts = Counter(check.verdict for check in checks)
    return (
        f"{len(checks)} checks of published figures: {counts[AGREES]} agree, {counts[DIFFERS]} differ, "
        f"{len(checks) - counts[AGREES] - counts[DIFFERS]} can't be derived."
    )


def summary_table(checks: Sequence[Check]) -> Table:
    """Return how many checks of each table agree and differ."""
    keys = list(dict.fromkeys(check.table for check in checks))
    columns: tuple[Verdict, ...] = (AGREES, DIFFERS, NOT_DERIVABLE)
    counts = Counter((check.table, check.verdict) for check in checks)
    return Table(
        key="paper:summary",
        title="Checks of the published figures",
        corner="Table",
        columns=tuple(Column(name=name) for name in columns),
        rows=tuple(Row(name=key, cells=tuple(text_cell(str(counts[key, name])) for name in columns)) for key in keys),
    )


def check_table(checks: Sequence[Check], *, every: bool = False) -> Table:
    """Return the checks that differ, footnotes saying why; for ``every`` all of them, each with its note beside it."""
    shown = [check for check in checks if every or check.verdict != AGREES]
    return Table(
        key="paper:checks",
        title="Published figures" if every else "Published figures that differ from what they should be",
        corner="Table, row, column",
        columns=(
            Column(name="Published"),
            Column(name="Recomputed"),
            *(Column(name=name, words=True) for name in (("Verdict", "Note") if every else ())),
        ),
        rows=tuple(
            Row(name=f"{check.table}: {check.row}, {check.column}", cells=_check_cells(check, every)) for check in shown
        ),
    )


def _check_cells(check: Check, every: bool) -> tuple[Cell, ...]:
    published = text_cell(_figure(check.published))
    recomputed = Cell(text=_figure(check.recomputed), reason=None if every else check.note or None)
    more = (text_cell(check.verdict), text_cell(check.note)) if every else ()
    return (published, recomputed, *more)


def _figure(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4f}".rstrip("0").rstrip(".")


def coefficient_table(found: Sequence[Coefficient]) -> Table:
    """Return the correlations: as published, by the released method, and as they are."""

    def interval(between: Interval | None) -> Cell:
        return text_cell("-" if between is None else f"({between.low:.3f}, {between.high:.3f})")

    rows = []
    for item in found:
        published = "not published" if item.published is None else f"{item.published:.4f}"
        rows.append(
            Row(
                name=f"{item.x} / {item.y}",
                cells=(
                    text_cell(published),
                    text_cell(item.published_interval or "-"),
                    value_cell(item.as_released, "coefficient"),
                    value_cell(item.from_rankings, "coefficient"),
                    interval(item.from_rankings_interval),
                    interval(item.from_rankings_bonett_wright),
                    value_cell(item.from_scores, "coefficient"),
                ),
            )
        )
    names = (
        "Published", "Published interval", "As released", "From the rankings", "Fisher", "Bonett-Wright",
        "From the scores",
    )  # fmt: skip
    return Table(
        key="paper:correlations",
        title="Spearman's rho of the rankings (n = 20, intervals at 90 %)",
        corner="Rankings",
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(rows),
        notes=(
            _CONCLUSION,
            "From the scores: Experiment 1 by the recomputed means; Experiment 2 by the flips, low first, with the "
            "models that never flip (0.00 %) last, as the tables can't tell which of them give one label throughout.",
        ),
    )


def as_json() -> dict[str, Any]:
    """Return the document of ``hatevolution paper --json``."""
    return {
        "checks": [asdict(check) for check in every_check()],
        "correlations": [
            {
                "x": item.x,
                "y": item.y,
                "table": item.table,
                "published": item.published,
                "published_interval": item.published_interval,
                "as_released": item.as_released,
                "from_rankings": item.from_rankings,
                "from_rankings_fisher": item.from_rankings_interval,
                "from_rankings_bonett_wright": item.from_rankings_bonett_wright,
                "from_scores": item.from_scores,
                "from_scores_fisher": item.from_scores_interval,
                "n": item.n,
            }
            for item in coefficients()
        ],
    }
