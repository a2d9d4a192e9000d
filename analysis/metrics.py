r"""Rates of sentences: F1, accuracy, percentage of valid answers; and what an invalid answer counts as.

F1 of a class is :math:`2 TP / (2 TP + FP + FN)`, macro F1 the mean of the two classes' (paper, section 3.3; the same
as scikit-learn's ``f1_score(..., labels=["toxic", "respectful"], average="macro")``).

A class without a sentence among those that count has no recall, so its F1 is null with the reason, never 0 or 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from hatevolution.analysis.counts import COVERAGE, by_gold, by_group, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.analysis.study import Study

__all__ = [
    "INVALID_POLICIES",
    "METRIC_TITLES",
    "NOT_ASKED",
    "SENTENCE_METRICS",
    "InvalidPolicy",
    "sentence_scores",
    "stands_on",
]

InvalidPolicy = Literal["drop", "wrong", "class", "raw", "worst", "best"]

INVALID_POLICIES: Final[Mapping[InvalidPolicy, str]] = {
    "drop": "left out (as published)",
    "wrong": "a miss of its gold label, and no hit of the other",
    "class": "a third class with an F1 of 0, where there is one",
    "raw": "every different text a class of its own with an F1 of 0 (as classification_report does on raw answers)",
    "worst": "wrong, and so is every refused, rejected or missing sentence: the lower bound",
    "best": "right, and so is every refused, rejected or missing sentence: the upper bound",
}
"""What an invalid answer counts as. Refused, rejected and missing sentences are no answers: only the bounds count
them."""

SENTENCE_METRICS: Final = ("macro_f1", "f1_hateful", "f1_nonhateful", "accuracy", "balanced_accuracy")
"""Those of labelled sentences; ``expected_output`` is of all."""

METRIC_TITLES: Final = {
    "macro_f1": "Macro F1",
    "f1_hateful": "F1, hateful",
    "f1_nonhateful": "F1, non-hateful",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "expected_output": "Expected output (%)",
    "time_sensitive_macro_f1": "Time-sensitive macro F1",
    "label_flip": "Label flip (%)",
    "hallucination": "Hallucination (%)",
}
"""How tables name a metric; frames and documents have its own name."""

NOT_ASKED: Final = "not asked: every sentence is missing"
"""Why there is no value where a run has not been yet, or was kept from by ``--limit``."""


def stands_on(metric: str, invalid: InvalidPolicy) -> tuple[str, ...]:
    """Return those columns of the coverage whose sum is the number of rows that a metric's value stands on."""
    answered = ("scored", "invalid")
    if metric == "expected_output":
        return (*answered, "refused", "rejected")
    if invalid in ("worst", "best"):
        return ("n",)
    if metric.startswith("hallucination") or metric == "label_flip_of_all":
        return answered
    return ("scored",) if invalid == "drop" else answered


def counted(scores: pl.DataFrame, invalid: InvalidPolicy) -> pl.Expr:
    """Return, for tidy scores, the number of rows that each value stands on (:func:`stands_on`)."""
    found = pl.lit(0, dtype=pl.Int64)
    for metric in scores["metric"].unique():
        base = pl.sum_horizontal(stands_on(metric, invalid))
        found = pl.when(pl.col("metric") == metric).then(base).otherwise(found)
    return found


def sentence_scores(
    study: Study, cells: pl.DataFrame, key: str | None, invalid: InvalidPolicy = "drop"
) -> list[pl.DataFrame]:
    """Return the tidy scores of one grouping, one frame per metric.

    Args:
        study: The answers.
        cells: Of :func:`hatevolution.analysis.counts.cube`.
        key: One of ``GROUP_KEYS``; None for whole sets.
        invalid: What an invalid answer counts as.
    """
    judged = by_gold(cells, study, key)
    everything = by_group(cells, key)
    if key is None:
        judged, everything = _every_cell(study, judged), _every_cell(study, everything)
    if invalid == "raw":
        texts = distinct_texts(study, key)
        judged = judged.join(texts, on=["dataset", "model", "group"], how="left", nulls_equal=True)
    else:
        judged = judged.with_columns(distinct=pl.lit(0, dtype=pl.Int64))
    judged = _with_f1(judged.with_columns(pl.col("distinct").fill_null(0)), invalid)
    # All sentences of a functionality have one label, so that F1 can't be defined there.
    names = ("accuracy",) if key == "functionality" else SENTENCE_METRICS
    return [
        *(_tidy(judged, key, name, pl.col(name), pl.col(f"{name}_reason")) for name in names),
        _tidy(everything, key, "expected_output", *_expected_output()),
    ]


def _every_cell(study: Study, frame: pl.DataFrame) -> pl.DataFrame:
    """Add a row of zeros for every model and set that has none (sets without sentences, or without labels)."""
    grid = pl.DataFrame(
        {"dataset": [item.name for item in study.datasets]}, schema={"dataset": frame.schema["dataset"]}
    )
    models = pl.DataFrame({"model": [item.name for item in study.models]}, schema={"model": frame.schema["model"]})
    full = grid.join(models, how="cross").with_columns(group=pl.lit(None, dtype=pl.String))
    joined = full.join(frame, on=["dataset", "model", "group"], how="left", nulls_equal=True)
    return joined.with_columns(pl.exclude("dataset", "model", "group").fill_null(0))


def _with_f1(frame: pl.DataFrame, invalid: InvalidPolicy) -> pl.DataFrame:
    """Add value and reason of each of :data:`SENTENCE_METRICS`."""
    frame = frame.with_columns(**_counted(invalid))
    support = {name: pl.col(f"hit_{name}") + pl.col(f"miss_{name}") for name in ("toxic", "respectful")}
    counted = support["toxic"] + support["respectful"]
    f1 = {
        name: 2 * pl.col(f"hit_{name}") / (2 * pl.col(f"hit_{name}") + pl.col(f"miss_{name}") + pl.col(f"false_{name}"))
        for name in support
    }
    recall = {name: pl.col(f"hit_{name}") / support[name] for name in support}
    # Further classes hold no sentence, so that their F1 is 0 and only the number of classes grows.
    macro = (f1["toxic"] + f1["respectful"]) / (2 + pl.col("classes"))
    nothing = (
        pl.when(pl.col("n") == 0)
        .then(pl.lit("no sentence with a gold label"))
        .when((counted == 0) & (pl.col("missing") == pl.col("n")))
        .then(pl.lit(NOT_ASKED))
        .when((counted == 0) & (pl.col("scored") + pl.col("invalid") == 0))
        .then(pl.lit("no answer: every sentence was refused, rejected or not asked"))
        .when(counted == 0)
        .then(pl.lit("no valid answer"))
    )
    lacks = {name: pl.lit(f"no {name} sentence among those that count") for name in support}
    one = {name: nothing.when(support[name] == 0).then(lacks[name]) for name in support}
    both = one["toxic"].when(support["respectful"] == 0).then(lacks["respectful"])
    return _with_reasons(
        frame,
        {
            "macro_f1": (macro, both),
            "f1_hateful": (f1["toxic"], one["toxic"]),
            "f1_nonhateful": (f1["respectful"], one["respectful"]),
            "accuracy": ((pl.col("hit_toxic") + pl.col("hit_respectful")) / counted, nothing),
            "balanced_accuracy": ((recall["toxic"] + recall["respectful"]) / 2, both),
        },
    )


def _with_reasons(frame: pl.DataFrame, metrics: Mapping[str, tuple[pl.Expr, pl.Expr]]) -> pl.DataFrame:
    frame = frame.with_columns(**{f"{name}_reason": reason for name, (_, reason) in metrics.items()})
    return frame.with_columns(
        **{name: pl.when(pl.col(f"{name}_reason").is_null()).then(value) for name, (value, _) in metrics.items()}
    )


def _counted(invalid: InvalidPolicy) -> dict[str, pl.Expr]:
    """Return hits, misses and false alarms of each class, and the number of classes beyond the two."""
    bad = {name: pl.col(f"invalid_{name}") for name in ("toxic", "respectful")}
    lost = {name: bad[name] + pl.col(f"open_{name}") for name in bad}
    none = pl.lit(0, dtype=pl.Int64)
    hit = lost if invalid == "best" else dict.fromkeys(bad, none)
    miss = {"worst": lost, "wrong": bad, "class": bad, "raw": bad}.get(invalid, dict.fromkeys(bad, none))
    alarm = lost if invalid == "worst" else dict.fromkeys(bad, none)
    any_bad = (bad["toxic"] + bad["respectful"] > 0).cast(pl.Int64)
    return {
        "hit_toxic": pl.col("tp") + hit["toxic"],
        "miss_toxic": pl.col("fn") + miss["toxic"],
        "false_toxic": pl.col("fp") + alarm["respectful"],
        "hit_respectful": pl.col("tn") + hit["respectful"],
        "miss_respectful": pl.col("fp") + miss["respectful"],
        "false_respectful": pl.col("fn") + alarm["toxic"],
        "classes": {"class": any_bad, "raw": pl.col("distinct")}.get(invalid, none),
    }


def _expected_output() -> tuple[pl.Expr, pl.Expr]:
    """Return the share of valid answers among the rows there are: a refused or rejected row is none, a missing no row.

    Source: "Expected Output (%)" of Tables A7 to A10, the valid answers among a set's rows.
    """
    rows = pl.col("n") - pl.col("missing")
    reason = pl.when(pl.col("n") == 0).then(pl.lit("the set has no sentence")).when(rows == 0).then(pl.lit(NOT_ASKED))
    return pl.when(rows > 0).then(pl.col("scored") / rows), reason


def _tidy(frame: pl.DataFrame, key: str | None, metric: str, value: pl.Expr, reason: pl.Expr) -> pl.DataFrame:
    return frame.select(
        pl.col("model").cast(pl.String),
        pl.col("dataset").cast(pl.String),
        pl.lit(metric).alias("metric"),
        pl.lit(key, dtype=pl.String).alias("group_key"),
        "group",
        value.cast(pl.Float64).alias("value"),
        reason.alias("reason"),
        *COVERAGE,
    )
