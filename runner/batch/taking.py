"""Results of a batch -> rows of the store, as a live run would have written them; all of a batch, or nothing.

A line is an answer only if the model's adapter, handed the response as if it had come live, says so. Whatever else
stands in a file becomes a failure (or, where the failure is about the sentence, a prediction of that kind), or is
counted.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from hatevolution.adapters.batch.results import Result, Torn
from hatevolution.adapters.models.faults import BODY_BYTES, printable
from hatevolution.domain import Item
from hatevolution.errors import FailureKind, RequestFailure
from hatevolution.runner.batch.taken import Taken
from hatevolution.runner.budget import cost_of, most_cost
from hatevolution.runner.outcome import rejected_or_refused
from hatevolution.runner.provenance import utc_now
from hatevolution.store.batches import batch_lines, settle_line
from hatevolution.store.rows import AnswerRecord, FailureRecord, Tables, salvaged
from hatevolution.store.second import keep_second

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hatevolution.adapters.batch.base import BatchAdapter
    from hatevolution.configs.schema import Price
    from hatevolution.domain import Reply
    from hatevolution.store.batches import BatchLine, BatchRow

__all__ = ["Taking"]

_BLOCK = 500
"""Results that are held before they are written; their bodies may be long."""
_KINDS = {
    "batch_expired": FailureKind.TRANSIENT,
    "batch_cancelled": FailureKind.TRANSIENT,
    "request_timeout": FailureKind.TIMEOUT,
}
"""Why a request of a batch has no response -> what that means. Source: OpenAI's API reference, "Batch object"."""
_FINAL = ("answered", "second")


class Taking:
    """Takes the results of one batch; the caller holds the transaction.

    Args:
        connection: The writer's.
        row: The batch.
        adapter: What reads the responses.
        price: Of the batch interface.
        redact: Takes secrets out of texts.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        row: BatchRow,
        adapter: BatchAdapter,
        price: Price | None,
        redact: Callable[[str], str],
    ) -> None:
        self._redact = redact
        self._connection = connection
        self._row = row
        self._adapter = adapter
        self._price = price
        self._lines = {line.line: line for line in batch_lines(connection, row.batch)}
        self._has_answer = {
            line
            for (line,) in connection.execute(
                "SELECT l.line FROM batch_lines AS l JOIN predictions AS p ON p.model = l.model "
                "AND p.dataset = l.dataset AND p.sentence = l.sentence WHERE l.batch = ?",
                [row.batch],
            )
        }
        self._outcomes: dict[int, tuple[str, str | None]] = {}
        self._seen: set[tuple[int, int]] = set()
        self._answers: list[tuple[BatchLine, AnswerRecord]] = []
        self._failures: list[FailureRecord] = []
        self._next = 1 + int(connection.execute("SELECT coalesce(max(response), 0) FROM responses").fetchone()[0])
        self.taken = Taken()

    def take(self, results: Iterable[Result | Torn]) -> None:
        """Take what stands in a file, in any order."""
        for result in results:
            line = self._line(result)
            if line is None:
                continue
            if isinstance(result, Torn):
                self._torn(line, result)
            else:
                self._result(line, result)
            if len(self._answers) + len(self._failures) >= _BLOCK:
                self._flush()
        self._flush()

    def fail(self, line: int, kind: FailureKind, code: str | None, message: str, outcome: str) -> None:
        """Record why a line has no answer, by what the provider says of the batch."""
        known = self._lines.get(line)
        if known is not None and known.outcome is None and line not in self._outcomes:
            self._failed(known, RequestFailure(kind, message, code=code), None, outcome)

    def finish(self, *, over: bool, asked: bool) -> Taken:
        """Write down what came of each line.

        Args:
            over: Whether no more results will come: what has none is missing.
            asked: Whether lines without a result were asked all the same (and may have been billed), since the provider
                says that it is done with all of them.
        """
        for number, line in self._lines.items() if over else ():
            if line.outcome is not None or number in self._outcomes:
                continue
            self.taken.missing += 1
            if asked:
                text = "the batch is complete, and none of its files holds a result of this request"
                failure = RequestFailure(FailureKind.MALFORMED, text, maybe_billed=not self._row.offline)
                self._failures.append(self._failure_record(line, failure))
            self._outcomes[number] = ("missing", None)
        self._flush()
        for number, (outcome, result_id) in self._outcomes.items():
            settle_line(self._connection, self._row, number, outcome, result_id)
        self.taken.failed = sum(outcome in ("failed", "invalid") for outcome, _ in self._outcomes.values())
        return self.taken

    # -- one line ----------------------------------------------------------------------------------------------

    def _line(self, result: Result | Torn) -> BatchLine | None:
        """Return the line of the batch that a result is about; count what is about none."""
        self.taken.torn += isinstance(result, Torn) and result.line is None
        if result.line is None:
            return None
        line = self._lines.get(result.line)
        if line is None or result.name != self._row.name:
            self.taken.strange += 1
            return None
        return line

    def _torn(self, line: BatchLine, result: Torn) -> None:
        self.taken.torn += 1
        text = f"line {result.number} of the results can't be read"
        body = self._text(result.raw)
        self._failed(line, RequestFailure(FailureKind.MALFORMED, text, body=body, maybe_billed=True), None)

    def _result(self, line: BatchLine, result: Result) -> None:
        mark = (line.line, hash(result.raw))
        if mark in self._seen or line.outcome in _FINAL:
            self.taken.repeated += mark in self._seen
            return
        self._seen.add(mark)
        item = Item(line.dataset, line.sentence, line.text)
        try:
            if result.arrived is None:
                raise self._unsent(result)
            reply = self._adapter.receive([item], result.arrived)
        except RequestFailure as failure:
            self._declined(line, item, failure, result)
            return
        except Exception as error:
            # A fault of ours must not keep the batch's other answers out.
            text = self._redact(f"internal error: {type(error).__name__}: {error}")
            ours = RequestFailure(FailureKind.PERMANENT, text, body=self._text(result.raw), maybe_billed=True)
            self._failed(line, ours, result.result_id)
            return
        cost = cost_of(self._price, reply, most_cost(self._price, self._adapter.estimate(item)))
        self.taken.cost_usd += cost or 0.0
        self._answer(line, item, reply, cost, result.result_id)

    def _declined(self, line: BatchLine, item: Item, failure: RequestFailure, result: Result) -> None:
        reply = rejected_or_refused(failure)
        if reply is None or self._answered(line):
            self._failed(line, failure, result.result_id)
            return
        self._failures.append(self._failure_record(line, failure))
        self._answer(line, item, reply, None, result.result_id)

    def _answer(self, line: BatchLine, item: Item, reply: Reply, cost: float | None, result_id: str | None) -> None:
        self.taken.repeated += self._answered(line)
        record = AnswerRecord(self._row.model, [item], reply, 1, self._row.base_url, utc_now(), 0.0, cost)
        self._answers.append((line, record))
        if line.line not in self._has_answer:
            self._has_answer.add(line.line)
            self.taken.answers[reply.answers[0].status.value] += 1
            self._outcomes[line.line] = ("answered", result_id)
            return
        self.taken.second += 1
        if not self._answered(line):
            self._outcomes[line.line] = ("second", result_id)

    def _answered(self, line: BatchLine) -> bool:
        """Return whether another line of these files answers the same request."""
        return self._outcomes.get(line.line, ("", None))[0] in _FINAL

    def _failed(self, line: BatchLine, failure: RequestFailure, result_id: str | None, outcome: str = "failed") -> None:
        if line.outcome == "failed":
            return  # known from an earlier reading of the same file
        self._failures.append(self._failure_record(line, failure))
        if self._answered(line):
            self.taken.repeated += 1
            return
        self._outcomes[line.line] = (outcome, result_id)
        self.taken.reasons[f"{failure.kind.value}: {failure}"] += 1

    def _failure_record(self, line: BatchLine, failure: RequestFailure) -> FailureRecord:
        return FailureRecord(
            model=self._row.model,
            items=[Item(line.dataset, line.sentence, line.text)],
            attempt=1,
            kind=failure.kind.value,
            message=str(failure),
            http_status=failure.http_status,
            code=failure.code,
            body=failure.body,
            request_id=failure.request_id,
            base_url=self._row.base_url,
            failed_at=utc_now(),
            latency_s=None,
            maybe_billed=failure.maybe_billed,
        )

    def _unsent(self, result: Result) -> RequestFailure:
        """Return the failure of a request that has no response."""
        error = result.error
        kind = _KINDS.get(error.code or "", FailureKind.PERMANENT)
        said = self._redact(error.message or error.code or "no reason given")
        return RequestFailure(
            kind,
            f"The batch has no response to this request: {printable(said)}",
            code=error.code or error.type,
            body=self._text(result.raw),
            maybe_billed=kind is FailureKind.TIMEOUT,
        )

    def _text(self, raw: bytes) -> str:
        return self._redact(raw[: 2 * BODY_BYTES].decode("utf-8", "replace"))[:BODY_BYTES]

    # -- writing -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what is held; what SQLite can't hold becomes a failure with its body, as in a live run."""
        answers, self._answers = self._answers, []
        failures, self._failures = self._failures, []
        try:
            self._connection.execute("SAVEPOINT results")
            self._write(answers, failures)
            self._connection.execute("RELEASE results")
        except sqlite3.OperationalError:
            raise
        except Exception:
            self._connection.execute("ROLLBACK TO results")
            for pair in answers:
                self._one(*pair)
            self._write([], failures)

    def _one(self, line: BatchLine, record: AnswerRecord) -> None:
        try:
            self._connection.execute("SAVEPOINT one")
            self._write([(line, record)], [])
            self._connection.execute("RELEASE one")
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO one")
            self._write([], [salvaged(record, error)])
            self._outcomes[line.line] = ("failed", None)
            self.taken.answers[record.reply.answers[0].status.value] -= 1

    def _write(self, answers: list[tuple[BatchLine, AnswerRecord]], failures: list[FailureRecord]) -> None:
        tables = Tables(self._row.run)
        seconds = []
        taken = self._taken_keys([line for line, _ in answers])
        for line, record in answers:
            tables.answer(self._next, record)
            self._next += 1
            if line.line in taken:
                seconds.append(tables.predictions.pop())
            taken.add(line.line)
        for failure in failures:
            tables.failure(failure)
        tables.write(self._connection)
        for row in seconds:
            keep_second(self._connection, row, source=f"batch {self._row.name}", noticed_at=utc_now())

    def _taken_keys(self, lines: list[BatchLine]) -> set[int]:
        """Return which of some lines have a prediction in the store."""
        return {
            line.line
            for line in lines
            if self._connection.execute(
                "SELECT 1 FROM predictions WHERE model = ? AND dataset = ? AND sentence = ?",
                [self._row.model, line.dataset, line.sentence],
            ).fetchone()
        }
