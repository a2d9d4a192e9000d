"""How much every metric moved on the shared sentences, by set and group, and whether that is more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hatevolution.analysis.columns import code
from hatevolution.analysis.paired import flipped, mcnemar, two_sided
from hatevolution.analysis.percentiles import percentiles
from hatevolution.analysis.resample import Key, resample
from hatevolution.analysis.robust import benjamini_hochberg
from hatevolution.analysis.scores import scores
from hatevolution.domain import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import DatasetInfo, Study

__all__ = ["DRIFT_METRICS", "metric_drift"]

DRIFT_METRICS: Final = {
    "dataset": pl.String,
    "metric": pl.String,
    "group_key": pl.String,
    "group": pl.String,
    "old": pl.Float64,
    "new": pl.Float64,
    "difference": pl.Float64,  # new - old; null where either is not defined
    "low": pl.Float64,  # paired percentile bootstrap
    "high": pl.Float64,
    "p_bootstrap": pl.Float64,
    "only_old": pl.Int64,  # sentences that the old one alone gets right (answers validly, pairs that it alone flips)
    "only_new": pl.Int64,
    "p_mcnemar": pl.Float64,  # of those two counts; null for metrics that are no rate of right sentences
    "q_mcnemar": pl.Float64,  # Benjamini and Hochberg's, over all tests of whole sets, or all of groups
    "n": pl.Int64,
    "reason": pl.String,  # why there is no difference
}

_TESTED: Final = ("macro_f1", "accuracy", "time_sensitive_macro_f1", "expected_output", "label_flip")


def metric_drift(
    shared: Study, old: int, new: int, *, invalid: InvalidPolicy, seed: int, resamples: int, confidence: float
) -> pl.DataFrame:
    """Compare two models metric by metric.

    Args:
        shared: Of :func:`hatevolution.analysis.drift.shared.shared_study`.
        old: Place of the older model in it.
        new: Place of the newer one.
        invalid: What an invalid answer counts as; not ``raw``.
        seed: Of the resamples.
        resamples: How many.
        confidence: Of the intervals.

    Returns:
        Columns ``DRIFT_METRICS``, in the order of the scores.
    """
    names = [shared.models[place].name for place in (old, new)]
    keys = ["dataset", "metric", "group_key", "group"]
    tidy = scores(shared, invalid)
    sides = [tidy.filter(pl.col("model") == name) for name in names]
    both = (
        sides[0]
        .select(*keys, "n", old="value", why_old="reason")
        .join(sides[1].select(*keys, new="value", why_new="reason"), on=keys, nulls_equal=True, maintain_order="left")
    )
    samples = resample(
        shared, seed=seed, resamples=resamples, invalid=invalid, confidence=confidence, keep=lambda _: True
    )
    rows = []
    for row in both.iter_rows(named=True):
        key = Key(*(row[name] for name in keys))
        defined = row["old"] is not None and row["new"] is not None
        drawn = samples.values.get(key) if defined else None
        between = (None, None, None) if drawn is None else _interval(drawn[:, new] - drawn[:, old], confidence)
        tested = _mcnemar(shared, key, old, new) if defined and key.metric in _TESTED else (None, None, None)
        reason = None if defined else _why(row)
        gap = row["new"] - row["old"] if defined else None
        rows.append((*key, row["old"], row["new"], gap, *between, *tested, None, row["n"], reason))
    frame = pl.DataFrame(rows, schema=DRIFT_METRICS, orient="row")
    return frame.with_columns(pl.Series("q_mcnemar", _adjusted(frame), dtype=pl.Float64))


def _adjusted(frame: pl.DataFrame) -> list[float | None]:
    whole = frame["group_key"].is_null().to_list()
    families = [
        iter(benjamini_hochberg([p for p, own in zip(frame["p_mcnemar"], whole, strict=True) if own == wanted]))
        for wanted in (False, True)
    ]
    return [next(families[own]) for own in whole]


def _why(row: dict[str, str | None]) -> str:
    reasons = dict.fromkeys(row[name] for name in ("why_old", "why_new") if row[name] is not None)
    return "; ".join(str(reason) for reason in reasons)


_Number = float | None


def _interval(gaps: NDArray[np.float64], confidence: float) -> tuple[_Number, _Number, _Number]:
    column = gaps.reshape(-1, 1)
    low, high = percentiles(column, confidence)
    if np.isnan(low[0]):
        return None, None, None
    return float(low[0]), float(high[0]), float(two_sided(column)[0])


def _mcnemar(shared: Study, key: Key, old: int, new: int) -> tuple[int | None, int | None, _Number]:
    item = shared.dataset(key.dataset)
    if key.metric == "label_flip":
        if key.group_key is not None:
            return None, None, None
        success, counted = flipped(shared, item)
    else:
        success, counted = _sentences(shared, item, key)
    only, p = mcnemar(success[[old, new]], counted[[old, new]])
    return int(only[0, 1]), int(only[1, 0]), float(p[0, 1])


def _sentences(shared: Study, item: DatasetInfo, key: Key) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether each model succeeds with each sentence, and which of them the metric is of."""
    sentences, outcomes = shared.of(item.name), shared.outcomes(item.name)
    valid = outcomes <= code("respectful")
    of = np.ones(item.sentences, dtype=np.bool_)
    if key.group_key is not None:
        of = (sentences[key.group_key].cast(pl.String) == key.group).fill_null(value=False).to_numpy()
    if key.metric == "expected_output":
        return valid, np.broadcast_to(of, valid.shape)
    gold = sentences["gold"].to_physical().fill_null(255).to_numpy()
    of = of & (gold != 255)
    if item.kind == "pairs" and key.group_key != "role":
        of = of & (sentences["role"] == Role.ORIGINAL.value).fill_null(value=False).to_numpy()
    if key.metric == "time_sensitive_macro_f1":
        of = of & sentences["year"].is_in(item.years).fill_null(value=False).to_numpy()
    return outcomes == gold, valid & of
