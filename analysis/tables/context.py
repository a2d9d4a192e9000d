"""What table builders look scores up in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from hatevolution.analysis.metrics import counted
from hatevolution.analysis.tables.table import Cell, Row, ScoreKey, marked, value_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import Study
    from hatevolution.analysis.tables.table import Column, Format

__all__ = ["Context", "Line", "Score", "context"]


class Score(NamedTuple):
    """What a cell needs of one row of the tidy scores."""

    value: float | None
    reason: str | None
    counted: int
    """Rows that the value stands on."""
    n: int
    low: float | None
    high: float | None


class Line(NamedTuple):
    """A row of a table to be: a model or a composite."""

    name: str
    title: str
    classifier: bool
    composite: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A study and its scores, to look up by name."""

    study: Study
    scores: pl.DataFrame
    """Tidy."""
    lines: tuple[Line, ...]
    """The models in the store's order, then the composites; members of composites do not stand for themselves."""
    constant: frozenset[tuple[str, str]]
    """(model, data set) where all valid answers are the same label: the model's flips say nothing there."""
    index: dict[tuple[str, str, str, str | None, str | None], Score]
    invalid: InvalidPolicy
    """What an invalid answer counts as in the scores."""

    def cell(
        self, line: Line, dataset: str, metric: str, form: Format, key: str | None = None, group: object = None
    ) -> Cell:
        """Return the cell of one score; one without rows is no value."""
        named = ScoreKey(line.name, dataset, metric, key, None if group is None else str(group))
        score = self.index.get(named)
        if score is None:
            return value_cell(None, form, reason="no such sentence")
        return value_cell(
            score.value,
            form,
            counted=score.counted,
            n=score.n,
            reason=self._titled(score.reason),
            interval=(score.low, score.high),
            score=named,
        )

    def _titled(self, reason: str | None) -> str | None:
        """Name the member that keeps a composite from having a value as tables name models: by its title."""
        for model in self.study.models if reason is not None and reason.startswith("member ") else ():
            reason = reason.replace(f"member {model.name}:", f"member {model.title}:", 1) if reason else reason
        return reason

    def rows(
        self, columns: Sequence[Column], cells: Callable[[Line], Iterable[Cell]], flips_of: str | None = None
    ) -> tuple[Row, ...]:
        """Return one row per line, best values marked.

        Args:
            columns: Of the table.
            cells: Makes the cells of a line.
            flips_of: The set whose label flips the columns named ``lowest`` show; flips of constant predictors there
                are not marked as the best ones.
        """
        found = [
            Row(name=line.title, cells=tuple(cells(line)), compared=not line.composite)
            for line in self.lines
        ]  # fmt: skip
        silent = [number for number, line in enumerate(self.lines) if (line.name, flips_of) in self.constant]
        lowest = [index for index, column in enumerate(columns) if column.best == "lowest"]
        return marked(columns, found, {(number, index) for number in silent for index in lowest})


def context(study: Study, scores: pl.DataFrame, invalid: InvalidPolicy) -> Context:
    """Prepare a study and its tidy scores for the builders of tables."""
    keys = scores.select("model", "dataset", "metric", "group_key", "group").rows()
    values = scores.select("value", "reason", counted(scores, invalid).alias("counted"), "n", "low", "high").rows()
    return Context(
        study=study,
        scores=scores,
        lines=(
            *(Line(model.name, model.title, model.classifier, False) for model in study.single_models),
            *(
                Line(item.name, item.name, all(m.classifier for m in study.models if m.name in item.members), True)
                for item in study.composites
            ),
        ),
        constant=_constant(study),
        index={key: Score(*value) for key, value in zip(keys, values, strict=True)},
        invalid=invalid,
    )


def _constant(study: Study) -> frozenset[tuple[str, str]]:
    valid = study.answers.filter(pl.col("outcome").is_in(["toxic", "respectful"]))
    counted = valid.group_by("model", "dataset").agg(labels=pl.col("outcome").n_unique())
    same = counted.filter(pl.col("labels") == 1).select(
        pl.col("model").cast(pl.String), pl.col("dataset").cast(pl.String)
    )  # fmt: skip
    return frozenset(same.rows())
