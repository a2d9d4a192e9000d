"""The same numbers another way: scikit-learn and plain Python on the maker's own records, no Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.metrics import precision_recall_fscore_support

if TYPE_CHECKING:
    from collections.abc import Sequence

    from store_maker import Made

LABELS = ["toxic", "respectful"]
OTHER = {"toxic": "respectful", "respectful": "toxic"}


def sentence_metrics(
    golds: Sequence[str], outcomes: Sequence[str], texts: Sequence[str], policy: str
) -> dict[str, float | None]:
    """Return macro_f1, f1_hateful, f1_nonhateful, accuracy, balanced_accuracy by scikit-learn; None where undefined."""
    truth, said = [], []
    for gold, outcome, text in zip(golds, outcomes, texts, strict=True):
        if outcome in LABELS:
            truth.append(gold)
            said.append(outcome)
        elif policy == "best":
            truth.append(gold)
            said.append(gold)
        elif policy == "worst":
            truth.append(gold)
            said.append(OTHER[gold])
        elif outcome == "invalid" and policy in ("wrong", "class", "raw"):
            truth.append(gold)
            said.append(f"junk {text!r}" if policy == "raw" else "INVALID")
    classes = sorted({*LABELS, *said}) if policy in ("class", "raw") else LABELS
    if not truth:
        return dict.fromkeys(("f1_hateful", "f1_nonhateful", "macro_f1", "accuracy", "balanced_accuracy"))
    _, recalls, each, _ = precision_recall_fscore_support(truth, said, labels=classes, average=None, zero_division=0.0)
    f1, recall = (dict(zip(classes, map(float, values), strict=True)) for values in (each, recalls))
    both = set(truth) == set(LABELS)
    return {
        "f1_hateful": f1["toxic"] if "toxic" in truth else None,
        "f1_nonhateful": f1["respectful"] if "respectful" in truth else None,
        "macro_f1": sum(f1.values()) / len(classes) if both else None,
        "accuracy": sum(map(str.__eq__, truth, said)) / len(truth),
        "balanced_accuracy": (recall["toxic"] + recall["respectful"]) / 2 if both else None,
    }


def rows(made: Made, model: str, dataset: str) -> list[dict[str, Any]]:
    """Return one record per sentence: the sentence's fields, ``outcome`` and ``raw``."""
    raw = {p.sentence: p.raw_text or "" for p in made.predictions if p.model == model and p.dataset == dataset}
    return [
        {**vars(sentence), "outcome": outcome, "raw": raw.get(sentence.id, "")}
        for sentence, outcome in zip(made.datasets[dataset], made.outcome(model, dataset), strict=True)
    ]
