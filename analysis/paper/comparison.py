"""One's own run beside the published tables, difference by difference.

Sets are matched by the study's names, models by the names that the study's tables show (a model's ``title``, or its
name), whatever their case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hatevolution.analysis.paper.published import decimals, number, table
from hatevolution.analysis.tables.context import context
from hatevolution.analysis.tables.table import NO_VALUE, Column, Row, Table, text_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatevolution.analysis.report import Report
    from hatevolution.analysis.tables.context import Context, Line
    from hatevolution.analysis.tables.table import Cell

__all__ = ["Comparison", "Difference", "compare"]

_TIMED: Final = "singapore-online-attacks"
_PAIRED: Final = "neobench"
_STATIC: Final = {"hatecheck": "A7", "dynabench": "A8", "hatexplain": "A9", "implicit-hate": "A10"}
_RANKING: Final = {
    "Experiment 1": _TIMED,
    "Experiment 2": _PAIRED,
    "HateCheck": "hatecheck",
    "Dynabench": "dynabench",
    "HateXplain": "hatexplain",
    "Implicit Hate": "implicit-hate",
}
_LABELS: Final = {"hateful": "f1_hateful", "nonhateful": "f1_nonhateful"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One figure, theirs and one's own, in the unit of the table (percentages as such)."""

    table: str
    row: str
    column: str
    published: float | None
    own: float | None
    counted: int | None
    n: int | None
    reason: str | None = None
    decimals: int = 4

    @property
    def difference(self) -> float | None:
        """Own minus published; None where one is missing."""
        return None if self.own is None or self.published is None else self.own - self.published


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A store beside the paper."""

    differences: tuple[Difference, ...]
    models: tuple[str, ...]
    """Published models that the store has."""
    other_models: tuple[str, ...]
    """Models of the store that the study has not got."""
    datasets: tuple[str, ...]
    """The study's sets that the store has."""

    def tables(self) -> list[Table]:
        """Return one table per table of the paper."""
        keys = dict.fromkeys(item.table for item in self.differences)
        return [self._table(key) for key in keys]

    def _table(self, key: str) -> Table:
        return Table(
            key=f"compare:{key}",
            title=f"Table {key} of the paper, and this store",
            corner="Row",
            columns=tuple(
                Column(name=name, words=name == "Column")
                for name in ("Column", "Published", "Own", "Difference", "Stands on")
            ),
            rows=tuple(
                Row(
                    name=item.row,
                    cells=(
                        text_cell(item.column),
                        text_cell(_figure(item.published, item.decimals)),
                        text_cell(_figure(item.own, item.decimals)),
                        text_cell(_figure(item.difference, item.decimals, sign="+")),
                        text_cell("" if item.n is None else f"{item.counted}/{item.n}"),
                    ),
                )
                for item in self.differences
                if item.table == key
            ),
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        names = ("table", "row", "column", "published", "own", "difference", "counted", "n", "reason")
        return {
            "comparisons": [{name: getattr(item, name) for name in names} for item in self.differences],
            "models": list(self.models),
            "other_models": list(self.other_models),
            "datasets": list(self.datasets),
        }


def _figure(value: float | None, places: int, sign: str = "") -> str:
    return NO_VALUE if value is None else f"{value:{sign}.{places}f}"


def compare(report: Report) -> Comparison:
    """Set a scored store beside the published tables.

    Args:
        report: Of :func:`hatevolution.analysis.report.make`.
    """
    view = context(report.study, report.scores, report.invalid)
    published = {name.casefold(): name for name in table("3")}
    lines = {}
    for line in view.lines:
        name = published.get(line.title.casefold()) or published.get(line.name.casefold())
        if name is not None:
            lines[name] = line
    known = {item.name for item in report.study.datasets}
    found = list(_differences(view, lines, known))
    found += _correlations(report)
    return Comparison(
        differences=tuple(found),
        models=tuple(lines),
        other_models=tuple(line.title for line in view.lines if line not in lines.values()),
        datasets=tuple(name for name in (_TIMED, _PAIRED, *_STATIC) if name in known),
    )


def _differences(view: Context, lines: dict[str, Line], known: set[str]) -> Iterator[Difference]:
    if _TIMED in known:
        for name, line in lines.items():
            yield from _timed(view, name, line)
    if _PAIRED in known:
        for name, line in lines.items():
            yield from _paired(view, name, line)
    for dataset, key in _STATIC.items():
        if dataset in known:
            for name, line in lines.items():
                row = table(key).get(name)
                if row is not None:
                    yield _one(key, name, "Macro F1", row, view.cell(line, dataset, "macro_f1", "f1"))
                    cell = view.cell(line, dataset, "expected_output", "percent")
                    yield _one(key, name, "Expected Output (%)", row, cell, 100)


def _timed(view: Context, name: str, line: Line) -> Iterator[Difference]:
    row = table("3")[name]
    for column in row:
        label, _, year = column.partition("_")
        if label in _LABELS:
            yield _one("3", name, column, row, view.cell(line, _TIMED, _LABELS[label], "f1", "year", year))
    yield _one("3", name, "Mean", row, view.cell(line, _TIMED, "time_sensitive_macro_f1", "f1"))
    spread = table("A1")[name]
    for column, metric in zip(spread, _LABELS.values(), strict=True):
        yield _one("A1", name, column, spread, view.cell(line, _TIMED, f"{metric}_std_over_years", "f1"))


def _paired(view: Context, name: str, line: Line) -> Iterator[Difference]:
    row = table("4")[name]
    yield _one("4", name, "Label Flip (%)", row, view.cell(line, _PAIRED, "label_flip", "percent"), 100)
    yield _one("4", name, "Hallucination (%)", row, view.cell(line, _PAIRED, "hallucination", "percent"), 100)
    yield _one("4", name, "Macro F1", row, view.cell(line, _PAIRED, "macro_f1", "f1"))
    for key, metric, group in (
        ("A2", "label_flip", "year"),
        ("A3", "hallucination", "year"),
        ("A4", "label_flip", "type"),
        ("A5", "hallucination", "type"),
    ):
        own = table(key).get(name)
        for column in own or ():
            cell = view.cell(line, _PAIRED, metric, "percent", group, column.lower())
            yield _one(key, name, column, own or {}, cell, 100)
    variants = table("A6").get(name)
    if variants is not None:
        for column, metric in zip(variants, ("hallucination_any", "hallucination_counterfactual"), strict=True):
            yield _one("A6", name, column, variants, view.cell(line, _PAIRED, metric, "percent"), 100)


def _one(key: str, name: str, column: str, row: dict[str, str] | Any, cell: Cell, scale: int = 1) -> Difference:
    text = row[column]
    return Difference(
        table=key,
        row=name,
        column=column,
        published=number(text),
        own=None if cell.value is None else scale * cell.value,
        counted=cell.counted,
        n=cell.n,
        reason=cell.reason,
        decimals=2 if scale == 100 else max(decimals(text), 4),
    )


def _correlations(report: Report) -> list[Difference]:
    """Tables 5 and A11: one's own rank correlations beside the published coefficients (which are none)."""
    by_dataset = {ranking.dataset: ranking.name for ranking in report.rankings}
    own = {frozenset((item.x, item.y)): item for item in report.correlations}
    found = []
    for key, columns in (("5", {"experiment1": "Experiment 1", "experiment2": "Experiment 2"}), ("A11", None)):
        for row, cells in table(key).items():
            for column, text in cells.items():
                other = column if columns is None else columns.get(column)
                if other is None or other == row or number(text) is None:
                    continue
                names = [by_dataset.get(_RANKING[name]) for name in (row, other)]
                item = None if None in names else own.get(frozenset(str(name) for name in names))
                if item is not None:
                    found.append(
                        Difference(
                            table=key,
                            row=row,
                            column=other,
                            published=number(text),
                            own=item.spearman,
                            counted=item.n,
                            n=20,
                            reason=item.reason,
                        )
                    )
    return found
