"""Every published figure that can be derived from others, or from the counts of the released files."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hatevolution.analysis.paper.check import NOT_DERIVABLE, Check, compared, judged, share_of
from hatevolution.analysis.paper.published import (
    BASELINE,
    PAIRS_SET,
    STATIC,
    TYPES,
    YEARS,
    count,
    number,
    places,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["all_checks", "recomputed_means"]

_LABELS = ("hateful", "nonhateful")


def all_checks() -> list[Check]:
    """Return all checks, in order of the tables; those of correlations are in ``coefficients``."""
    return [
        *_sizes(),
        *_means(),
        *_deviations(),
        *_pair_figures(),
        *_static_shares(),
        *_places(),
        *_claims(),
    ]


def _figures(row: Mapping[str, str], label: str) -> list[float]:
    return [float(row[f"{label}_{year}"]) for year in YEARS]


def recomputed_means() -> dict[str, float]:
    """Return the mean of the twelve figures of each row of Table 3: the time-sensitive macro F1."""
    return {
        name: statistics.fmean([value for label in _LABELS for value in _figures(row, label)])
        for name, row in table("3").items()
    }


def _sizes() -> list[Check]:
    """Table 2 against the released files: three sizes count the header as a row."""
    checks = []
    for name, row in table("2").items():
        published = number(row["Size"])
        if published is None:
            continue
        try:
            counted = count(name, "sentences")
        except KeyError:
            note = "the file is not among the released ones"
            checks.append(
                Check(
                    table="2", row=name, column="Size", published=published, recomputed=None,
                    verdict=NOT_DERIVABLE, note=note,
                )
            )  # fmt: skip
            continue
        note = "" if counted == published else "the header was counted as a row"
        checks.append(judged("2", name, "Size", published, counted, note))
    period = judged(
        "2", "Singapore Online Attacks", "Size in 2017-2022", 3000, count("Singapore Online Attacks", "2017-2022"),
        "54 of the 3000 sentences are from 2013 to 2016",
    )  # fmt: skip
    pairs = judged("text", PAIRS_SET, "Pairs", 341, count(PAIRS_SET, "pairs"), "the header was counted as a row")
    return [*checks, period, pairs]


def _means() -> list[Check]:
    means = recomputed_means()
    return [
        compared("3", name, "Mean", row["Mean"], means[name], "mean of the twelve figures of the row")
        for name, row in table("3").items()
    ]


def _deviations() -> list[Check]:
    checks = []
    for name, row in table("A1").items():
        for label, column in zip(_LABELS, row, strict=True):
            spread = statistics.pstdev(_figures(table("3")[name], label))
            checks.append(compared("A1", name, column, row[column], spread, "of the row of Table 3, ddof = 0"))
    return checks


def _pair_figures() -> list[Check]:
    """Tables 4 and A2 to A6: percentages of whole numbers of pairs, and sums over the linguistic types."""
    pairs = count(PAIRS_SET, "pairs")
    checks = []
    for name, row in table("4").items():
        if name == BASELINE:
            continue
        either = number(table("A6")[name]["Hal_s1,s2 (%)"])
        broken = 0 if either is None else round(either * pairs / 100)
        checks.append(
            share_of("4", name, "Label Flip (%)", row["Label Flip (%)"], pairs - broken, "pairs with two valid answers")
        )
        if not broken:
            checks.append(_sum_over_types("4", name, "Label Flip (%)", row["Label Flip (%)"], "A4"))
        if either is not None:
            halves = {"4": row["Hallucination (%)"]} | {"A6": table("A6")[name]["Hal_s2 (%)"]}
            checks.append(share_of("4", name, "Hallucination (%)", halves["4"], pairs, "pairs"))
            checks.append(_sum_over_types("4", name, "Hallucination (%)", halves["4"], "A5"))
            checks.append(share_of("A6", name, "Hal_s1,s2 (%)", table("A6")[name]["Hal_s1,s2 (%)"], pairs, "pairs"))
            checks.append(share_of("A6", name, "Hal_s2 (%)", halves["A6"], pairs, "pairs"))
            checks += _by_group("A3", name)
            checks += _by_group("A5", name)
        if not broken:
            checks += _by_group("A2", name)
            checks += _by_group("A4", name)
    return checks


def _by_group(key: str, name: str) -> list[Check]:
    return [
        share_of(key, name, column, text, count(PAIRS_SET, column), f"pairs of {column}")
        for column, text in table(key)[name].items()
        if number(text) is not None
    ]


def _sum_over_types(key: str, name: str, column: str, text: str, by_type: str) -> Check:
    parts = [
        round(float(table(by_type)[name][kind]) * count(PAIRS_SET, kind) / 100) for kind in TYPES
    ]  # fmt: skip
    share = 100 * sum(parts) / count(PAIRS_SET, "pairs")
    counts = " + ".join(map(str, parts))
    return compared(
        key, name, f"{column}, sum of {by_type}", text, share, f"{counts} = {sum(parts)} pairs by Table {by_type}"
    )


def _static_shares() -> list[Check]:
    """Tables A7 to A10: the percentage of valid answers is a whole number of the set's sentences."""
    sizes = {
        "HateCheck": count("HateCheck", "sentences"),
        "Dynabench": int(number(table("2")["Dynabench"]["Size"]) or 0),  # as published: its file was not released
        "HateXplain": count("HateXplain", "sentences"),
        "Implicit Hate": count("Implicit Hate Corpus", "sentences"),
    }
    column = "Expected Output (%)"
    return [
        share_of(key, name, column, row[column], sizes[dataset], "sentences")
        for dataset, key in STATIC.items()
        for name, row in table(key).items()
    ]


def _places() -> list[Check]:
    """The released rankings against the published scores they are said to come from; ties share their places."""
    scores = {
        dataset: {name: float(row["Macro F1"]) for name, row in table(key).items()} for dataset, key in STATIC.items()
    }
    scores["Experiment 1"] = {name: float(row["Mean"]) for name, row in table("3").items() if name != BASELINE}
    checks = []
    for column, known in scores.items():
        for place, name in enumerate(places()[column], 1):
            checks.append(_place(column, name, place, known, f"score {known[name]:.4f}"))
    return [*checks, *_flip_places()]


def _place(column: str, name: str, place: int, known: Mapping[str, float], note: str) -> Check:
    first = 1 + sum(value > known[name] for value in known.values())
    last = sum(value >= known[name] for value in known.values())
    return judged("released rankings", name, column, place, place if first <= place <= last else first, note)


def _flip_places() -> list[Check]:
    """Experiment 2's ranking: models with few flips stand at its end, but one with none stands first."""
    flips = {name: float(row["Label Flip (%)"]) for name, row in table("4").items() if name != BASELINE}
    order = places()["Experiment 2"]
    by_hand = set(order)
    for name in order:  # what is left is the run of models with flips below 1 % at the end
        if flips[name] >= 1:
            by_hand -= set(order[: order.index(name) + 1])
    others = {name: -flip for name, flip in flips.items() if name not in by_hand}
    checks = []
    for place, name in enumerate(order, 1):
        note = f"label flip {flips[name]:.2f} %"
        if name in by_hand:
            every = {other: -flip for other, flip in flips.items()}
            checks.append(_place("Experiment 2", name, place, every, f"{note}, yet put last"))
        else:
            note += ", and not put last" if flips[name] < 1 else ""
            checks.append(_place("Experiment 2", name, place, others, note))
    return checks


def _claims() -> list[Check]:
    """Sentences of the paper, and what two of its figures stand on."""
    either = [number(row["Hal_s1,s2 (%)"]) for row in table("A6").values()]
    above = sum(value is not None and value > 10 for value in either)
    exactly = sum(value == 10 for value in either)
    quiet = count(PAIRS_SET, "non-hateful pairs")
    hateful = count(PAIRS_SET, "pairs") - quiet
    respectful_f1 = 2 * quiet / (2 * quiet + hateful)  # of "always respectful": no misses, `hateful` false alarms
    share = table("A7")["DeepSeek LLM-7b"]["Expected Output (%)"]
    sentences = round(float(share) * count("HateCheck", "sentences") / 100)
    return [
        judged(
            "text", "models above 10 % (of 14)", "Hal_s1,s2 (%)", 5, above,
            f"Table A6 has {above} above 10 %, and {exactly} at exactly 10.00 %",
        ),
        compared(
            "4", "Moderation API", "Macro F1", table("4")["Moderation API"]["Macro F1"], respectful_f1 / 2,
            f"macro F1 of the answer 'respectful' to all: {quiet} of {quiet + hateful} pairs are non-hateful, so "
            "that a flip rate of 0 says nothing here",
        ),
        judged(
            "A7", "DeepSeek LLM-7b", "valid answers", sentences, sentences,
            f"{share} % of {count('HateCheck', 'sentences')}: its F1 stands on {sentences} sentences",
        ),
    ]  # fmt: skip
