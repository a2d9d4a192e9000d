"""Tables 3 and A1 (Experiment 1), 4 and A2 to A6 (Experiment 2): from any set with years, and any with pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.analysis.tables.table import NO_VALUE, Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo
    from hatevolution.analysis.tables.context import Context, Line

__all__ = ["pair_tables", "year_tables"]

_LABELS: Final = (("hateful", "f1_hateful"), ("non-hateful", "f1_nonhateful"))
_NO_FREE_ANSWER: Final = "a classifier's answer can't break an instruction"

_FLIPS: Final[dict[InvalidPolicy, str]] = {
    "drop": "Label flips are of the pairs with two valid answers",
    "wrong": "Label flips are of the pairs with two answers, and an invalid answer is a flip",
    "class": "Label flips are of the pairs with two answers, and an invalid answer is a third label",
    "raw": "Label flips are of the pairs with two answers, and every invalid text is a label of its own",
    "worst": "Label flips are the upper bound: every pair without two valid answers flips",
    "best": "Label flips are the lower bound: no pair without two valid answers flips",
}
"""Which pairs label flips are of, under each policy for invalid answers (see the module pairs)."""


def year_tables(context: Context, item: DatasetInfo, suffix: str) -> list[Table]:
    """Return Tables 3 and A1 of a set with years."""
    columns = (
        *(Column(name=str(year), over=label, best="highest") for label, _ in _LABELS for year in item.years),
        Column(name="Mean", best="highest"),
    )

    def by_year(line: Line) -> list[Cell]:
        cells = [
            context.cell(line, item.name, metric, "f1", "year", year) for _, metric in _LABELS for year in item.years
        ]
        return [*cells, context.cell(line, item.name, "time_sensitive_macro_f1", "f1")]

    deviations = tuple(Column(name=label, over="Std dev") for label, _ in _LABELS)

    def spread(line: Line) -> list[Cell]:
        return [context.cell(line, item.name, f"{metric}_std_over_years", "deviation") for _, metric in _LABELS]

    outside = f"{item.outside} of the {item.sentences} sentences lie outside these years." if item.outside else ""
    return [
        Table(
            key=f"3{suffix}",
            title=f"Experiment 1, {item.title}: F1 by label and year; Mean is the time-sensitive macro F1",
            corner="Model",
            columns=columns,
            rows=context.rows(columns, by_year),
            notes=tuple(filter(None, (outside,))),
        ),
        Table(
            key=f"A1{suffix}",
            title=f"Experiment 1, {item.title}: standard deviation of F1 over the years (population form)",
            corner="Model",
            columns=deviations,
            rows=context.rows(deviations, spread),
        ),
    ]


def pair_tables(context: Context, item: DatasetInfo, suffix: str) -> list[Table]:
    """Return Tables 4 and A2 to A6 of a set made of pairs."""
    tables = [_counterfactual(context, item, suffix)]
    years = tuple(str(year) for year in item.years)
    present = context.scores.filter((context.scores["dataset"] == item.name) & (context.scores["group_key"] == "type"))[
        "group"
    ]
    types = tuple(sorted(present.unique()))
    undated = f"Pairs without a date are left out; {item.outside} sentences lie outside these years."
    if years:
        tables.append(_grouped(context, item, f"A2{suffix}", "label flip", "label_flip", ("year", years), (undated,)))
        tables.append(
            _grouped(context, item, f"A3{suffix}", "hallucination", "hallucination", ("year", years), (undated,))
        )
    if types:
        tables.append(_grouped(context, item, f"A4{suffix}", "label flip", "label_flip", ("type", types)))
        tables.append(_grouped(context, item, f"A5{suffix}", "hallucination", "hallucination", ("type", types)))
    tables.append(_variants(context, item, suffix))
    return tables


def _counterfactual(context: Context, item: DatasetInfo, suffix: str) -> Table:
    columns = (
        Column(name="Label Flip (%)", best="lowest"),
        Column(name="Hallucination (%)", best="lowest"),
        Column(name="Macro F1", best="highest"),
    )

    def cells(line: Line) -> list[Cell]:
        return [
            context.cell(line, item.name, "label_flip", "percent"),
            _hallucination(context, line, item.name, "hallucination"),
            context.cell(line, item.name, "macro_f1", "f1"),
        ]

    return Table(
        key=f"4{suffix}",
        title=f"Experiment 2, {item.title}: counterfactual pairs with neologisms",
        corner="Model",
        columns=columns,
        rows=context.rows(columns, cells, flips_of=item.name),
        notes=(
            f"{item.pairs} pairs. {_FLIPS[context.invalid]}; macro F1 is of the originals.",
            *_silent(context, item.name),
        ),
    )


def _grouped(
    context: Context,
    item: DatasetInfo,
    key: str,
    what: str,
    metric: str,
    by: tuple[str, Sequence[str]],
    notes: tuple[str, ...] = (),
) -> Table:
    group_key, groups = by
    columns = tuple(Column(name=group.capitalize(), best="lowest") for group in groups)

    def cells(line: Line) -> list[Cell]:
        if metric == "hallucination":
            return [_hallucination(context, line, item.name, metric, group_key, group) for group in groups]
        return [context.cell(line, item.name, metric, "percent", group_key, group) for group in groups]

    flips_of = item.name if metric == "label_flip" else None
    return Table(
        key=key,
        title=f"Experiment 2, {item.title}: {what} (%) by {'year' if group_key == 'year' else 'linguistic type'}",
        corner="Model",
        columns=columns,
        rows=context.rows(columns, cells, flips_of=flips_of),
        notes=(*notes, *(_silent(context, item.name) if flips_of else ())),
    )


def _variants(context: Context, item: DatasetInfo, suffix: str) -> Table:
    columns = (Column(name="Hal_s1,s2 (%)", best="lowest"), Column(name="Hal_s2 (%)", best="lowest"))

    def cells(line: Line) -> list[Cell]:
        return [
            _hallucination(context, line, item.name, metric)
            for metric in ("hallucination_any", "hallucination_counterfactual")
        ]

    return Table(
        key=f"A6{suffix}",
        title=f"Experiment 2, {item.title}: hallucination in either sentence, and in the one with the neologism",
        corner="Model",
        columns=columns,
        rows=context.rows(columns, cells),
    )


def _hallucination(
    context: Context, line: Line, dataset: str, metric: str, key: str | None = None, group: object = None
) -> Cell:
    if line.classifier:
        return Cell(text=NO_VALUE, reason=_NO_FREE_ANSWER)
    return context.cell(line, dataset, metric, "percent", key, group)


def _silent(context: Context, dataset: str) -> tuple[str, ...]:
    names = [line.title for line in context.lines if (line.name, dataset) in context.constant]
    if not names:
        return ()
    never = "Never flip since all" if context.invalid in ("drop", "best") else "All"
    return (f"{never} their valid answers are the same label: {', '.join(names)}.",)
