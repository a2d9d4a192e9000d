"""Answers that broke the instruction: how many of each kind, and a seeded sample of each."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from hatevolution.analysis.audit.records import ANSWER_COLUMNS, ANSWER_FROM, batches, complete, kinds_of
from hatevolution.analysis.audit.rules import KINDS
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.errors import StoreError
from hatevolution.store.text import decode, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hatevolution.analysis.audit.records import AnswerRow

__all__ = ["Broken", "KindRow", "broken"]

_MOST: Final = 1500
"""Samples on a page: with what is shown of each at most, some 3 MB."""

_ALIKE: Final = 300
"""Answers that begin with the same so many characters count as one when samples are drawn."""

_RAW: Final = 12
"""Place of the raw text in ``ANSWER_COLUMNS``."""

_FOUND: Final = (
    f"SELECT {ANSWER_COLUMNS}, p.rowid FROM temp.found AS f JOIN predictions AS p ON p.rowid = f.prediction "  # noqa: S608 - constants
    f"{ANSWER_FROM} ORDER BY f.model, f.dataset, f.prediction"
)
_ONE: Final = f"SELECT {ANSWER_COLUMNS} FROM predictions AS p {ANSWER_FROM} WHERE p.rowid = ?"  # noqa: S608 - constants


class KindRow(NamedTuple):
    """One kind over all models."""

    kind: str
    description: str
    answers: int
    models: int


class Broken(NamedTuple):
    """What a report says of broken answers."""

    counts: pl.DataFrame
    """Columns model, kind, count (answers by their first kind), answered (all answers of the model)."""
    kinds: tuple[KindRow, ...]
    """Those that occur, the most frequent first."""
    samples: tuple[AnswerRow, ...]
    """In the order of models, kinds and data sets."""
    wanted: int
    """Samples that were asked for, of which the page holds the first ones."""


def broken(
    path: Path | str,
    *,
    parser: str,
    models: Sequence[str] | None,
    datasets: Sequence[str] | None,
    answered: Mapping[str, int],
    samples: int,
    seed: int,
) -> Broken:
    """Count the kinds of broken answers of a store and draw samples.

    Args:
        path: The store.
        parser: Name or TOML path of a parse policy.
        models: Only these; None for all.
        datasets: Only these; None for all.
        answered: Model -> its answers, broken or not.
        samples: How many of each model and kind, different ones.
        seed: Of the draw.

    Raises:
        StoreError: The store can't be read.
        ConfigError: A name is not known.
    """
    selection = Selection(
        models=None if models is None else tuple(models),
        datasets=None if datasets is None else tuple(datasets),
        parser=parser,
    )
    tally = _Tally(samples, seed)
    with StoreView(path, selection) as view:
        view.find()
        try:
            for batch in batches(view.connection.execute(_FOUND), heavy=_RAW):
                tally.add(view, batch)
            drawn = tally.drawn()
            taken = [view.connection.execute(_ONE, [row]).fetchone() for row in drawn[:_MOST]]
            rows = [row for part in _parts(taken) for row in complete(view.readers, part)]
        except sqlite3.Error as error:
            raise StoreError(f"{path} can't be read: {error}.") from None
    return Broken(_counts(tally.primary, answered), _kinds(tally.primary), tuple(rows), len(drawn))


def _parts(rows: Sequence[tuple[Any, ...]], size: int = 100) -> list[Sequence[tuple[Any, ...]]]:
    """Split rows, each of which may hold a megabyte."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


class _Tally:
    """Counts of primary kinds, and for each model and kind the answers with the smallest pseudo-random numbers.

    Those are a simple random sample of the different answers (bottom-k sampling: E. Cohen and H. Kaplan, "Summarizing
    data using bottom-k sketches", PODC 2007), which another model or a larger sample does not change.
    """

    def __init__(self, samples: int, seed: int) -> None:
        self.primary: Counter[tuple[str, str]] = Counter()
        self._samples = samples
        self._seed = seed
        self._kept: dict[tuple[str, str], dict[str, tuple[bytes, int]]] = {}

    def add(self, view: StoreView, batch: Sequence[tuple[Any, ...]]) -> None:
        raw = ["" if row[_RAW] is None else visible(decode(row[_RAW])) for row in batch]
        for index, kinds in kinds_of(view.readers, batch, raw, range(len(batch))).items():
            model, dataset, sentence = batch[index][:3]
            self.primary[model, kinds[0]] += 1
            if self._samples:
                said = "\0".join((str(self._seed), model, dataset, sentence)).encode("utf-8", "surrogatepass")
                number = hashlib.blake2b(said, digest_size=16).digest()
                self._keep((model, kinds[0]), raw[index][:_ALIKE], number, batch[index][-1])

    def _keep(self, key: tuple[str, str], text: str, number: bytes, row: int) -> None:
        kept = self._kept.setdefault(key, {})
        if text in kept:
            kept[text] = min(kept[text], (number, row))
            return
        kept[text] = (number, row)
        if len(kept) > self._samples:
            del kept[max(kept, key=lambda other: kept[other])]

    def drawn(self) -> list[int]:
        """Return the row numbers of the sample, by model (in the order of the store) and kind."""
        order = [kind.name for kind in KINDS]
        models = list(dict.fromkeys(model for model, _ in self._kept))
        keys = sorted(self._kept, key=lambda key: (models.index(key[0]), order.index(key[1])))
        return [row for key in keys for _, row in sorted(self._kept[key].values())]


def _counts(primary: Counter[tuple[str, str]], answered: Mapping[str, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [(model, kind, number, answered[model]) for (model, kind), number in primary.items()],
        schema={"model": pl.String, "kind": pl.String, "count": pl.Int64, "answered": pl.Int64},
        orient="row",
    )


def _kinds(primary: Counter[tuple[str, str]]) -> tuple[KindRow, ...]:
    rows = []
    for kind in KINDS:
        own = [number for (_, name), number in primary.items() if name == kind.name]
        if own:
            rows.append(KindRow(kind.name, kind.description, sum(own), len(own)))
    return tuple(sorted(rows, key=lambda row: -row.answers))
