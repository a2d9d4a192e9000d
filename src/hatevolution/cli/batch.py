"""``hatevolution batch``: submit, look at, collect and cancel batches."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hatevolution.cli.options import FiniteRange, plan_options, store_option

if TYPE_CHECKING:
    from hatevolution.runner.batch.collect import CollectReport
    from hatevolution.runner.batch.submit import SubmitResult

__all__ = ["command"]

_EVERY_S: Final = 60.0
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")


def _say(text: str) -> None:
    from hatevolution.inert import one_line

    click.echo(one_line(text), err=True)


@click.group(name="batch", no_args_is_help=True)
def command() -> None:
    """Ask models through their provider's batch interface: up to a day later, at half the price.

    `submit` puts every sentence without an answer into input files and hands them over, `collect` brings the answers
    into the store, as a live run would have written them. Between the two nothing has to run, and `hatevolution run`
    leaves those sentences alone. OpenAI's chat and moderation models have such an interface; for vLLM's chat models,
    --offline writes the same files for `vllm run-batch`.
    """


@command.command(name="submit")
@plan_options("Where the answers will go.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N sentences of each data set.")
@click.option("--budget-usd", type=FiniteRange(min=0), metavar="USD", help="Submit no more than may cost this much.")
@click.option(
    "--requests", type=click.IntRange(1, 50_000), default=50_000, metavar="N", help="At most N requests in a file."
)
@click.option("--offline", is_flag=True, help="Write the files for `vllm run-batch` instead; goes with --out.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where --offline writes.")
@_json_option
@click.pass_context
def submit_command(
    ctx: click.Context,
    config: str,
    store: str | None,
    data: str | None,
    models: list[str] | None,
    datasets: list[str] | None,
    without: list[str] | None,
    limit: int | None,
    budget_usd: float | None,
    requests: int,
    offline: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Submit every sentence that has no answer and is in no open batch.

    CONFIG is an experiment, as for `hatevolution run`; its models that have no batch interface are left to `run`. Every
    step is written into the store before the next one: a start that was killed is simply repeated, asks the provider
    what it has, and goes on from there; nothing is submitted twice.

    Exit codes: 0 everything is answered or in a batch, 1 something is not (it says why), 2 nothing was begun, 130
    interrupted.
    """
    from hatevolution.adapters.batch.files import OPENAI_LIMITS
    from hatevolution.runner.batch.submit import SubmitOptions, submit
    from hatevolution.runner.plan import make_plan

    if offline != (out is not None):
        raise click.UsageError("--offline and --out DIR go together.")
    plan = make_plan(config, store=store, data=data, models=models, datasets=datasets, without=without)
    options = SubmitOptions(
        limit=limit,
        limits=OPENAI_LIMITS._replace(requests=requests),
        budget_usd=budget_usd,
        offline=out,
        named=models is not None,
        command=tuple(sys.argv),
        tell=_say,
    )
    result = submit(plan, options)
    _show_submitted(plan.store, result, out, as_json=as_json)
    ctx.exit(result.exit_code)


def _show_submitted(store: Path, result: SubmitResult, out: Path | None, *, as_json: bool) -> None:
    from hatevolution.cli._batch_views import next_commands, row_document, show_submitted

    if as_json:
        document = {
            "store": str(store),
            "run": result.run,
            "batches": [row_document(row) for row in result.batches],
            "commands": next_commands(store, result, out),
            "in_batches": result.in_batches,
            "pending": result.pending,
            "most_usd": result.most_usd,
            "problems": [problem._asdict() for problem in result.problems],
            "exit_code": result.exit_code,
        }
        click.echo(json.dumps(document, indent=2))
    show_submitted(store, result, out)


@command.command(name="status")
@store_option
@click.option("--all", "everything", is_flag=True, help="List batches that are over as well.")
@_json_option
def status_command(store: str, everything: bool, as_json: bool) -> None:
    """Show the open batches of a store, asking their providers how they are.

    Batches whose submission was cut short are looked for at the provider. While another process writes to the store,
    what it knows already is shown.
    """
    from hatevolution.cli._batch_views import show_status, status_document
    from hatevolution.runner.batch.look import look

    seen = look(Path(store))
    if as_json:
        click.echo(json.dumps(status_document(store, seen, everything=everything), indent=2))
    else:
        show_status(store, seen, everything=everything)


@command.command(name="collect")
@store_option
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Take the answers from this output of `vllm run-batch`; may be given several times.",
)
@click.option("--wait", is_flag=True, help="Look again until every batch is done.")
@click.option(
    "--every", "every_s", type=FiniteRange(min=0.1), default=_EVERY_S, metavar="S", help="Seconds between looks."
)
@_json_option
@click.pass_context
def collect_command(
    ctx: click.Context, store: str, files: tuple[Path, ...], wait: bool, every_s: float, as_json: bool
) -> None:
    """Bring the answers of batches that are done into the store.

    Each batch comes in whole or not at all, so that a start which was killed is simply repeated. What has no answer
    (failed, expired, cancelled, missing) is pending again; every failure is recorded. A sentence that was asked live
    meanwhile keeps that answer, and the batch's is kept apart.

    Exit codes: 0 every batch is collected and every sentence of it answered, 1 something is still open or pending
    again, 2 nothing was begun, 130 interrupted.
    """
    from hatevolution.cli._batch_views import report_document, show_collected
    from hatevolution.runner.batch.collect import CollectReport, collect_files

    if files:
        reports = [collect_files(Path(store), files)]
        show_collected(reports[0])
    else:
        reports = _looks(Path(store), wait=wait, every_s=every_s)
    whole = reports[-1]
    whole = CollectReport(
        collected=[item for report in reports for item in report.collected],
        waiting=whole.waiting,
        offline=whole.offline,
        problems=whole.problems,
        torn=whole.torn,
        strange=whole.strange,
    )
    if as_json:
        click.echo(json.dumps(report_document(store, whole), indent=2))
    ctx.exit(whole.exit_code)


def _looks(store: Path, *, wait: bool, every_s: float) -> list[CollectReport]:
    """Look once, or until there is nothing to wait for."""
    from hatevolution.cli._batch_views import show_collected, waiting_line
    from hatevolution.errors import StoreError
    from hatevolution.runner.batch.collect import CollectReport, collect_open
    from hatevolution.store.lock import holder

    reports: list[CollectReport] = []
    last = ""
    while True:
        try:
            report = collect_open(store, tell=_say)
        except StoreError:
            if not wait or holder(store) is None:
                raise
            report = CollectReport(hopeful=True)
            line = "another process writes to the store; waiting for it"
        else:
            line = waiting_line(report)
            more = wait and (report.waiting or report.hopeful)
            show_collected(report, brief=bool(more))
        reports.append(report)
        if not wait or not (report.waiting or report.hopeful):
            return reports
        if line != last:
            _say(line)
            last = line
        time.sleep(every_s)


@command.command(name="cancel")
@click.argument("name", metavar="BATCH")
@store_option
@click.option("--forget", is_flag=True, help="Give it up here, whatever its provider does with it.")
def cancel_command(name: str, store: str, forget: bool) -> None:
    """Stop a batch, so that its sentences are pending again.

    BATCH is its name, or the provider's id of it. One at a provider is asked to stop; what is done by then is answered
    and billed, and `collect` brings it home. One for `vllm run-batch` ends at once.
    """
    from hatevolution.cli._batch_views import show_cancelled
    from hatevolution.runner.batch.cancel import cancel

    show_cancelled(cancel(Path(store), name, forget=forget))
