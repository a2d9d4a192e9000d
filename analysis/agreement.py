"""Do the models agree with each other? Cohen's kappa of every two, Krippendorff's alpha of all.

Kappa (Cohen 1960, *Educational and Psychological Measurement* 20, 37-46) is of the sentences to which both models gave
a valid answer; alpha (Krippendorff 2011, nominal data) takes every valid answer and leaves the others out.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import krippendorff
import numpy as np
import polars as pl

from hatevolution.analysis.columns import code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hatevolution.analysis.study import Study

__all__ = ["ALPHAS", "KAPPAS", "alpha", "alphas", "kappa_matrix", "kappas"]

KAPPAS: Final = {
    "dataset": pl.String,
    "a": pl.String,
    "b": pl.String,
    "n": pl.Int64,  # sentences with two valid answers
    "agreement": pl.Float64,  # share of equal labels
    "kappa": pl.Float64,  # null where chance alone would make them agree: both always give the same one label
}

ALPHAS: Final = {"dataset": pl.String, "models": pl.Int64, "sentences": pl.Int64, "alpha": pl.Float64}


def kappa_matrix(
    outcomes: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return n, agreement and kappa of every two models, shape (models, models); NaN where not defined.

    Args:
        outcomes: Codes, shape (models, sentences).
    """
    toxic, respectful = (
        (outcomes == code(name)).astype(np.float64) for name in ("toxic", "respectful")
    )  # fmt: skip
    valid = toxic + respectful
    n = valid @ valid.T
    with np.errstate(divide="ignore", invalid="ignore"):
        agreement = (toxic @ toxic.T + respectful @ respectful.T) / n
        share = (toxic @ valid.T) / n  # of toxic in the answers of the row's model, where both answered
        chance = share * share.T + (1 - share) * (1 - share.T)
        kappa = np.where(chance < 1, (agreement - chance) / (1 - chance), np.nan)
    return n.round().astype(np.int64), agreement, kappa


def kappas(study: Study) -> pl.DataFrame:
    """Return the agreement of every two models on every set.

    Returns:
        Columns ``KAPPAS``.
    """
    names = [model.name for model in study.models]
    rows = []
    for item in study.datasets:
        n, agreement, kappa = kappa_matrix(study.outcomes(item.name))
        rows += [
            (item.name, names[a], names[b], int(n[a, b]), float(agreement[a, b]), float(kappa[a, b]))
            for a, b in combinations(range(len(names)), 2)
        ]
    return pl.DataFrame(rows, schema=KAPPAS, orient="row").with_columns(pl.col("agreement", "kappa").fill_nan(None))


def alpha(outcomes: NDArray[np.uint8]) -> tuple[int, float | None]:
    """Return the number of sentences with two answers or more, and Krippendorff's alpha; None where not defined.

    Args:
        outcomes: Codes, shape (models, sentences).
    """
    counts = np.stack([(outcomes == code(name)).sum(axis=0) for name in ("toxic", "respectful")], axis=1)
    pairable = counts[counts.sum(axis=1) > 1]
    if len(pairable) == 0 or np.any(pairable.sum(axis=0) == 0):
        return len(pairable), None  # no two answers, or but one label: nothing to agree on
    value = krippendorff.alpha(value_counts=pairable, level_of_measurement="nominal")
    return len(pairable), float(value)


def alphas(study: Study) -> pl.DataFrame:
    """Return the agreement of all models together, composites' members included, on every set.

    Returns:
        Columns ``ALPHAS``.
    """
    rows = []
    for item in study.datasets:
        sentences, value = alpha(study.outcomes(item.name))
        rows.append((item.name, len(study.models), sentences, value))
    return pl.DataFrame(rows, schema=ALPHAS, orient="row")
