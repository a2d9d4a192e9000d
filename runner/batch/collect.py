"""``batch collect``: the answers of batches that are done come into the store, each batch in one transaction."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hatevolution.adapters.batch.base import FINAL, TOKEN_LIMIT, reading_adapter
from hatevolution.adapters.batch.results import Torn, read_results
from hatevolution.adapters.redact import Redactor
from hatevolution.errors import DataError, FailureKind, RequestFailure, UserError
from hatevolution.runner.batch.pace import PASSING, Pace, patient
from hatevolution.runner.batch.price import batch_price
from hatevolution.runner.batch.refresh import Asked, Providers, refreshed
from hatevolution.runner.batch.stored import stored_model
from hatevolution.runner.batch.taking import Taking
from hatevolution.runner.batch.words import why_failed
from hatevolution.runner.preflight import Problem
from hatevolution.runner.provenance import utc_now
from hatevolution.store.batches import BatchRow, batch_named, batches, close_batch
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hatevolution.adapters.batch.openai_wire import BatchInfo, BatchProblem
    from hatevolution.runner.batch.stored import StoredModel
    from hatevolution.runner.batch.taken import Taken

__all__ = ["CollectReport", "Collected", "collect_files", "collect_open"]

LOCK_NAME = "batch collect"

_OUTCOMES = {"completed": "collected", "expired": "expired", "cancelled": "cancelled", "failed": "failed"}
_LATE_S = 3600.0
"""How long the output file of a batch that is done is waited for; after that its answers count as lost."""
_OF_THE_BATCH = frozenset(
    {TOKEN_LIMIT, "model_not_found", "mismatched_model", "invalid_url", "billing_hard_limit_reached", "empty_file"}
)
"""Codes of a provider's validation that are not about the line that they name: the next line would fare no better."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A batch whose results are in the store."""

    row: BatchRow
    taken: Taken


@dataclass(kw_only=True)
class CollectReport:
    """What came of one look at all batches."""

    collected: list[Collected] = field(default_factory=list)
    waiting: list[BatchRow] = field(default_factory=list)
    """Still open, at a provider, and getting on."""
    offline: list[BatchRow] = field(default_factory=list)
    """Still open, waiting for the output of ``vllm run-batch``."""
    problems: list[Problem] = field(default_factory=list)
    hopeful: bool = False
    """Whether a problem may pass by itself."""
    torn: int = 0
    """Lines of given files that can't be read and name no request."""
    strange: int = 0
    """Lines of given files that are about no batch of this store."""

    @property
    def pending(self) -> int:
        """Sentences of the batches that are pending again."""
        return sum(item.taken.pending for item in self.collected)

    @property
    def exit_code(self) -> int:
        """0 everything that was submitted has its answer, 1 something has not."""
        return 1 if self.waiting or self.offline or self.problems or self.pending else 0


def collect_open(
    path: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    pace: Pace | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> CollectReport:
    """Look at every open batch of a store once, and bring in the answers of those that are done.

    Raises:
        StoreError: There is no such store, or another process writes to it.
    """
    pace = pace or Pace()
    report = CollectReport()
    connect(path).close()  # a writer would make a store where there is none
    with WritableStore(path, LOCK_NAME) as store, Providers(environ) as providers:
        for asked in refreshed(store, providers, pace):
            try:
                _one(store, asked, environ, pace, report, tell)
            except RequestFailure as failure:
                report.hopeful |= failure.kind in PASSING
                report.problems.append(Problem(asked.row.model, f"{asked.row.name}: {_lost(asked.row, failure)}"))
            except UserError as error:
                report.problems.append(Problem(asked.row.model, f"{asked.row.name}: {error}"))
        report.offline = [row for row in batches(store.connection, open_only=True) if row.offline]
    return report


def collect_files(path: Path, files: Sequence[Path], *, environ: Mapping[str, str] = os.environ) -> CollectReport:
    """Bring in the answers that stand in output files, those of ``vllm run-batch`` above all.

    A batch for ``vllm run-batch`` is over with that: sentences that its output lacks are pending again. One at a
    provider stays open, since its other file may hold the rest. The same file again changes nothing.

    Raises:
        DataError: A file can't be read, or none of them holds a result of a batch of this store.
        StoreError: There is no such store, or another process writes to it.
    """
    connect(path).close()
    report = CollectReport()
    with WritableStore(path, LOCK_NAME) as store:
        rows = _batches_in(store.connection, files, report)
        if not rows:
            raise DataError(
                f"{', '.join(map(str, files))}: no line is a result of a batch of {path}; --from names the output of "
                f"`vllm run-batch` (or of a provider) for files that `hatevolution batch submit` wrote with this store."
            )
        for row in rows:
            model = stored_model(store.connection, row.model)
            with store.transaction() as connection:
                taking = _taking(connection, row, model, environ)
                for file in files:
                    taking.take(result for result in read_results(file) if result.name == row.name)
                over = row.offline and row.closed_at is None
                taken = taking.finish(over=over, asked=over)
                if over:
                    row = close_batch(connection, row, "collected", utc_now(), None)
            report.collected.append(Collected(row=row, taken=taken))
    return report


def _batches_in(connection: sqlite3.Connection, files: Sequence[Path], report: CollectReport) -> list[BatchRow]:
    """Return the batches that files hold results of."""
    known: dict[str, BatchRow | None] = {}
    try:
        for file in files:
            for result in read_results(file):
                if result.name is None:
                    report.torn += isinstance(result, Torn)
                    continue
                if result.name not in known:
                    known[result.name] = batch_named(connection, result.name)
                report.strange += known[result.name] is None
    except OSError as error:
        raise DataError(f"{error.filename} can't be read: {error.strerror}.") from None
    return [row for row in known.values() if row is not None]


def _one(
    store: WritableStore,
    asked: Asked,
    environ: Mapping[str, str],
    pace: Pace,
    report: CollectReport,
    tell: Callable[[str], None],
) -> None:
    row, info = asked.row, asked.info
    if asked.problem is not None or info is None or asked.api is None or asked.model is None:
        report.hopeful |= asked.passing
        report.problems.append(Problem(row.model, f"{row.name}: {asked.problem}"))
        return
    if info.status not in FINAL or _late(info):
        report.waiting.append(row)
        return
    api = asked.api
    with tempfile.TemporaryDirectory(prefix="hatevolution-batch-") as folder:
        files = []
        for number, file_id in enumerate(filter(None, (info.output_file_id, info.error_file_id))):
            tell(f"{row.name}: {info.status}, downloading {file_id}")
            file = Path(folder) / f"{number}.jsonl"
            patient(lambda file_id=file_id, file=file: api.download(file_id, file), pace)  # type: ignore[misc]
            files.append(file)
        report.collected.append(_stored(store, row, asked.model, info, files, environ))


def _late(info: BatchInfo) -> bool:
    """Return whether a batch is done, but its file is not there yet."""
    if info.status != "completed" or info.output_file_id is not None or not info.done:
        return False
    return datetime.now(UTC).timestamp() - (info.completed_at or info.created_at) < _LATE_S


def _stored(
    store: WritableStore,
    row: BatchRow,
    model: StoredModel,
    info: BatchInfo,
    files: Sequence[Path],
    environ: Mapping[str, str],
) -> Collected:
    """Write everything that a provider gave for a batch that is done, and close it; all at once."""
    with store.transaction() as connection:
        taking = _taking(connection, row, model, environ)
        for file in files:
            taking.take(read_results(file))
        note = None
        if info.status == "failed":
            note = Redactor.of(environ).text(why_failed(info.problems))
            for problem in _of_lines(info.problems):
                taking.fail((problem.line or 0) - 1, FailureKind.PERMANENT, problem.code, problem.message, "invalid")
        taken = taking.finish(over=True, asked=info.status == "completed")
        row = close_batch(connection, row, _OUTCOMES[info.status], utc_now(), note)
    return Collected(row=row, taken=taken)


def _of_lines(problems: Sequence[BatchProblem]) -> Iterator[BatchProblem]:
    return (problem for problem in problems if problem.line is not None and problem.code not in _OF_THE_BATCH)


def _taking(connection: sqlite3.Connection, row: BatchRow, model: StoredModel, environ: Mapping[str, str]) -> Taking:
    config = model.config
    redact = Redactor.of(environ, config.endpoint.api_key_env or "OPENAI_API_KEY").text
    # Nothing is sent: it reads, and needs no key for that.
    adapter = reading_adapter(config, model.prompt, environ)
    return Taking(connection, row, adapter, batch_price(config.price), redact)


def _lost(row: BatchRow, failure: RequestFailure) -> str:
    if failure.http_status == 404:
        return (
            f"its results are not there any more ({failure}); `hatevolution batch cancel {row.name} --forget` gives it "
            f"up, and its sentences are pending again"
        )
    return f"its results can't be fetched now: {failure}"
