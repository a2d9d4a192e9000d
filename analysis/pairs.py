"""Experiment 2: what a neologism does to an answer. s1 is the original sentence, s2 the one with the neologism.

v = 1 marks an answer that does not follow the instruction. Sources: paper, section 3.4; released code.

=============================  ======================================================================================
label_flip                     pairs with different labels / pairs in which both answers are valid (released code and
                               published figures; the paper's formula divides by all pairs, see label_flip_of_all)
label_flip_of_all              the same pairs / all pairs with two answers
hallucination                  v(s2) = 1 and v(s1) = 0 / pairs with two answers
hallucination_any              v(s2) = 1 or v(s1) = 1 / pairs with two answers (Hal_s1,s2 in Table A6)
hallucination_counterfactual   v(s2) = 1 / pairs with two answers (Hal_s2 in Table A6)
=============================  ======================================================================================

A pair is missing where a prediction of it is, else rejected or refused where one is that, else invalid where an answer
is, else scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.columns import OUTCOME
from hatevolution.analysis.counts import COVERAGE

if TYPE_CHECKING:
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import Study

__all__ = ["PAIR_METRICS", "pair_rows", "pair_scores"]

PAIR_METRICS: Final = (
    "label_flip",
    "label_flip_of_all",
    "hallucination",
    "hallucination_any",
    "hallucination_counterfactual",
)


def pair_rows(study: Study) -> pl.DataFrame:
    """Return one row per data set, model and pair.

    Returns:
        Columns dataset, pair, year, type, model, s1, s2 (outcomes), t1, t2 (text ids), state (the pair's coverage).
    """
    sentences = study.sentences.filter(pl.col("pair").is_not_null() & pl.col("role").is_not_null())
    answered = sentences.join(study.answers, on=["dataset", "position"])
    sides = [
        answered.filter(pl.col("role") == role).select(
            "dataset", "pair", "model", "year", "type",
            pl.col("outcome").alias(f"s{number}"), pl.col("text").alias(f"t{number}"),
        )
        for number, role in ((1, "original"), (2, "neologism"))
    ]  # fmt: skip
    joined = sides[0].join(sides[1], on=["dataset", "pair", "model"], how="full", coalesce=True)
    missing = pl.lit("missing", dtype=OUTCOME)
    return joined.select(
        "dataset",
        "pair",
        pl.coalesce("year", "year_right").alias("year"),
        pl.coalesce("type", "type_right").alias("type"),
        "model",
        pl.col("s1").fill_null(missing),
        pl.col("s2").fill_null(missing),
        pl.col("t1", "t2").fill_null(0),
    ).with_columns(state=_state())


def pair_scores(rows: pl.DataFrame, key: str | None, invalid: InvalidPolicy = "drop") -> list[pl.DataFrame]:
    """Return the tidy scores of one grouping, one frame per metric.

    Args:
        rows: Of :func:`pair_rows`.
        key: ``year``, ``type`` or None for whole sets.
        invalid: What an invalid answer counts as: under ``wrong`` its pair has flipped, under ``class`` and ``raw`` it
            is a label of its own, and the bounds take the pairs that are not scored as flipped or not.
    """
    if key is not None:
        rows = rows.filter(pl.col(key).is_not_null())
    group = pl.lit(None, dtype=pl.String) if key is None else pl.col(key).cast(pl.String)
    tallied = rows.group_by("dataset", "model", group.alias("group")).agg(
        pl.len().cast(pl.Int64).alias("n"),
        *((pl.col("state") == name).sum().cast(pl.Int64).alias(name) for name in COVERAGE[1:]),
        *_tallies(invalid),
    )
    rates = _rates(invalid)
    return [
        tallied.select(
            pl.col("model").cast(pl.String),
            pl.col("dataset").cast(pl.String),
            pl.lit(name).alias("metric"),
            pl.lit(key, dtype=pl.String).alias("group_key"),
            "group",
            pl.when(below > 0).then(above / below).alias("value"),
            pl.when(below == 0).then(_reason(why)).alias("reason"),
            *COVERAGE,
        )
        for name, (above, below, why) in rates.items()
    ]


def _reason(why: str) -> pl.Expr:
    whole = pl.when(pl.col("missing") == pl.col("n")).then(pl.lit("not asked: every pair lacks an answer"))
    return whole.otherwise(pl.lit(why))


def _state() -> pl.Expr:
    state: pl.Expr = pl.lit("scored")
    for name in ("invalid", "refused", "rejected", "missing"):
        outcomes = ["invalid", "ambiguous"] if name == "invalid" else [name]
        either = pl.col("s1").is_in(outcomes) | pl.col("s2").is_in(outcomes)
        state = pl.when(either).then(pl.lit(name)).otherwise(state)
    return state


def _tallies(invalid: InvalidPolicy) -> list[pl.Expr]:
    broken = {number: pl.col(f"s{number}").is_in(["invalid", "ambiguous"]) for number in (1, 2)}
    answered = pl.col("state").is_in(["scored", "invalid"])
    differs = pl.col("s1") != pl.col("s2")
    if invalid in ("class", "raw"):
        both = broken[1] & broken[2]
        differs = (
            pl.when(both)
            .then(pl.col("t1") != pl.col("t2") if invalid == "raw" else pl.lit(value=False))
            .otherwise(differs)
        )
    counted = {
        "flips": (pl.col("state") == "scored") & (pl.col("s1") != pl.col("s2")),
        "differs": answered & differs,
        "hallucination": answered & broken[2] & ~broken[1],
        "hallucination_any": answered & (broken[1] | broken[2]),
        "hallucination_counterfactual": answered & broken[2],
    }
    return [condition.sum().cast(pl.Int64).alias(f"{name}_count") for name, condition in counted.items()]


def _rates(invalid: InvalidPolicy) -> dict[str, tuple[pl.Expr, pl.Expr, str]]:
    answered, everything = pl.col("scored") + pl.col("invalid"), pl.col("n")
    unanswered = everything - answered
    flips = pl.col("flips_count")
    no_answers = "no pair with two answers"
    flip = {
        "drop": (flips, pl.col("scored"), "no pair with two valid answers"),
        "wrong": (flips + pl.col("invalid"), answered, no_answers),
        "class": (pl.col("differs_count"), answered, no_answers),
        "raw": (pl.col("differs_count"), answered, no_answers),
        "worst": (flips + everything - pl.col("scored"), everything, no_answers),
        "best": (flips, everything, no_answers),
    }[invalid]
    bounds = {"worst": (unanswered, everything), "best": (pl.lit(0), everything)}
    extra, below = bounds.get(invalid, (pl.lit(0), answered))
    rates = {"label_flip": flip, "label_flip_of_all": (flips, answered, no_answers)}
    for name in PAIR_METRICS[2:]:
        rates[name] = (pl.col(f"{name}_count") + extra, below, no_answers)
    return rates
