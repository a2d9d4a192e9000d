"""Answers to a key that has its answer already: kept whole beside it, never instead of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hatevolution.store.rows import PREDICTION_COLUMNS, insert_rows
from hatevolution.store.tables import KEY, SAID, agree
from hatevolution.store.text import encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

__all__ = ["keep_second"]


def keep_second(connection: sqlite3.Connection, prediction: Sequence[Any], *, source: str, noticed_at: str) -> None:
    """Keep an answer among the second answers; the caller holds the transaction and has stored its response.

    Args:
        connection: The writer's.
        prediction: A row of :attr:`hatevolution.store.rows.Tables.predictions` whose key has its prediction.
        source: Where it came from.
        noticed_at: ISO 8601, UTC.
    """
    row = dict(zip(PREDICTION_COLUMNS, prediction, strict=True))
    columns = f"{', '.join(row)}, agrees, source, noticed_at"
    insert_rows(
        connection, "second_answers", columns, "", [(*row.values(), _agrees(connection, row), source, noticed_at)]
    )


def _agrees(connection: sqlite3.Connection, row: dict[str, Any]) -> bool:
    """Return whether an answer says what the first one of its key says."""
    given = ", ".join(f":{name} AS {name}" for name in (*KEY, *SAID, "prompt_sha256"))
    key = " AND ".join(f"p.{name} = q.{name}" for name in KEY)
    found = connection.execute(
        f"SELECT {agree('p', 'q')} FROM (SELECT {given}) AS q JOIN predictions AS p ON {key}",  # noqa: S608 - constants only
        {name: encode(value) if isinstance(value, str) else value for name, value in row.items()},
    ).fetchone()
    return bool(found[0])
