"""``hatevolution run``: ask models about every sentence that has no answer yet."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hatevolution.cli.options import FiniteRange, plan_options

if TYPE_CHECKING:
    from hatevolution.runner.events import Listener
    from hatevolution.runner.plan import RunPlan
    from hatevolution.runner.ray_cluster.options import RayOptions
    from hatevolution.runner.run import RunOptions, RunResult

__all__ = ["command"]


@click.command(name="run")
@plan_options("Where the answers go.")
@click.option(
    "--as-of",
    metavar="DATE",
    help="Ask each model anew under its name with @DATE behind it (gpt-4o@2026-12); `score --drift` compares two.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N sentences of each data set.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be sent, its tokens, cost and time; send nothing, write nothing."
)
@click.option("--budget-usd", type=FiniteRange(min=0), metavar="USD", help="Never spend more than this in this run.")
@click.option(
    "--ray",
    is_flag=False,
    flag_value="local",
    metavar="[ADDRESS]",
    help="Let the workers of a Ray cluster ask: auto or HOST:PORT, or one on this machine alone. Goes after CONFIG.",
)
@click.option(
    "--ray-workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="So many workers for models that need no GPU. Default: one for each node.",
)
@click.option("--log", "log_path", metavar="FILE", help="Append what happens as JSON lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    config: str,
    store: str | None,
    data: str | None,
    models: list[str] | None,
    datasets: list[str] | None,
    without: list[str] | None,
    as_of: str | None,
    limit: int | None,
    dry_run: bool,
    budget_usd: float | None,
    ray: str | None,
    ray_workers: int | None,
    log_path: str | None,
    as_json: bool,
) -> None:
    """Ask models about every sentence that has no answer yet.

    CONFIG is an experiment: the path of a TOML file, or the name of a shipped one (default: quickstart). Answers go
    to the store as they come; a run that was stopped, killed or cut off is started again with the same command and
    asks only what is missing. Ctrl-C once waits for the answers in flight, twice stops at once.

    Exit codes: 0 everything is answered, 1 something is missing (it says what and why), 2 wrong usage or
    configuration (nothing was sent), 130 interrupted.
    """
    from hatevolution.runner.plan import make_plan

    cluster = _cluster(ray, ray_workers)
    plan = make_plan(config, store=store, data=data, models=models, datasets=datasets, without=without, as_of=as_of)
    if dry_run:
        from hatevolution.cli._dry_run import show_dry_run

        show_dry_run(plan, limit, as_json=as_json)
        return
    from hatevolution.runner.run import RunOptions

    options = RunOptions(limit=limit, budget_usd=budget_usd, command=tuple(sys.argv), ray=cluster)
    result = _execute(plan, options, log_path)
    if as_json:
        click.echo(json.dumps(_document(plan, result), indent=2))
    _summary(plan, result)
    ctx.exit(result.exit_code)


def _cluster(address: str | None, workers: int | None) -> RayOptions | None:
    if address is None:
        if workers is not None:
            raise click.UsageError("--ray-workers goes with --ray.")
        return None
    from hatevolution.runner.ray_cluster.options import ray_options

    return ray_options(address, workers)


def _log_file(path: Path, store: Path) -> Path:
    """Return where the log goes; never among the store's own files."""
    from hatevolution.store.files import own_files

    if path.resolve() in own_files(store):
        raise click.UsageError(f"--log {path} is a file of the store; give the log a name of its own.")
    return path


def _execute(plan: RunPlan, options: RunOptions, log_path: str | None) -> RunResult:
    from hatevolution.runner.display import PlainEvents, live_display, plain_display
    from hatevolution.runner.log import JsonLog
    from hatevolution.runner.run import execute

    live = sys.stderr.isatty()
    log = None if log_path is None else JsonLog(_log_file(Path(log_path), plan.store))
    listeners: list[Listener] = [PlainEvents()]
    if log is not None:
        listeners.append(log)
    try:
        return execute(
            plan, options, listeners=listeners, display=live_display(sys.stderr) if live else plain_display(sys.stderr)
        )
    finally:
        if log is not None:
            log.close()


def _document(plan: RunPlan, result: RunResult) -> dict[str, object]:
    return {
        "store": str(plan.store),
        "run": result.run,
        "asked": result.asked,
        "pending": result.pending,
        "in_batches": result.in_batches,
        "interrupted": result.interrupted,
        "spent_usd": result.spent_usd,
        "possibly_billed_usd": result.doubtful_usd,
        "problems": [problem._asdict() for problem in result.problems],
        "exit_code": result.exit_code,
    }


def _summary(plan: RunPlan, result: RunResult) -> None:
    """Say how it ended and what to do next; on standard error."""
    from hatevolution.inert import one_line

    say = _say
    _counts(plan, result)
    if result.spent_usd or result.doubtful_usd:
        doubtful = f", and possibly {result.doubtful_usd:.4f} USD more" if result.doubtful_usd else ""
        say(f"Spent {result.spent_usd:.4f} USD{doubtful}.")
    for problem in result.problems:
        say(f"Missing of {one_line(problem.model)}: {one_line(problem.why)}")
    for state in result.states:
        for why, count in state.reasons.items():
            say(f"Missing of {one_line(state.model)}: {count} sentences, {one_line(why, 300)}")
    if any(state.given_up for state in result.states):
        say(f"Every failed attempt: {_program()} status --store {shlex.quote(str(plan.store))} --failures")
    if result.pending:
        say("Start the same command again to ask what is missing.")
    for line in _next_steps(plan.store):
        say(line)


def _counts(plan: RunPlan, result: RunResult) -> None:
    if result.asked:
        _say(
            f"{result.asked - result.pending} answers came into {plan.store}; of the {result.asked} asked for, "
            f"{result.pending} are still missing."
        )
    elif not result.in_batches:
        _say(f"Nothing was left to do: every sentence has its answer in {plan.store}.")
    if result.in_batches:
        _say(
            f"{result.in_batches} sentences are in an open batch and were left to it: "
            f"{_program()} batch collect --store {shlex.quote(str(plan.store))}"
        )


_NEXT: Final = (
    ("Tables", "score", ""),
    ("Answers that broke the instruction", "audit", " --kinds"),
    ("Report", "report", ""),
)


def _next_steps(store: Path) -> list[str]:
    """Return what to do with a store that has answers, by the commands that there are."""
    where = shlex.quote(str(store))
    return [
        f"{what}: {_program()} {name} --store {where}{more}"
        for what, name, more in _NEXT
        if find_spec(f"hatevolution.cli.{name}")
    ]


def _program() -> str:
    """Return how a shell finds this command: by its name, or else as it was called (`make run` does so by its path)."""
    called = sys.argv[0]
    by_name = Path(called).name != "hatevolution" or shutil.which("hatevolution") is not None
    return "hatevolution" if by_name else shlex.quote(called)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be there to read it any more; how the run ended stays the same
        click.echo(text, err=True)
