"""Experiment 2, pair by pair: the original beside the neologism, and what a model said to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from hatevolution.analysis.audit.readers import BROKEN
from hatevolution.analysis.audit.records import ANSWER_COLUMNS, ANSWER_FROM, AnswerRow, complete
from hatevolution.analysis.audit.selection import in_text, names_condition
from hatevolution.analysis.audit.words import Piece, differing_words
from hatevolution.store.text import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hatevolution.analysis.audit.store_view import StoreView

__all__ = ["CHANGES", "Change", "PairRow", "count_pairs", "pairs"]

Change = Literal["flip", "hallucination", "recovery", "both-broken", "same", "incomplete"]
CHANGES: Final[tuple[Change, ...]] = get_args(Change)
"""
- ``flip``: both answers are valid and differ (a label flip);
- ``hallucination``: valid for the original, broken for the neologism (v(s2) = 1 and v(s1) = 0, as published);
- ``recovery``: broken for the original, valid for the neologism;
- ``both-broken``, ``same``;
- ``incomplete``: one of the two was refused, rejected, or never asked.
"""

_BATCH: Final = 500


class PairRow(NamedTuple):
    """One pair, as one model answered it."""

    model: str
    dataset: str
    pair: str
    type: str | None
    year: int | None
    gold: str | None
    change: Change
    original_text: str
    neologism_text: str
    original: AnswerRow | None
    """None where the store has no answer."""
    neologism: AnswerRow | None

    @property
    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Both sentences, split where they differ."""
        return differing_words(self.original_text, self.neologism_text)

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, with the stretches that differ."""
        sides = self.pieces
        return {
            **self._asdict(),
            "original_pieces": [piece._asdict() for piece in sides[0]],
            "neologism_pieces": [piece._asdict() for piece in sides[1]],
            "original": None if self.original is None else self.original.as_json(),
            "neologism": None if self.neologism is None else self.neologism.as_json(),
        }


class _Ids(NamedTuple):
    pair: str
    type: str | None
    year: int | None
    gold: str | None
    original: str
    original_text: str
    neologism: str
    neologism_text: str


def pairs(view: StoreView, changes: Sequence[Change] | None = None) -> Iterator[PairRow]:
    """Yield the pairs of a selection by model, data set and place in the set.

    The selection's outcomes and kinds are met where either answer meets them, its search where either sentence or
    answer does.
    """
    wanted = view.connection.execute("SELECT dataset FROM datasets ORDER BY position").fetchall()
    datasets = [name for (name,) in wanted if view.selection.datasets is None or name in view.selection.datasets]
    for model in view.readers:
        for dataset in datasets:
            for batch in _ids(view, dataset):
                for row in _answered(view, model, dataset, batch):
                    if (changes is None or row.change in changes) and _selected(view, row):
                        yield row


def count_pairs(view: StoreView, changes: Sequence[Change] | None = None) -> int:
    """Return how many pairs :func:`pairs` yields; SQLite counts them where no answer has to be read for that."""
    selection = view.selection
    if (
        changes is not None
        or (selection.outcomes, selection.kinds, selection.statuses, selection.search) != (None,) * 4
    ):
        return sum(1 for _ in pairs(view, changes))
    models, datasets = names_condition("m.model", tuple(view.readers)), names_condition("a.dataset", selection.datasets)
    conditions = [part for part in (models, datasets) if part is not None]
    if view.sentences_chosen:
        conditions.append(("(a.dataset, a.sentence) IN (SELECT dataset, sentence FROM temp.chosen)", []))
    asked = (
        "EXISTS (SELECT 1 FROM predictions AS p WHERE p.model = m.model AND p.dataset = a.dataset AND p.sentence = {})"
    )
    row = view.connection.execute(
        "SELECT count(*) FROM sentences AS a JOIN sentences AS b ON b.dataset = a.dataset AND b.pair = a.pair "  # noqa: S608 - constants
        f"AND b.role = 'neologism' CROSS JOIN models AS m WHERE a.role = 'original' AND "
        f"({asked.format('a.sentence')} OR {asked.format('b.sentence')})"
        f"{''.join(f' AND {part}' for part, _ in conditions)}",
        [value for _, values in conditions for value in values],
    ).fetchone()
    return int(row[0])


def _ids(view: StoreView, dataset: str) -> Iterator[list[_Ids]]:
    chosen = (
        "AND (a.dataset, a.sentence) IN (SELECT dataset, sentence FROM temp.chosen)" if view.sentences_chosen else ""
    )
    rows = view.connection.execute(
        "SELECT a.pair, coalesce(b.type, a.type), coalesce(b.year, a.year), a.gold, a.sentence, a.text, b.sentence, "  # noqa: S608 - constants
        "b.text FROM sentences AS a JOIN sentences AS b ON b.dataset = a.dataset AND b.pair = a.pair "
        f"AND b.role = 'neologism' WHERE a.dataset = ? AND a.role = 'original' {chosen} ORDER BY a.position",
        [dataset],
    )
    while batch := rows.fetchmany(_BATCH):
        yield [_Ids._make((*row[:5], decode(row[5]), row[6], decode(row[7]))) for row in batch]


def _answered(view: StoreView, model: str, dataset: str, batch: list[_Ids]) -> Iterator[PairRow]:
    names = [name for ids in batch for name in (ids.original, ids.neologism)]
    rows = view.connection.execute(
        f"SELECT {ANSWER_COLUMNS} FROM predictions AS p {ANSWER_FROM} WHERE p.model = ? AND p.dataset = ? "  # noqa: S608 - constants
        f"AND p.sentence IN ({', '.join('?' * len(names))})",
        [model, dataset, *names],
    ).fetchall()
    if not rows:
        return  # this model was never asked about this set
    answers = {row.sentence: row for row in complete(view.readers, rows)}
    for ids in batch:
        first, second = answers.get(ids.original), answers.get(ids.neologism)
        if first is not None or second is not None:
            yield PairRow(
                model, dataset, *ids[:4], _change(first, second), ids.original_text, ids.neologism_text, first, second
            )


def _change(first: AnswerRow | None, second: AnswerRow | None) -> Change:
    if first is None or second is None or "answered" not in {first.status} & {second.status}:
        return "incomplete"
    broken = (first.outcome in BROKEN, second.outcome in BROKEN)
    if broken == (False, False):
        return "same" if first.outcome == second.outcome else "flip"
    return "both-broken" if all(broken) else "recovery" if broken[0] else "hallucination"


def _selected(view: StoreView, row: PairRow) -> bool:
    selection, answers = view.selection, [answer for answer in (row.original, row.neologism) if answer is not None]
    outcomes, kinds = selection.outcomes, selection.kinds
    if outcomes is not None and not any(answer.outcome in outcomes for answer in answers):
        return False
    if kinds is not None and not any(set(kinds) & set(answer.kinds) for answer in answers):
        return False
    if selection.statuses is not None and not any(answer.status in selection.statuses for answer in answers):
        return False
    if selection.search is None:
        return True
    texts = [row.original_text, row.neologism_text, *(answer.raw_text or "" for answer in answers)]
    return any(in_text(selection.search) in in_text(text) for text in texts)
