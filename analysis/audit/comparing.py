"""Where models disagree about a sentence, and where two parse policies read an answer differently."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from hatevolution.analysis.audit.readers import BROKEN, outcomes, readers
from hatevolution.analysis.audit.records import ANSWER_COLUMNS, AnswerRow, complete
from hatevolution.analysis.audit.selection import has_text
from hatevolution.analysis.columns import code
from hatevolution.store.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hatevolution.analysis.audit.store_view import StoreView

__all__ = ["Differing", "Disagreement", "TwoReadings", "count_disagreements", "disagreements"]

_BATCH: Final = 500
_SENTENCES: Final = (32, 1_024)
"""Sentences whose answers are read at a time, at first and at most: a page is there long before the whole is read."""


class Disagreement(NamedTuple):
    """A sentence to which some models said toxic and others respectful."""

    dataset: str
    sentence: str
    text: str
    gold: str | None
    toxic: tuple[str, ...]
    respectful: tuple[str, ...]
    broken: tuple[str, ...]
    answers: tuple[AnswerRow, ...]
    """Of all the models that were asked, in the store's order."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**self._asdict(), "answers": [answer.as_json() for answer in self.answers]}


def disagreements(view: StoreView) -> Iterator[Disagreement]:
    """Yield the sentences of a selection on whose label its models disagree, by data set and place in it."""
    known = view.connection.execute("SELECT dataset FROM datasets ORDER BY position").fetchall()
    for (dataset,) in known:
        if view.selection.datasets is not None and dataset not in view.selection.datasets:
            continue
        batch: list[tuple[Any, ...]] = []
        sentences, size = 0, _SENTENCES[0]
        for _, rows in groupby(_by_sentence(view, dataset), key=lambda row: row[2]):
            batch += rows
            sentences += 1
            if sentences == size:
                yield from _disagreeing(complete(view.readers, batch))
                batch, sentences, size = [], 0, min(2 * size, _SENTENCES[1])
        if batch:
            yield from _disagreeing(complete(view.readers, batch))


def count_disagreements(view: StoreView) -> int:
    """Return how many sentences :func:`disagreements` yields.

    By the frames of the scores, which read the whole store in a fraction of the time that its answers, with all that
    stands beside them, would take.
    """
    from hatevolution.analysis.frames import load

    selection = view.selection
    study = load(view.path, parser=selection.parser, models=selection.models, datasets=selection.datasets)
    count = 0
    for item in study.datasets:
        found = study.outcomes(item.name)
        both = (found == code("toxic")).any(axis=0) & (found == code("respectful")).any(axis=0)
        names = study.of(item.name)["sentence"].filter(pl.Series(both))
        chosen = _chosen(view, item.name)
        count += len(names) if chosen is None else sum(name in chosen for name in names)
    return count


def _chosen(view: StoreView, dataset: str) -> set[str] | None:
    """Return the sentences of a set that the selection has; None for all."""
    conditions, values = _of_sentences(view)
    if not conditions:
        return None
    query = f"SELECT s.sentence FROM sentences AS s WHERE {' AND '.join(['s.dataset = ?', *conditions])}"  # noqa: S608 - constants
    return {name for (name,) in view.connection.execute(query, [dataset, *values])}


def _of_sentences(view: StoreView) -> tuple[list[str], list[str | bytes]]:
    """Return the conditions on sentences ``s``, and the values in them."""
    conditions: list[str] = []
    values: list[str | bytes] = []
    if view.sentences_chosen:
        conditions.append("(s.dataset, s.sentence) IN (SELECT dataset, sentence FROM temp.chosen)")
    if view.selection.search is not None:
        condition, value = has_text(view.selection.search, "s.text")
        conditions.append(condition)
        values.append(value)
    return conditions, values


def _by_sentence(view: StoreView, dataset: str) -> Iterator[tuple[Any, ...]]:
    conditions: list[str] = ["s.dataset = ?"]
    values: list[str | bytes] = [dataset]
    if view.selection.models is not None:
        conditions.append(f"m.model IN ({', '.join('?' * len(view.selection.models))})")
        values += view.selection.models
    more, more_values = _of_sentences(view)
    conditions += more
    values += more_values
    # In this order of loops the sentences come by position without a sort, so the first page needs no full read.
    return view.connection.execute(
        f"SELECT {ANSWER_COLUMNS} FROM sentences AS s CROSS JOIN models AS m CROSS JOIN predictions AS p "  # noqa: S608 - constants
        "ON p.model = m.model AND p.dataset = s.dataset AND p.sentence = s.sentence "
        f"LEFT JOIN responses AS r ON r.response = p.response WHERE {' AND '.join(conditions)} ORDER BY s.position",
        values,
    )


def _disagreeing(answers: Sequence[AnswerRow]) -> Iterator[Disagreement]:
    for sentence, group in groupby(answers, key=lambda row: row.sentence):
        rows = tuple(group)
        said = {
            outcome: tuple(row.model for row in rows if row.outcome in outcome)
            for outcome in (("toxic",), ("respectful",), BROKEN)
        }
        toxic, respectful, broken = said.values()
        if toxic and respectful:
            yield Disagreement(rows[0].dataset, sentence, rows[0].text, rows[0].gold, toxic, respectful, broken, rows)


class TwoReadings(NamedTuple):
    """An answer that two parse policies read differently."""

    first_policy: str
    first_outcome: str
    second_policy: str
    second_outcome: str
    answer: AnswerRow

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**self._asdict(), "answer": self.answer.as_json()}


class Differing:
    """The answers of a view that its own policy and another one read differently.

    A policy for free text says nothing about classifiers, and the other way round: there both are the model's own.

    Args:
        view: Its selection's parser is the first policy; ``parsed`` and ``kinds`` of the selection do not matter.
        second: Name or TOML path of the other one.
    """

    def __init__(self, view: StoreView, second: str) -> None:
        self.view = view
        self._second = readers(view.connection, second, view.selection.models)
        view.find(self._differ)

    def _differ(self, *columns: Sequence[str]) -> list[bool]:
        # invalid and ambiguous are both "no label": to tell one from the other changes no number.
        first, second = (
            [None if outcome in BROKEN else outcome for outcome in outcomes(known, *columns)]
            for known in (self.view.readers, self._second)
        )
        return [one != other for one, other in zip(first, second, strict=True)]

    def rows(self, offset: int = 0, limit: int | None = None) -> Iterator[TwoReadings]:
        """Yield them in the store's order."""
        rows = self.view.rows(offset, limit)
        while batch := list(islice(rows, _BATCH)):
            judged = outcomes(
                self._second,
                [row.model for row in batch],
                [visible(row.raw_text or "") for row in batch],
                [row.scores or "" for row in batch],
            )
            for row, outcome in zip(batch, judged, strict=True):
                yield TwoReadings(row.policy, row.outcome, self._second[row.model].policy.identity, outcome, row)
