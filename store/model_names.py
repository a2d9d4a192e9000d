"""What a model's name stands for in a store, and from when on.

A name is pinned to its specification by the first trace of a request under it: an answer, a failure that may have been
billed, an intent that is open, a batch. Before that a changed specification takes the registered one's place: nothing
was asked under the old one, so that nothing can be taken for an answer of the new one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.configs.fingerprint import differences, fingerprint
from hatevolution.errors import StoreError
from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from hatevolution.store.opened import ModelRecord

__all__ = ["Standing", "standing"]

_TRACES = {
    "predictions": "",
    "failures": " AND maybe_billed",
    "intents": "",
    "batches": "",
    "second_answers": "",
}
"""Tables with a column ``model``, and which of their rows pin it. Of batches all do: a late output is still taken."""


class Standing(NamedTuple):
    """How a model that is asked for stands to what a store has under its name."""

    known: bool
    """Whether the store has the name."""
    changed: str = ""
    """In which fields the stored specification differs, under which nothing was asked; empty where it is the same."""


def standing(connection: sqlite3.Connection, path: Path, record: ModelRecord) -> Standing:
    """Return how a model stands to what a store has under its name.

    Raises:
        StoreError: The name is pinned to another specification; the text names the fields that differ.
    """
    row = connection.execute("SELECT fingerprint, specification FROM models WHERE model = ?", [record.name]).fetchone()
    if row is None:
        return Standing(known=False)
    if row[0] == fingerprint(record.specification):
        return Standing(known=True)
    # Both from JSON: a tuple that became a list there is no difference.
    asked = json.loads(json.dumps(record.specification))
    changed = "; ".join(differences(json.loads(row[1]), asked))
    if not _pinned(connection, record.name):
        return Standing(known=True, changed=changed)
    raise StoreError(
        f"The store {path} holds answers (or requests that may have been answered) of another specification under the "
        f"model name {record.name!r} ({changed}); give the changed model a new name (such as {record.name + '-2'!r}), "
        f"or use another --store."
    )


def _pinned(connection: sqlite3.Connection, model: str) -> bool:
    return any(
        connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE model = ?{which})", [model]).fetchone()[0]  # noqa: S608 - constants only
        for table, which in _TRACES.items()
        if has_table(connection, "main", table)
    )
