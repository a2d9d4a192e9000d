"""What is in a data set: read whole, counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.datasets.agreement import Agreement, annotator_agreement
from hatevolution.domain import Label, Role

if TYPE_CHECKING:
    from hatevolution.adapters.datasets.located import LocatedDataset

__all__ = ["Summary", "summarise"]


class Summary(NamedTuple):
    """Counts of sentences; every row was read and checked."""

    sentences: int
    pairs: int
    toxic: int
    respectful: int
    unlabelled: int
    years: dict[int, int]
    """Year -> sentences, sorted; empty for a set without years."""
    without_year: int
    """Sentences without one, in a set that has years."""
    functionalities: int
    empty: int
    """Sentences without a text, or of blanks alone: there is nothing to classify in them."""
    first_empty: str | None
    """Id of the first of them."""
    agreement: Agreement | None
    """Of the annotators of pairs; None for other sets."""


def summarise(located: LocatedDataset) -> Summary:
    """Read a data set to its end, which also completes its warnings.

    Raises:
        DataError: A row holds what it may not hold.
    """
    labels: Counter[Label | None] = Counter()
    years: Counter[int] = Counter()
    functionalities, pairs = set(), set()
    empty: list[str] = []
    annotators = located.layout.columns.annotators
    votes: list[tuple[str, ...]] = []
    for sentence in located.sentences():
        labels[sentence.gold] += 1
        if not sentence.text.strip():
            empty.append(sentence.id)
        if sentence.year is not None:
            years[sentence.year] += 1
        functionalities.add(sentence.functionality)
        pairs.add(sentence.pair)
        if annotators and sentence.role is Role.ORIGINAL:  # both sentences of a pair carry its votes
            votes.append(tuple(sentence.meta[name] for name in annotators))
    return Summary(
        sentences=labels.total(),
        pairs=len(pairs - {None}),
        toxic=labels[Label.TOXIC],
        respectful=labels[Label.RESPECTFUL],
        unlabelled=labels[None],
        years=dict(sorted(years.items())),
        without_year=labels.total() - years.total() if years else 0,
        functionalities=len(functionalities - {None}),
        empty=len(empty),
        first_empty=empty[0] if empty else None,
        agreement=annotator_agreement(votes) if len(annotators) > 1 else None,
    )
