"""What each unit contributes to the counts behind the metrics, and the metrics of weighted sums of them.

The formulas are those of :mod:`hatevolution.analysis.metrics` and :mod:`hatevolution.analysis.pairs`, here for arrays
of resamples; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hatevolution.analysis.columns import code
from hatevolution.analysis.metrics import SENTENCE_METRICS
from hatevolution.domain import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo

__all__ = ["Block", "pair_block", "sentence_block"]

_Counts = dict[str, "NDArray[np.float64]"]
_Rates = dict[str, "NDArray[np.float64]"]

_TOXIC, _RESPECTFUL = code("toxic"), code("respectful")
_INVALID = (code("invalid"), code("ambiguous"))
_MISSING = code("missing")
_EXACT_IN_SINGLE = 2**22
"""Sums of up to so many small counts are exact in single precision, which is twice as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The contributions of one group's units."""

    units: NDArray[np.int64]
    """Those that contribute, shape (u,)."""
    names: tuple[str, ...]
    contributions: NDArray[np.floating]
    """Shape (u, names x models)."""
    rates: Callable[[_Counts], _Rates]

    def metrics(self, weights: NDArray[np.float32]) -> _Rates:
        """Return metric -> values, shape (resamples, models); NaN where it is not defined.

        Args:
            weights: Shape (resamples, all units).
        """
        chosen = weights if len(self.units) == weights.shape[1] else weights[:, self.units]
        sums = (chosen.astype(self.contributions.dtype, copy=False) @ self.contributions).astype(np.float64)
        shaped = sums.reshape(len(weights), len(self.names), -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.rates({name: shaped[:, number] for number, name in enumerate(self.names)})


def _block(
    counts: Mapping[str, NDArray[np.bool_]], unit: NDArray[np.int64], rates: Callable[[_Counts], _Rates]
) -> Block:
    """Sum the rows' contributions by unit.

    Args:
        counts: Name -> shape (models, rows).
        unit: Of each row, shape (rows,).
        rates: From named sums to metrics.
    """
    units, place = np.unique(unit, return_inverse=True)
    dtype = np.float32 if len(unit) < _EXACT_IN_SINGLE else np.float64
    rows = np.concatenate(list(counts.values())).T.astype(dtype)
    if len(units) == len(unit):
        contributions = np.empty_like(rows)
        contributions[place] = rows
    else:
        contributions = np.zeros((len(units), rows.shape[1]), dtype=dtype)
        np.add.at(contributions, place, rows)
    return Block(units=units, names=tuple(counts), contributions=contributions, rates=rates)


def sentence_block(
    item: DatasetInfo,
    key: str | None,
    sentences: pl.DataFrame,
    outcomes: NDArray[np.uint8],
    rows: NDArray[np.bool_],
    unit: NDArray[np.int64],
    invalid: InvalidPolicy,
) -> Block:
    """Return the block of the metrics of sentences.

    Args:
        item: The set.
        key: What ``rows`` are grouped by.
        sentences: Of the set.
        outcomes: Shape (models, sentences).
        rows: The group's sentences, shape (sentences,).
        unit: Of each sentence.
        invalid: What an invalid answer counts as.
    """
    gold = sentences["gold"].to_physical().fill_null(255).to_numpy()[rows]
    judged = gold != 255
    if item.kind == "pairs" and key != "role":
        judged &= (sentences["role"] == Role.ORIGINAL.value).fill_null(value=False).to_numpy()[rows]
    said = outcomes[:, rows]
    truth = {"toxic": judged & (gold == _TOXIC), "respectful": judged & (gold == _RESPECTFUL)}
    bad = np.isin(said, _INVALID)
    valid = (said == _TOXIC) | (said == _RESPECTFUL)
    counts = {
        **_confusion(said, truth, bad, ~(valid | bad), invalid),
        "bad": bad & judged,
        "valid": valid,
        "there": said != _MISSING,
    }
    return _block(counts, unit[rows], lambda sums: _sentence_rates(sums, key, invalid))


def _confusion(
    said: NDArray[np.uint8],
    truth: Mapping[str, NDArray[np.bool_]],
    bad: NDArray[np.bool_],
    unanswered: NDArray[np.bool_],
    invalid: InvalidPolicy,
) -> dict[str, NDArray[np.bool_]]:
    lost = bad | unanswered
    nothing = np.zeros_like(bad)
    hit_too = lost if invalid == "best" else nothing
    miss_too = {"worst": lost, "wrong": bad, "class": bad}.get(invalid, nothing)
    alarm_too = lost if invalid == "worst" else nothing
    counts = {}
    for name, own, other in (("toxic", _TOXIC, _RESPECTFUL), ("respectful", _RESPECTFUL, _TOXIC)):
        counts[f"hit_{name}"] = truth[name] & ((said == own) | hit_too)
        counts[f"miss_{name}"] = truth[name] & ((said == other) | miss_too)
        elsewhere = truth["respectful" if name == "toxic" else "toxic"]
        counts[f"false_{name}"] = elsewhere & ((said == own) | alarm_too)
    return counts


def _sentence_rates(sums: _Counts, key: str | None, invalid: InvalidPolicy) -> _Rates:
    hit = {name: sums[f"hit_{name}"] for name in ("toxic", "respectful")}
    support = {name: hit[name] + sums[f"miss_{name}"] for name in hit}
    f1 = {
        name: np.where(
            support[name] > 0, 2 * hit[name] / (2 * hit[name] + sums[f"miss_{name}"] + sums[f"false_{name}"]), np.nan
        )
        for name in hit
    }
    counted = support["toxic"] + support["respectful"]
    classes = 2 + (sums["bad"] > 0 if invalid == "class" else 0)
    found = {
        "macro_f1": (f1["toxic"] + f1["respectful"]) / classes,
        "f1_hateful": f1["toxic"],
        "f1_nonhateful": f1["respectful"],
        "accuracy": (hit["toxic"] + hit["respectful"]) / counted,
        "balanced_accuracy": (hit["toxic"] / support["toxic"] + hit["respectful"] / support["respectful"]) / 2,
        "expected_output": sums["valid"] / sums["there"],
    }
    names = ("accuracy", "expected_output") if key == "functionality" else (*SENTENCE_METRICS, "expected_output")
    return {name: found[name] for name in names}


def pair_block(
    sentences: pl.DataFrame,
    outcomes: NDArray[np.uint8],
    rows: NDArray[np.bool_],
    unit: NDArray[np.int64],
    invalid: InvalidPolicy,
) -> Block:
    """Return the block of the metrics of pairs; arguments as for :func:`sentence_block`."""
    paired = rows & (sentences["pair"].is_not_null() & sentences["role"].is_not_null()).to_numpy()
    units = np.unique(unit[paired])
    sides = []
    for role in Role:
        own = paired & (sentences["role"] == role.value).fill_null(value=False).to_numpy()
        side = np.full((len(outcomes), len(units)), _MISSING, dtype=np.uint8)
        side[:, np.searchsorted(units, unit[own])] = outcomes[:, own]
        sides.append(side)
    one, two = sides
    broken = [np.isin(side, _INVALID) for side in sides]
    valid = [(side == _TOXIC) | (side == _RESPECTFUL) for side in sides]
    answered = (broken[0] | valid[0]) & (broken[1] | valid[1])
    scored = valid[0] & valid[1]
    counts = {
        "n": np.ones_like(scored),
        "answered": answered,
        "scored": scored,
        "flips": scored & (one != two),
        "differs": answered & (one != two) & ~(broken[0] & broken[1]),
        "hallucination": answered & broken[1] & ~broken[0],
        "hallucination_any": answered & (broken[0] | broken[1]),
        "hallucination_counterfactual": answered & broken[1],
    }
    return _block(counts, units, lambda sums: _pair_rates(sums, invalid))


def _pair_rates(sums: _Counts, invalid: InvalidPolicy) -> _Rates:
    n, answered, scored, flips = (sums[name] for name in ("n", "answered", "scored", "flips"))
    flip = {
        "drop": lambda: flips / scored,
        "wrong": lambda: (flips + answered - scored) / answered,
        "class": lambda: sums["differs"] / answered,
        "worst": lambda: (flips + n - scored) / n,
        "best": lambda: flips / n,
    }[invalid]()
    found = {"label_flip": flip, "label_flip_of_all": flips / answered}
    for name in ("hallucination", "hallucination_any", "hallucination_counterfactual"):
        if invalid in ("worst", "best"):
            found[name] = (sums[name] + (n - answered if invalid == "worst" else 0)) / n
        else:
            found[name] = sums[name] / answered
    return found
