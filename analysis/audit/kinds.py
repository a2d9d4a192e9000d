"""How many broken answers there are of each kind, per model and data set, with examples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.analysis.audit.records import ANSWER_COLUMNS, ANSWER_FROM, AnswerRow, batches, kinds_of, text_of
from hatevolution.analysis.audit.rules import KINDS
from hatevolution.errors import StoreError

if TYPE_CHECKING:
    from hatevolution.analysis.audit.store_view import StoreView

__all__ = ["KindCount", "count_kinds"]

_EXAMPLE_LENGTH: Final = 300
"""Longer answers are examples only where there is none shorter."""


class KindCount(NamedTuple):
    """Broken answers of one kind, of one model about one data set."""

    model: str
    dataset: str
    kind: str
    version: int
    primary: int
    """Answers whose first kind this is; over the kinds of a cell they add up to ``broken``."""
    of_kind: int
    """Answers that are of this kind, among others perhaps."""
    broken: int
    """Broken answers in the cell."""
    answered: int
    """All answers in the cell (within the filters on sentences that the selection has, kinds and search aside)."""
    examples: tuple[AnswerRow, ...]
    """Different answers whose first kind this is, the first ones of the set."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**self._asdict(), "examples": [example.as_json() for example in self.examples]}


def count_kinds(view: StoreView, examples: int = 3) -> list[KindCount]:
    """Count the kinds of what a selection finds, in the order of models, data sets and precedence.

    Args:
        view: Its selection takes broken answers.
        examples: How many examples to keep of each kind in each cell.
    """
    firsts: Counter[tuple[str, str, str]] = Counter()
    members: Counter[tuple[str, str, str]] = Counter()
    samples: dict[tuple[str, str, str], dict[Any, str]] = {}
    cells = view.find()
    for batch in batches(_found(view), heavy=12):
        raw = [text_of(row[12]) for row in batch]
        for index, kinds in kinds_of(view.readers, batch, raw, range(len(batch))).items():
            model, dataset, sentence = batch[index][:3]
            firsts[model, dataset, kinds[0]] += 1
            members.update((model, dataset, kind) for kind in kinds)
            kept = samples.setdefault((model, dataset, kinds[0]), {})
            text = raw[index][:_EXAMPLE_LENGTH]
            if len(kept) < examples and text not in kept and (len(text) < _EXAMPLE_LENGTH or not kept):
                kept[text] = sentence
    answered = _answered(view)
    shown = view.rows_by_key((*key[:2], sentence) for key, kept in samples.items() for sentence in kept.values())
    found = []
    for cell in cells:
        for kind in KINDS:
            key = (cell.model, cell.dataset, kind.name)
            if members[key]:
                rows = tuple(shown[*key[:2], sentence] for sentence in samples.get(key, {}).values())
                total = answered[cell.model, cell.dataset]
                found.append(KindCount(*key, kind.version, firsts[key], members[key], cell.answers, total, rows))
    return found


def _found(view: StoreView) -> Any:
    return view.connection.execute(
        f"SELECT {ANSWER_COLUMNS} FROM temp.found AS f JOIN predictions AS p ON p.rowid = f.prediction "  # noqa: S608 - constants
        f"{ANSWER_FROM} ORDER BY f.model, f.dataset, f.prediction"
    )


def _answered(view: StoreView) -> Counter[tuple[str, str]]:
    chosen = "AND (dataset, sentence) IN (SELECT dataset, sentence FROM temp.chosen)" if view.sentences_chosen else ""
    try:
        rows = view.connection.execute(
            f"SELECT model, dataset, count(*) FROM predictions WHERE status = 'answered' {chosen} GROUP BY 1, 2"  # noqa: S608 - constants
        )
        return Counter({(model, dataset): count for model, dataset, count in rows})
    except view.connection.Error as error:
        raise StoreError(f"{view.path} can't be read: {error}.") from None
