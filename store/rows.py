"""What happened, as rows: answers, failures and intents on their way into a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hatevolution.store.text import encode, encode_body, visible

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from hatevolution.domain import Item, Reply

__all__ = [
    "PREDICTION_COLUMNS",
    "AnswerRecord",
    "FailureRecord",
    "IntentRecord",
    "Tables",
    "insert_rows",
    "salvaged",
    "without_nulls",
]


class AnswerRecord(NamedTuple):
    """One reply and the sentences it answers."""

    model: str
    items: Sequence[Item]
    reply: Reply
    attempts: int
    base_url: str
    received_at: str
    latency_s: float
    cost_usd: float | None


class FailureRecord(NamedTuple):
    """One failed attempt, for each of the sentences it carried."""

    model: str
    items: Sequence[Item]
    attempt: int
    kind: str
    message: str
    http_status: int | None
    code: str | None
    body: str | None
    request_id: str | None
    base_url: str
    failed_at: str
    latency_s: float | None
    """None where there is no such thing (a line of a batch)."""
    maybe_billed: bool


def salvaged(record: AnswerRecord, error: Exception) -> FailureRecord:
    """Return the failure that an answer becomes when SQLite can't hold it (a count beyond 64 bits, say)."""
    body = record.reply.body
    return FailureRecord(
        model=record.model,
        items=record.items,
        attempt=record.attempts,
        kind="malformed",
        message=f"the reply can't be stored as an answer: {type(error).__name__}: {error}",
        http_status=record.reply.http_status,
        code=None,
        body=body if isinstance(body, str) else body.decode("utf-8", "surrogateescape"),
        request_id=record.reply.request_id,
        base_url=record.base_url,
        failed_at=record.received_at,
        latency_s=record.latency_s,
        maybe_billed=True,
    )


class IntentRecord(NamedTuple):
    """Sentences that are about to be sent."""

    intent: int
    model: str
    dataset: str
    sentences: Sequence[str]
    at: str


_RESPONSES = (
    "responses",
    "response, run, received_at, latency_s, base_url, http_status, request_id, served_model, system_fingerprint, "
    "prompt_tokens, completion_tokens, cost_usd, body",
    "",
)
_PREDICTIONS = (
    "predictions",
    "model, dataset, sentence, status, raw_text, scores, finish_reason, prompt_sha256, prompt_tokens, "
    "completion_tokens, truncated, attempts, run, response, response_index",
    # The first answer stays, whatever happens; a second one is still kept whole among the responses.
    " ON CONFLICT (model, dataset, sentence) DO NOTHING",
)
PREDICTION_COLUMNS = tuple(_PREDICTIONS[1].split(", "))
"""What the rows of :attr:`Tables.predictions` hold."""
_FAILURES = (
    "failures",
    "model, dataset, sentence, run, failed_at, attempt, kind, http_status, code, message, body, request_id, "
    "base_url, latency_s, maybe_billed",
    "",
)
_INTENTS = ("intents", "intent, run, model, dataset, sentences, at", "")

Row = tuple[Any, ...]


def _name(text: str | None) -> str | None:
    """Return an endpoint's word for a TEXT column, which holds valid Unicode alone; the body has it as it came."""
    return text if text is None or text.isascii() else visible(text)


class Tables:
    """Rows of one commit, by table."""

    def __init__(self, run: str) -> None:
        self._run = run
        self.responses: list[Row] = []
        self.predictions: list[Row] = []
        self.failures: list[Row] = []
        self.intents: list[Row] = []
        self.settled: list[tuple[int]] = []

    def answer(self, response: int, record: AnswerRecord) -> None:
        """Add a reply and its answers."""
        reply, run = record.reply, self._run
        self.responses.append(
            (
                response,
                run,
                record.received_at,
                record.latency_s,
                record.base_url,
                reply.http_status,
                _name(reply.request_id),
                _name(reply.served_model),
                _name(reply.system_fingerprint),
                reply.prompt_tokens,
                reply.completion_tokens,
                record.cost_usd,
                encode_body(reply.body),
            )
        )
        model, attempts, add = record.model, record.attempts, self.predictions.append
        for index, (item, answer) in enumerate(zip(record.items, reply.answers, strict=True)):
            scores = answer.scores
            add(
                (
                    model,
                    item.dataset,
                    item.sentence,
                    answer.status.value,
                    answer.raw_text,
                    None if scores is None else json.dumps(scores),
                    _name(answer.finish_reason),
                    answer.prompt_sha256,
                    answer.prompt_tokens,
                    answer.completion_tokens,
                    int(answer.truncated),
                    attempts,
                    run,
                    response,
                    index,
                )
            )

    def failure(self, record: FailureRecord) -> None:
        """Add a failed attempt, once for each sentence that it carried."""
        for item in record.items:
            self.failures.append(
                (
                    record.model,
                    item.dataset,
                    item.sentence,
                    self._run,
                    record.failed_at,
                    record.attempt,
                    record.kind,
                    record.http_status,
                    _name(record.code),
                    record.message,
                    record.body,
                    _name(record.request_id),
                    record.base_url,
                    record.latency_s,
                    record.maybe_billed,
                )
            )

    def intent(self, record: IntentRecord) -> None:
        """Add what is about to be sent."""
        sentences = json.dumps(list(record.sentences), separators=(",", ":"))
        self.intents.append((record.intent, self._run, record.model, record.dataset, sentences, record.at))

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all rows; the caller holds the transaction."""
        insert_rows(connection, *_RESPONSES, self.responses)
        insert_rows(connection, *_PREDICTIONS, self.predictions)
        insert_rows(connection, *_FAILURES, self.failures)
        insert_rows(connection, *_INTENTS, self.intents)
        if self.settled:
            connection.executemany("DELETE FROM intents WHERE intent = ?", self.settled)


_BLOCKS = (256, 64, 16, 4, 1)

_DEFAULTED = frozenset({"truncated", "response_index", "maybe_billed"})
"""Columns that would get something else than NULL where they are left out; a missing value there is an error."""


def without_nulls(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Leave out the columns that hold nothing in any of the rows.

    Binding a None takes Python's sqlite3 a microsecond, which is longer than a text of a hundred characters takes, and
    most columns of most rows are empty.
    """
    found = [
        (name, values)
        for name, values in zip(columns, zip(*rows, strict=True), strict=True)
        if values.count(None) < len(values) or name in _DEFAULTED
    ]
    return [name for name, _ in found], list(zip(*(values for _, values in found), strict=True))


def insert_rows(connection: sqlite3.Connection, table: str, columns: str, conflict: str, rows: Sequence[Row]) -> None:
    """Insert rows in blocks, one statement a block.

    Python lets go of its global lock at every step of a statement and has to win it back from the busy event loop:
    one statement per row would make the writer wait for its turn thousands of times a second (measured in
    design/store.md), which is why neither ``executemany`` nor sqlite-utils' ``insert_all`` serves here.
    """
    if not rows:
        return
    names, rows = without_nulls(columns.split(", "), rows)
    columns = ", ".join(names)
    one = f"({', '.join('?' * len(rows[0]))})"
    start = 0
    for size in _BLOCKS:
        statement = f"INSERT INTO {table} ({columns}) VALUES {', '.join([one] * size)}{conflict}"  # noqa: S608 - constants only
        while len(rows) - start >= size:
            block = rows[start : start + size]
            start += size
            flat = [value for row in block for value in row]
            try:
                connection.execute(statement, flat)
            except UnicodeEncodeError:  # raised while binding, before anything was written
                connection.execute(statement, [encode(value) if isinstance(value, str) else value for value in flat])
