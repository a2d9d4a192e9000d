"""What a section of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hatevolution.analysis.report_page.figures import Figure
    from hatevolution.analysis.report_page.foreign import Shown
    from hatevolution.analysis.report_page.tables import PageTable

__all__ = ["Fact", "Sample", "Samples", "Section", "Text"]


class Fact(NamedTuple):
    """A number worth seeing first."""

    name: str
    value: str
    more: str = ""


class Text(NamedTuple):
    """A long text that is folded away."""

    title: str
    text: str
    note: str = ""


class Sample(NamedTuple):
    """One broken answer, ready to be shown."""

    model: str
    dataset: str
    sentence: str
    kind: str
    kinds: tuple[str, ...]
    gold: str | None
    finish_reason: str | None
    text: Shown
    answer: Shown | None
    """None where the endpoint gives scores and no text."""
    scores: str


class Samples(NamedTuple):
    """Samples of broken answers."""

    rows: tuple[Sample, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section."""

    id: str
    title: str
    intro: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Smaller, and below the facts."""
    facts: tuple[Fact, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[PageTable, ...] = ()
    samples: Samples | None = None
    texts: tuple[Text, ...] = ()
