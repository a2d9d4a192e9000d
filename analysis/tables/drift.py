"""The drift between two names of a model as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hatevolution.analysis.metrics import METRIC_TITLES
from hatevolution.analysis.tables.table import Cell, Column, Row, Table, text_cell, value_cell

if TYPE_CHECKING:
    from hatevolution.analysis.drift import Drift
    from hatevolution.analysis.tables.table import Format

__all__ = ["drift_tables"]

_WHOLE: Final = (
    "time_sensitive_macro_f1", "macro_f1", "f1_hateful", "f1_nonhateful", "label_flip", "hallucination",
    "expected_output",
)  # fmt: skip
"""Metrics of whole sets; all others are in the frame."""
_GROUPS: Final = {
    "year": ("macro_f1", "label_flip"),
    "type": ("macro_f1", "label_flip"),
    "functionality": ("accuracy",),
    "target": ("macro_f1",),
}
_PERCENT: Final = ("label_flip", "hallucination", "expected_output")


def drift_tables(found: Drift) -> list[Table]:
    """Return the tables: who answered when, changes of labels, metrics of whole sets, metrics of groups."""
    tables = [_served(found), _labels(found), _metrics(found)]
    groups = _groups(found)
    return [*tables, groups] if groups.rows else tables


def _between(found: Drift) -> str:
    return f"{found.old.title} → {found.new.title}"


def _served(found: Drift) -> Table:
    titles = {model.name: model.title for model in (found.old, found.new)}
    return Table(
        key="drift:served",
        title=f"Drift, {_between(found)}: who answered, and when",
        corner="Model",
        columns=tuple(
            Column(name=name, words=name != "Answers")
            for name in ("Served model", "Answers", "First", "Last", "Fingerprints")
        ),
        rows=tuple(
            Row(
                name=titles[row["model"]],
                cells=(
                    text_cell(row["served_model"] or "-"),
                    value_cell(float(row["answers"]), "number"),
                    *(text_cell(row[name] or "-") for name in ("first", "last", "fingerprints")),
                ),
            )
            for row in found.served.iter_rows(named=True)
        ),
        notes=tuple(found.notes()),
    )


def _title(found: Drift, dataset: str | None) -> str:
    return "All data sets" if dataset is None else found.shared.dataset(dataset).title


def _labels(found: Drift) -> Table:
    shown = found.labels.filter(pl.col("change").is_null() | (pl.col("count") > 0))
    return Table(
        key="drift:labels",
        title=f"Drift, {_between(found)}: answers that changed",
        corner="Data set",
        columns=(
            Column(name="Change", words=True),
            Column(name="Sentences"),
            Column(name="Of"),
            Column(name="Share (%)"),
            Column(name="p (symmetry)"),
        ),
        rows=tuple(
            Row(
                name=_title(found, row["dataset"]),
                cells=(
                    text_cell(row["change"] or "any"),
                    value_cell(float(row["count"]), "number"),
                    value_cell(float(row["n"]), "number"),
                    value_cell(row["share"], "percent", interval=(row["low"], row["high"])),
                    text_cell("") if row["p_symmetry"] is None else value_cell(row["p_symmetry"], "p_value"),
                ),
            )
            for row in shown.iter_rows(named=True)
        ),
        notes=(
            f"Wilson's intervals at {100 * found.confidence:g} %. Symmetry: McNemar's exact test whether more labels "
            "went one way than the other. Changes that do not occur are left out.",
        ),
    )


def _columns(found: Drift, *more: str) -> tuple[Column, ...]:
    words = (*more, "Metric")
    numbers = (found.old.title, found.new.title, "Difference", "p (bootstrap)", "Only one", "p (McNemar)", "q (B-H)")
    return (*(Column(name=name, words=True) for name in words), *(Column(name=name) for name in numbers))


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    form: Format = "percent" if row["metric"] in _PERCENT else "f1"
    blank = text_cell("")
    tested = row["p_mcnemar"] is not None
    return (
        text_cell(METRIC_TITLES[row["metric"]]),
        *(value_cell(row[name], form, reason=row["reason"]) for name in ("old", "new")),
        value_cell(row["difference"], form, reason=row["reason"], interval=(row["low"], row["high"])),
        blank if row["p_bootstrap"] is None else value_cell(row["p_bootstrap"], "p_value"),
        text_cell(f"{row['only_old']} : {row['only_new']}") if tested else blank,
        value_cell(row["p_mcnemar"], "p_value") if tested else blank,
        value_cell(row["q_mcnemar"], "p_value") if tested else blank,
    )


def _settings(found: Drift) -> str:
    return (
        f"On the sentences that both have a prediction for. Paired bootstrap at {100 * found.confidence:g} %, "
        f"{found.resamples} resamples, seed {found.seed}. Only one: sentences that one alone gets right (for expected "
        "output: answers validly; for label flip: pairs that flip in it alone), older : newer. q: Benjamini and "
        "Hochberg's over all McNemar tests of whole sets, or of groups."
    )


def _metrics(found: Drift) -> Table:
    whole = found.metrics.filter(pl.col("group_key").is_null() & pl.col("metric").is_in(_WHOLE))
    if found.new.classifier and found.old.classifier:
        whole = whole.filter(pl.col("metric") != "hallucination")
    order = {name: place for place, name in enumerate(_WHOLE)}
    rows = sorted(whole.with_row_index("row").iter_rows(named=True), key=lambda row: order[row["metric"]])
    places = [item.name for item in found.shared.datasets]
    return Table(
        key="drift:metrics",
        title=f"Drift, {_between(found)}: metrics of whole sets",
        corner="Data set",
        columns=_columns(found),
        rows=tuple(
            Row(name=_title(found, row["dataset"]), cells=_cells(row))
            for row in sorted(rows, key=lambda row: places.index(row["dataset"]))
        ),
        notes=(_settings(found),),
    )


def _groups(found: Drift) -> Table:
    shown = [
        row
        for row in found.metrics.filter(pl.col("group_key").is_not_null()).iter_rows(named=True)
        if row["metric"] in _GROUPS.get(row["group_key"], ())
    ]
    return Table(
        key="drift:groups",
        title=f"Drift, {_between(found)}: metrics of groups",
        corner="Data set",
        columns=_columns(found, "Group"),
        rows=tuple(
            Row(
                name=_title(found, row["dataset"]),
                cells=(text_cell(f"{row['group_key']} {row['group']}"), *_cells(row)),
            )
            for row in shown
        ),
        notes=(_settings(found),),
    )
