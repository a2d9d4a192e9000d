"""What people see of batches: one line a batch."""

from __future__ import annotations

import os
import shlex
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from hatevolution.runner.batch.collect import Collected, CollectReport
    from hatevolution.runner.batch.look import Seen
    from hatevolution.runner.batch.submit import SubmitResult
    from hatevolution.store.batches import BatchRow

__all__ = [
    "next_commands",
    "report_document",
    "row_document",
    "show_cancelled",
    "show_collected",
    "show_status",
    "show_submitted",
    "status_document",
    "waiting_line",
]

_REASONS: Final = 3


def _say(text: str) -> None:
    click.echo(one_line(text), err=True)


def row_document(row: BatchRow, datasets: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a batch as plain JSON values."""
    from hatevolution.runner.batch.words import state

    document: dict[str, Any] = {
        "batch": row.name,
        "model": row.model,
        "place": row.place,
        "state": state(row),
        "requests": row.requests,
        "done": row.done,
        "failed": row.failed,
        "provider_id": row.provider_id,
        "provider_status": row.provider_status,
        "input_file": row.file_name if row.offline else row.file_id,
        "input_bytes": row.input_bytes,
        "input_sha256": row.input_sha256,
        "run": row.run,
        "made_at": row.made_at,
        "submitted_at": row.submitted_at,
        "checked_at": row.checked_at,
        "expires_at": row.expires_at,
        "closed_at": row.closed_at,
        "outcome": row.outcome,
        "note": row.note,
    }
    return document if datasets is None else {**document, "datasets": datasets}


# -- submitting ------------------------------------------------------------------------------------------------------


def next_commands(store: Path, result: SubmitResult, out: Path | None) -> list[str]:
    """Return the commands that bring the answers of what was submitted."""
    where = shlex.quote(str(store))
    if not result.in_batches:
        return []
    if out is None:
        return [f"hatevolution batch collect --store {where} --wait"]
    from hatevolution.adapters.serving.commands import run_batch
    from hatevolution.adapters.serving.programs import python_for
    from hatevolution.runner.batch.stored import stored_model
    from hatevolution.store.reader import connect

    commands = []
    with closing(connect(store)) as connection:
        for row in result.batches:
            given = out / row.file_name
            wanted = given.with_suffix(".output.jsonl")
            model = stored_model(connection, row.model).config
            commands.append(
                shlex.join(run_batch(model, os.environ, python_for(model, os.environ), str(given), str(wanted)))
            )
            commands.append(f"hatevolution batch collect --store {where} --from {shlex.quote(str(wanted))}")
    return commands


def show_submitted(store: Path, result: SubmitResult, out: Path | None) -> None:
    """Say what was submitted, what was not, and what to do next."""
    requests = sum(row.requests for row in result.batches)
    if result.batches:
        cost = f"; they may cost {result.most_usd:.4f} USD at most" if result.most_usd else ""
        _say(f"{requests:,} requests in {_batches(len(result.batches))}{cost}.")
    elif not result.pending and not result.in_batches:
        _say(f"Nothing was left to do: every sentence has its answer in {store}.")
    if result.in_batches:
        _say(f"{result.in_batches:,} sentences are in open batches.")
    for problem in result.problems:
        _say(f"{problem.model}: {problem.why}")
    if result.pending:
        _say(f"{result.pending:,} sentences are neither answered nor in a batch.")
    for line in next_commands(store, result, out):
        click.echo(line, err=True)


# -- status ----------------------------------------------------------------------------------------------------------


def status_document(store: str, seen: Seen, *, everything: bool) -> dict[str, Any]:
    """Return the document of ``batch status --json``."""
    rows = [pair for pair in seen.rows if everything or pair[0].closed_at is None]
    return {
        "store": store,
        "asked": not seen.writer,
        "batches": [row_document(row, datasets) for row, datasets in rows],
        "problems": [problem._asdict() for problem in seen.problems],
    }


def show_status(store: str, seen: Seen, *, everything: bool) -> None:
    """Show a line for each batch."""
    rows = [pair for pair in seen.rows if everything or pair[0].closed_at is None]
    for row, datasets in rows:
        click.echo(one_line(_line(row, datasets)))
    over = sum(row.closed_at is not None for row, _ in seen.rows)
    waiting = [row for row, _ in seen.rows if row.closed_at is None]
    hidden = f", {over} that are over (--all lists them)" if over and not everything else ""
    requests = sum(row.requests for row in waiting)
    click.echo(f"{store}: {_batches(len(waiting))} open with {requests:,} requests{hidden}.")
    if seen.writer:
        click.echo("Another process writes to the store now; this is what it knew last.")
    for problem in seen.problems:
        click.echo(one_line(f"{problem.model}: {problem.why}"))


def _line(row: BatchRow, datasets: dict[str, int]) -> str:
    from hatevolution.runner.batch.words import state

    sets = ", ".join(f"{name} {count:,}" for name, count in datasets.items())
    parts = [f"{row.name}  {row.model}  {sets}  {state(row)}"]
    if row.done is not None and row.outcome is None:
        parts.append(f"{row.done:,} of {row.requests:,} done, {row.failed or 0:,} failed")
    if row.provider_id is not None:
        parts.append(row.provider_id)
    parts.append(f"{_age(row.submitted_at or row.made_at)} old")
    if row.expires_at is not None and row.outcome is None:
        parts.append(f"expires in {_age(row.expires_at, ahead=True)}")
    if row.note is not None:
        parts.append(row.note)
    return ", ".join(parts)


def _age(time: str, *, ahead: bool = False) -> str:
    from hatevolution.runner.rates import duration

    past = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    return duration(max(0.0, -past if ahead else past))


# -- collecting ------------------------------------------------------------------------------------------------------


def show_collected(report: CollectReport, *, brief: bool = False) -> None:
    """Say what came of each batch, and what is still to come."""
    for item in report.collected:
        for line in _collected(item):
            _say(line)
    if report.torn or report.strange:
        _say(f"{report.torn:,} lines can't be read, {report.strange:,} are about no batch of this store.")
    if brief:
        return
    if not report.collected and not report.waiting and not report.offline and not report.problems:
        _say("No batch is open.")
    if report.waiting or report.offline:
        _say(waiting_line(report))
    for problem in report.problems:
        _say(f"{problem.model}: {problem.why}")
    if report.pending:
        _say(f"{report.pending:,} sentences are pending again; `hatevolution batch submit` or `run` asks them.")


def waiting_line(report: CollectReport) -> str:
    """Return a line about what is not done yet."""
    parts = [
        f"{row.name} {row.provider_status}" + ("" if row.done is None else f" {row.done:,} of {row.requests:,}")
        for row in report.waiting
    ]
    parts += [f"{row.name} waits for the output of `vllm run-batch`" for row in report.offline]
    return f"{_batches(len(parts))} open: {'; '.join(parts)}" if parts else "no batch can be asked after now"


def _collected(item: Collected) -> list[str]:
    row, taken = item.row, item.taken
    counts = [(count, status) for status, count in taken.answers.items()]
    counts += [
        (taken.second, "answers to sentences that have theirs already (kept apart)"),
        (taken.failed, "failed"),
        (taken.missing, "without a result"),
        (taken.torn, "lines that can't be read"),
        (taken.strange, "lines about other requests"),
        (taken.repeated, "lines about requests that have their result"),
    ]
    told = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "nothing new"
    cost = f", {taken.cost_usd:.4f} USD" if taken.cost_usd else ""
    lines = [f"{row.name} of {row.model} ({row.outcome or 'open'}): {told}{cost}"]
    if row.note is not None:
        lines.append(f"{row.name}: {row.note}")
    lines += [f"{row.name}: {count:,} times {why}" for why, count in taken.reasons.most_common(_REASONS)]
    return lines


def report_document(store: str, report: CollectReport) -> dict[str, Any]:
    """Return the document of ``batch collect --json``."""
    return {
        "store": store,
        "collected": [
            {
                **row_document(item.row),
                **{name: item.taken.answers.get(name, 0) for name in ("answered", "refused", "rejected")},
                "second": item.taken.second,
                "failed_lines": item.taken.failed,
                "missing": item.taken.missing,
                "torn": item.taken.torn,
                "strange": item.taken.strange,
                "repeated": item.taken.repeated,
                "cost_usd": item.taken.cost_usd,
            }
            for item in report.collected
        ],
        "open": [row_document(row) for row in (*report.waiting, *report.offline)],
        "torn": report.torn,
        "strange": report.strange,
        "pending": report.pending,
        "problems": [problem._asdict() for problem in report.problems],
        "exit_code": report.exit_code,
    }


def show_cancelled(row: BatchRow) -> None:
    """Say what became of a batch that was cancelled."""
    if row.closed_at is None:
        _say(f"{row.name}: {row.provider_status}; `hatevolution batch collect` brings home what was done by then.")
    else:
        _say(f"{row.name}: {row.note}; its sentences are pending again.")


def _batches(count: int) -> str:
    return f"{count} batch" if count == 1 else f"{count} batches"
