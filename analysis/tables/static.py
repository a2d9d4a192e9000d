"""Table 2 (the data sets) and Tables A7 to A10 (macro F1 and valid answers on sets without time)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.analysis.tables.table import Cell, Column, Row, Table, text_cell, value_cell

if TYPE_CHECKING:
    from collections.abc import Collection

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo
    from hatevolution.analysis.tables.context import Context, Line

__all__ = ["NUMBERS", "dataset_table", "group_tables", "static_key", "static_table"]

NUMBERS: Final = {"hatecheck": "A7", "dynabench": "A8", "hatexplain": "A9", "implicit-hate": "A10"}
"""The study's numbers of its static sets' tables."""
_SAMPLE: Final = "sample-"
"""Begins the names of the made-up samples that stand for the study's sets."""


_MACRO_F1: Final[dict[InvalidPolicy, str]] = {
    "drop": "macro F1 of valid answers, and their share",
    "wrong": "macro F1 with invalid answers as misses, and the share of valid answers",
    "class": "macro F1 with invalid answers as a third class, and the share of valid answers",
    "raw": "macro F1 with every invalid text as a class of its own, and the share of valid answers",
    "worst": "lower bound of macro F1, and the share of valid answers",
    "best": "upper bound of macro F1, and the share of valid answers",
}
"""What the figures of a static set's table are, under each policy for invalid answers."""


def dataset_table(context: Context) -> Table:
    """Return Table 2."""
    rows = []
    for item in context.study.datasets:
        period = f"{item.years[0]}-{item.years[-1]}" if item.years else "-"
        labelled = "" if item.labelled == item.sentences else f"{item.labelled}"
        rows.append(
            Row(
                name=item.title,
                cells=(
                    value_cell(float(item.sentences), "number"),
                    text_cell("✓" if item.years else "✗"),
                    text_cell(period),
                    text_cell(f"{item.pairs}" if item.pairs else "-"),
                    text_cell(f"{item.outside}" if item.outside else "-"),
                    text_cell(labelled or "all"),
                ),
            )
        )
    return Table(
        key="2",
        title="Data sets, as the store holds them",
        corner="Dataset",
        columns=(
            Column(name="Size"),
            Column(name="Timestamp info"),
            Column(name="Timestamp period"),
            Column(name="Pairs"),
            Column(name="Outside the period"),
            Column(name="Labelled"),
        ),
        rows=tuple(rows),
    )


def static_key(item: DatasetInfo, taken: Collection[str]) -> str:
    """Return the key of a static set's table: the study's number where the set, or what it is a sample of, has one."""
    number = NUMBERS.get(item.name.removeprefix(_SAMPLE))
    if number is None:
        return f"static:{item.name}"
    return number if number not in taken else f"{number}:{item.name}"


def static_table(context: Context, item: DatasetInfo, key: str) -> Table:
    """Return the table of a static set."""
    columns = (Column(name="Macro F1", best="highest"), Column(name="Expected Output (%)", best="highest"))

    def cells(line: Line) -> list[Cell]:
        return [
            context.cell(line, item.name, "macro_f1", "f1"),
            context.cell(line, item.name, "expected_output", "percent"),
        ]

    return Table(
        key=key,
        title=f"{item.title}: {_MACRO_F1[context.invalid]}",
        corner="Model",
        columns=columns,
        rows=context.rows(columns, cells),
    )


def group_tables(context: Context, item: DatasetInfo) -> list[Table]:
    """Return accuracy by functionality and macro F1 by target, where a set has them (HateCheck)."""
    tables = []
    for key, metric, what in (("functionality", "accuracy", "accuracy"), ("target", "macro_f1", "macro F1")):
        if key not in item.groups:
            continue
        groups = sorted(context.study.of(item.name)[key].drop_nulls().unique())
        # Wide the other way round: there are more functionalities than models.
        columns = tuple(Column(name=line.title) for line in context.lines)
        tables.append(
            Table(
                key=f"{key}:{item.name}",
                title=f"{item.title}: {what} by {key}",
                corner=key.capitalize(),
                columns=columns,
                rows=tuple(
                    Row(
                        name=group,
                        cells=tuple(context.cell(line, item.name, metric, "f1", key, group) for line in context.lines),
                    )
                    for group in groups
                ),
            )
        )
    return tables
