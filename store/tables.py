"""Which columns a store's tables have, for statements that carry whole rows. A test holds them against the schema."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANSWER",
    "CONTENT",
    "DATASETS",
    "FAILURES",
    "INTENTS",
    "KEY",
    "MODELS",
    "RESPONSES",
    "RUNS",
    "SAID",
    "SENTENCES",
    "agree",
    "has_table",
    "names",
    "same",
]

import sqlite3  # noqa: TC003 - in a public signature

Columns = tuple[str, ...]

KEY: Final[Columns] = ("model", "dataset", "sentence")
SAID: Final[Columns] = ("status", "raw_text", "scores")
"""What an answer says."""
CONTENT: Final[Columns] = (
    *SAID,
    "finish_reason",
    "prompt_sha256",
    "prompt_tokens",
    "completion_tokens",
    "truncated",
    "attempts",
)
ANSWER: Final[Columns] = (*KEY, *CONTENT, "run", "response", "response_index")
"""A prediction, in an order of its own."""
RUNS: Final[Columns] = (
    "run",
    "started_at",
    "ended_at",
    "outcome",
    "who",
    "command",
    "configuration",
    "versions",
    "git_revision",
    "note",
)
MODELS: Final[Columns] = ("model", "position", "title", "fingerprint", "specification", "configuration", "run")
DATASETS: Final[Columns] = (
    "dataset",
    "position",
    "title",
    "source",
    "licence",
    "files",
    "loader",
    "sentences",
    "content_sha256",
    "run",
)
SENTENCES: Final[Columns] = (
    "dataset",
    "position",
    "sentence",
    "text",
    "gold",
    "gold_raw",
    "year",
    "pair",
    "role",
    "type",
    "functionality",
    "target",
    "meta",
)
RESPONSES: Final[Columns] = (
    "run",
    "received_at",
    "latency_s",
    "base_url",
    "http_status",
    "request_id",
    "served_model",
    "system_fingerprint",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "body",
)
"""Without ``response``, its number in one store."""
FAILURES: Final[Columns] = (
    *KEY,
    "run",
    "failed_at",
    "attempt",
    "kind",
    "http_status",
    "code",
    "message",
    "body",
    "request_id",
    "base_url",
    "latency_s",
    "maybe_billed",
)
"""Without ``failure``, its number in one store."""
INTENTS: Final[Columns] = ("run", "model", "dataset", "sentences", "at")


def names(columns: Columns, alias: str = "") -> str:
    """Return columns as they stand in a statement: ``p.model, p.dataset``."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{name}" for name in columns)


def same(columns: Columns, one: str, other: str) -> str:
    """Return the condition that two rows are the same in these columns, null being the same as null."""
    return " AND ".join(f"{one}.{name} IS {other}.{name}" for name in columns)


def agree(one: str, other: str) -> str:
    """Return the condition that two answers say the same, and not to prompts that are known to be different."""
    prompts = [f"coalesce({a}.prompt_sha256, {b}.prompt_sha256)" for a, b in ((one, other), (other, one))]
    return f"{same(SAID, one, other)} AND {prompts[0]} IS {prompts[1]}"


def has_table(connection: sqlite3.Connection, schema: str, table: str) -> bool:
    """Return whether a database that is open or attached has a table; older stores lack the newer ones."""
    statement = f"SELECT count(*) FROM {schema}.sqlite_master WHERE name = ? AND type = 'table'"  # noqa: S608 - constants only
    return bool(connection.execute(statement, [table]).fetchone()[0])
