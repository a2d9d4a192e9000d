"""Which table of a store stands where in an export, and what its files and folders are called."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from hatevolution.store.tables import (
    ANSWER,
    DATASETS,
    FAILURES,
    INTENTS,
    KEY,
    MODELS,
    RESPONSES,
    RUNS,
    SENTENCES,
)

__all__ = ["CARD", "FORMAT", "MANIFEST", "TABLES", "VERSION", "Names", "Table", "split_name"]

FORMAT: Final = "hatevolution-store"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
CARD: Final = "README.md"


class Table(NamedTuple):
    """A table of the store in an export."""

    name: str
    columns: tuple[str, ...]
    folder: str
    """The folder of its files."""
    by: str
    """What it is split by: ``all`` (one set of files), ``dataset``, or ``cell`` (model and data set)."""


_JUDGED: Final = (*KEY, "judgement", "who", "judged_at")

# In an order in which what a row points at comes before the row.
TABLES: Final = {
    table.name: table
    for table in (
        Table("runs", RUNS, "store/runs", "all"),
        Table("models", MODELS, "store/models", "all"),
        Table("datasets", DATASETS, "store/datasets", "all"),
        Table("sentences", SENTENCES, "sentences", "dataset"),
        Table("responses", ("response", *RESPONSES), "responses", "cell"),
        Table("predictions", ANSWER, "answers", "cell"),
        Table(
            "second_answers",
            ("second_answer", *ANSWER, "agrees", "source", "noticed_at"),
            "store/second_answers",
            "all",
        ),
        Table("failures", ("failure", *FAILURES), "store/failures", "all"),
        Table("intents", ("intent", *INTENTS), "store/intents", "all"),
        Table("samples", ("sample", "seed", "size", "filters", "of", "made_at", "who"), "store/samples", "all"),
        Table("sampled", ("sample", "position", *KEY), "store/sampled", "all"),
        Table("verdicts", ("verdict", "sample", *_JUDGED), "store/verdicts", "all"),
        Table("second_verdicts", ("second_verdict", *_JUDGED, "run", "source"), "store/second_verdicts", "all"),
    )
}
"""By name."""

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 80


class Names:
    """Names of models or data sets -> names for folders and configurations, one to one.

    A name of letters, digits, ``.``, ``_`` and ``-`` stays as it is. Any other, and one that differs from an earlier
    one in case alone, gets a part of its checksum.
    """

    def __init__(self, *reserved: str) -> None:
        self._taken = {name.casefold() for name in reserved}
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the name to use; the same one each time."""
        if name not in self._known:
            plain = _PLAIN.sub("_", name).strip("._-")[:_LONGEST]
            if plain != name or plain.casefold() in self._taken:
                plain = f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
            self._taken.add(plain.casefold())
            self._known[name] = plain
        return self._known[name]


def split_name(folder: str, taken: set[str]) -> str:
    """Return the name of a split for a data set's folder: Hugging Face takes word characters only."""
    name = re.sub(r"\W", "_", folder)
    if name in taken:
        name = f"{name}_{hashlib.sha256(folder.encode()).hexdigest()[:8]}"
    taken.add(name)
    return name
