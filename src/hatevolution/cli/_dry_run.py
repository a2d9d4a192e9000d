"""``hatevolution run --dry-run``: what would be sent, and what it would take."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hatevolution.runner.forecast import Forecast
    from hatevolution.runner.plan import RunPlan

__all__ = ["show_dry_run"]


def show_dry_run(plan: RunPlan, limit: int | None, *, as_json: bool) -> None:
    """Print a forecast of a run; nothing is sent and nothing is written."""
    from hatevolution.inert import one_line
    from hatevolution.runner.forecast import forecast

    lines = forecast(plan, limit)
    for dataset in plan.datasets:
        for note in dataset.located.warnings:
            click.echo(f"note: {one_line(note)}", err=True)
    if as_json:
        click.echo(json.dumps({"store": str(plan.store), "lanes": [line._asdict() for line in lines]}, indent=2))
    else:
        _show(lines)


def _show(lines: list[Forecast]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hatevolution.inert import one_line
    from hatevolution.runner.rates import duration

    table = Table(title="What a run would send", box=box.SIMPLE)
    for name in ("Model", "Data set"):
        table.add_column(name, overflow="fold")
    for name in (
        "Sentences",
        "Pending",
        "Requests",
        "Tokens in",
        "Tokens out, most",
        "USD, likely",
        "USD, most",
        "USD, batch",
        "Time, least",
    ):
        table.add_column(name, justify="right", overflow="fold")  # a figure may be broken, never cut
    for line in lines:
        seconds = "-" if line.least_s is None else duration(line.least_s)
        table.add_row(
            Text(one_line(line.model)),
            Text(one_line(line.dataset)),
            str(line.sentences),
            str(line.pending),
            *(_count(value) for value in (line.requests, line.prompt_tokens, line.completion_tokens_most)),
            *(_usd(value) for value in (line.usd_likely, line.usd_most, line.usd_batch_likely)),
            seconds,
        )
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print(
        f"{sum(line.pending for line in lines)} answers pending, about "
        f"{sum(line.usd_likely or 0 for line in lines):.4f} USD (at most "
        f"{sum(line.usd_most or 0 for line in lines):.4f}). "
        f"Times follow from the configured rate limits; a lane without any has none."
    )
    unknown = dict.fromkeys(line.model for line in lines if line.usd_likely is None and line.pending)
    if unknown:
        console.print(
            Text(one_line(f"Not in these sums, since they can't be asked as things are: {', '.join(unknown)}."))
        )
    waiting = sum(line.in_batches for line in lines)
    if waiting:
        console.print(f"{waiting} sentences are in open batches and would be left to them.")
    for note in dict.fromkeys(line.note for line in lines if line.note):
        console.print(Text(one_line(note)))


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _usd(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
