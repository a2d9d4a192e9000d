"""The statements of an export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hatevolution.store.tables import ANSWER, RESPONSES, RUNS, names
from hatevolution.store.tables import SENTENCES as SENTENCE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hatevolution.store.exchange.layout import Table

# Everything put into these texts is a constant of this program.
# ruff: noqa: S608

SENTENCES: Final = f"SELECT {names(SENTENCE_COLUMNS)} FROM sentences WHERE dataset = :dataset ORDER BY position"
ANSWERS: Final = (
    f"SELECT {names(ANSWER, 'p')}, s.text, s.gold FROM sentences AS s "
    "JOIN predictions AS p ON p.model = :model AND p.dataset = s.dataset AND p.sentence = s.sentence "
    "WHERE s.dataset = :dataset ORDER BY s.position"
)
ANY_ANSWER: Final = "SELECT 1 FROM predictions WHERE model = :model AND dataset = :dataset LIMIT 1"
ABOUT_MODEL: Final = "SELECT fingerprint, specification FROM models WHERE model = ?"
ABOUT_DATASET: Final = (
    "SELECT content_sha256, sentences, source, licence, files, loader FROM datasets WHERE dataset = ?"
)
VERSIONS: Final = (
    "SELECT versions FROM runs WHERE run IN (SELECT DISTINCT run FROM predictions WHERE model = ? AND dataset = ?) "
    "ORDER BY rowid"
)
LICENCES: Final = "SELECT dataset, licence, source FROM datasets ORDER BY position"

_ROWS: Final = f"SELECT response, {names(RESPONSES)} FROM responses"


def responses(second: bool) -> str:
    """Return the search for the responses that a model's answers to a set came in."""
    tables = ("predictions", "second_answers") if second else ("predictions",)
    parts = [f"SELECT response FROM {table} WHERE model = :model AND dataset = :dataset" for table in tables]
    return f"{_ROWS} WHERE response IN ({' UNION ALL '.join(parts)}) ORDER BY response"


def orphans(second: bool) -> str:
    """Return the search for the responses that no answer points at."""
    tables = ("predictions", "second_answers") if second else ("predictions",)
    parts = [f"SELECT response FROM {table} WHERE response IS NOT NULL" for table in tables]
    return f"{_ROWS} WHERE response NOT IN ({' UNION ALL '.join(parts)}) ORDER BY response"


def runs(chosen: Collection[str] | None) -> tuple[str, dict[str, Any]]:
    """Return the search for runs; None for all."""
    if chosen is None:
        return f"SELECT {names(RUNS)} FROM runs ORDER BY rowid", {}
    return (
        f"SELECT {names(RUNS)} FROM runs WHERE run IN (SELECT value FROM json_each(:runs)) ORDER BY rowid",
        {"runs": json.dumps(sorted(chosen))},
    )


def selected(table: Table, models: Sequence[str], datasets: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the search for the rows of a table that are about the chosen models and data sets."""
    columns = ", ".join(f'"{name}"' for name in table.columns)
    order = "position" if table.name in ("models", "datasets") else "rowid"
    if table.name == "sampled":
        order = "sample, position"
    conditions = [
        f"{name} IN (SELECT value FROM json_each(:{name}s))" for name in ("model", "dataset") if name in table.columns
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    values = {"models": json.dumps(list(models)), "datasets": json.dumps(list(datasets))}
    return f"SELECT {columns} FROM {table.name}{where} ORDER BY {order}", values
