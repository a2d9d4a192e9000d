"""Rankings of the models: one per data set, by the measure that the study ranks it by.

A set with years ranks by time-sensitive macro F1, one made of pairs by label flips (low first), any other by macro F1.
Composite baselines and their members are not ranked (paper, section 3.5: the twenty models, TimeLMs being none).

A model whose valid answers in a set of pairs are all the same label can't flip. It is put last there, as in the study,
or left out; unlike there, it is found by this rule and reported, not picked by hand. Several such models share the last
place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from numpy.typing import NDArray

    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["MEASURES", "ConstantRule", "Ranking", "constant_models", "goodness", "rankings"]

MEASURES: Final = {"years": "time_sensitive_macro_f1", "pairs": "label_flip", "static": "macro_f1"}
"""Kind of data set -> the metric that ranks models on it."""


ConstantRule = Literal["last", "exclude"]
"""What becomes of constant predictors in a ranking by flips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How the models rank on one set."""

    name: str
    """``Experiment 1``, ``Experiment 2`` or the set's title."""
    dataset: str
    measure: str
    goodness: Mapping[str, float]
    """Model -> a number that is higher for better models; -inf for constant predictors of flips. Models without a
    value are left out."""
    constant: tuple[str, ...] = ()
    """Models put last, or left out, since all their valid answers are the same label."""
    unranked: Mapping[str, str] | None = None
    """Models without a value, and why."""

    @property
    def order(self) -> tuple[str, ...]:
        """The models, best first; ties in the store's order."""
        return tuple(sorted(self.goodness, key=lambda name: -self.goodness[name]))


def rankings(study: Study, scores: pl.DataFrame, constants: ConstantRule = "last") -> list[Ranking]:
    """Return the rankings of all labelled sets, those with time first.

    Args:
        study: The answers.
        scores: Tidy.
        constants: What becomes of constant predictors in a ranking by flips.
    """
    whole = scores.filter(scores["group_key"].is_null())
    known = {
        (model, dataset, metric): (value, reason)
        for model, dataset, metric, value, reason in whole.select(
            "model", "dataset", "metric", "value", "reason"
        ).iter_rows()
    }
    order = {"years": 0, "pairs": 1, "static": 2}
    found = []
    for item in sorted(study.datasets, key=lambda item: order[item.kind]):
        if not item.labelled and item.kind != "pairs":
            continue
        measure = MEASURES[item.kind]
        values = {model.name: known[model.name, item.name, measure] for model in study.single_models}
        constant = constant_models(study, item) if item.kind == "pairs" else ()
        if constants == "exclude":
            reason = "all its valid answers are the same label"
            values |= {
                name: (None, reason) for name, (value, _) in values.items() if name in constant and value is not None
            }
        found.append(
            Ranking(
                name=_name(study, item),
                dataset=item.name,
                measure=measure,
                goodness={
                    name: float(goodness(item, np.array([value]), name in constant)[0])
                    for name, (value, _) in values.items()
                    if value is not None
                },
                constant=constant,
                unranked={name: reason or "" for name, (value, reason) in values.items() if value is None},
            )
        )
    return found


def goodness(item: DatasetInfo, values: NDArray[np.float64], constant: bool) -> NDArray[np.float64]:
    """Turn values of a set's measure into numbers that are higher for better models."""
    if item.kind != "pairs":
        return values
    return np.full_like(values, -np.inf) if constant else -values


def constant_models(study: Study, item: DatasetInfo) -> tuple[str, ...]:
    """Return the models whose valid answers in a set are all the same label."""
    outcomes = study.outcomes(item.name)
    both = np.array([[np.any(row == 0), np.any(row == 1)] for row in outcomes]).reshape(len(outcomes), 2)
    return tuple(model.name for model, (one, other) in zip(study.models, both, strict=True) if one != other)


def _name(study: Study, item: DatasetInfo) -> str:
    number = {"years": 1, "pairs": 2}.get(item.kind)
    if number is None:
        return item.title
    alone = sum(other.kind == item.kind for other in study.datasets) == 1
    return f"Experiment {number}" if alone else f"Experiment {number}, {item.title}"
