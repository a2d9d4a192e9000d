"""The broken answers of a store as a SQLite file of their own, so that people can filter them by kind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.audit.flat import ANSWER, flat_answers
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.store.text import encode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_broken"]

_BATCH: Final = 2_000
_INDEXED: Final = ("model", "dataset", "kind")


def write_broken(store: Path, parser: str, target: Path) -> int:
    """Write the broken answers of a store into a new file with the table ``answers`` and return their number.

    Raises:
        StoreError: The store can't be read.
        ConfigError: There is no such parse policy.
    """
    types = {pl.String: "ANY", pl.Int64: "INTEGER", pl.Boolean: "INTEGER"}
    columns = ", ".join(f'"{name}" {types[dtype]}' for name, dtype in ANSWER.items())
    count = 0
    with closing(sqlite3.connect(target)) as connection, StoreView(store, Selection(parser=parser)) as view:
        connection.execute(f"CREATE TABLE answers ({columns}, PRIMARY KEY (model, dataset, sentence)) STRICT")
        rows = flat_answers(view.rows())
        while batch := list(islice(rows, _BATCH)):
            values = [
                [encode(row[name]) if isinstance(row[name], str) else row[name] for name in ANSWER] for row in batch
            ]
            connection.executemany(f"INSERT INTO answers VALUES ({', '.join('?' * len(ANSWER))})", values)  # noqa: S608 - question marks
            count += len(batch)
        for name in _INDEXED:
            connection.execute(f"CREATE INDEX answers_{name} ON answers ({name})")
        connection.commit()
    return count
