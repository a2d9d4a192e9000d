"""Who answered under a name, and when: what the endpoint said it served, and what was asked of it."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.configs.fingerprint import differences
from hatevolution.errors import StoreError
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["DRIFT_SERVED", "asked_differently", "served"]

DRIFT_SERVED: Final = {
    "model": pl.String,
    "served_model": pl.String,  # null: the endpoint did not say
    "fingerprints": pl.String,  # the endpoint's own, separated by blanks
    "answers": pl.Int64,
    "first": pl.String,  # ISO 8601, UTC
    "last": pl.String,
}


def served(store: Path | str, models: Sequence[str], datasets: Sequence[str]) -> pl.DataFrame:
    """Return what answered under each name, by the endpoint's own words, with the times of first and last answer.

    Args:
        store: Its path.
        models: The names.
        datasets: Only answers about sentences of these.

    Returns:
        Columns ``DRIFT_SERVED``, in the order of the names and of the times.

    Raises:
        StoreError: The store can't be read.
    """
    query = (
        "SELECT p.model, r.served_model, group_concat(DISTINCT r.system_fingerprint), count(*), min(r.received_at), "  # noqa: S608 - question marks
        "max(r.received_at) FROM predictions AS p LEFT JOIN responses AS r ON r.response = p.response "
        f"WHERE p.model = ? AND p.dataset IN ({', '.join('?' * len(datasets))}) "
        "GROUP BY r.served_model ORDER BY min(r.received_at)"
    )
    try:
        connection = connect(store)
        try:
            rows = [row for name in models for row in connection.execute(query, [name, *datasets])]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreError(f"{store} can't be read: {error}.") from None
    return pl.DataFrame(
        [(model, name, None if prints is None else " ".join(sorted(prints.split(","))), *rest)
         for model, name, prints, *rest in rows],
        schema=DRIFT_SERVED,
        orient="row",
    )  # fmt: skip


def asked_differently(store: Path | str, old: str, new: str) -> list[str]:
    """Return the fields in which what was asked under two names differs, each as ``field: old -> new``.

    Raises:
        StoreError: The store can't be read.
    """
    try:
        connection = connect(store)
        try:
            found = dict(
                connection.execute("SELECT model, specification FROM models WHERE model IN (?, ?)", [old, new])
            )
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreError(f"{store} can't be read: {error}.") from None
    return differences(json.loads(found[old]), json.loads(found[new]))
