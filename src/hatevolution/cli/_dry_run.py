"""``hatevolution run --dry-run``: what would be sent, and what it would take."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from hatevolution.terminal import NO_TERMINAL, room

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rich.console import Console
    from rich.table import Table

    from hatevolution.runner.forecast import Forecast
    from hatevolution.runner.plan import RunPlan

__all__ = ["forecast_table", "show_dry_run"]


class _Column(NamedTuple):
    title: str
    short: str
    """The title where room is short: a line for each word or two."""
    cell: Callable[[Forecast], str]


def show_dry_run(plan: RunPlan, limit: int | None, *, as_json: bool) -> None:
    """Print a forecast of a run; nothing is sent and nothing is written."""
    from hatevolution.inert import one_line
    from hatevolution.runner.forecast import forecast, together

    lines = forecast(plan, limit)
    models = together(plan, lines)
    least_s = max((line.least_s for line in models if line.least_s is not None), default=None)
    for dataset in plan.datasets:
        for note in dataset.located.warnings:
            click.echo(f"note: {one_line(note)}", err=True)
    if as_json:
        document = {"store": str(plan.store), "lanes": [line._asdict() for line in lines], "least_s": least_s}
        click.echo(json.dumps(document, indent=2))
        return
    free = {model.config.name for model in plan.models if model.config.price is None}
    _show(lines, models, free, least_s)


def _show(lines: list[Forecast], models: list[Forecast], free: Collection[str], least_s: float | None) -> None:
    from rich.console import Console
    from rich.text import Text

    from hatevolution.inert import one_line
    from hatevolution.runner.rates import duration

    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else NO_TERMINAL)
    table, left_out = forecast_table(lines, models, free, console)
    console.print(table)
    if left_out:
        console.print(f"Left out, since the terminal is narrow: {', '.join(left_out)} (--json has them).")
    console.print(
        f"{sum(line.pending for line in lines):,} answers pending, about "
        f"{sum(line.usd_likely or 0 for line in lines):,.4f} USD (at most "
        f"{sum(line.usd_most or 0 for line in lines):,.4f})."
    )
    if least_s is None:
        console.print("No model has rate limits, from which times follow.")
    else:
        console.print(
            f"The run takes {duration(least_s)} at least, as long as its slowest model. Times follow from the "
            f"configured rate limits; a model without any has none."
        )
    unknown = dict.fromkeys(line.model for line in lines if line.usd_likely is None and line.pending)
    if unknown:
        console.print(
            Text(one_line(f"Not in these sums, since they can't be asked as things are: {', '.join(unknown)}."))
        )
    waiting = sum(line.in_batches for line in lines)
    if waiting:
        console.print(f"{waiting:,} sentences are in open batches and would be left to them.")
    for note in dict.fromkeys(line.note for line in lines if line.note):
        console.print(Text(one_line(note)))


def forecast_table(
    lines: Sequence[Forecast], models: Sequence[Forecast], free: Collection[str], console: Console
) -> tuple[Table, list[str]]:
    """Return the lines as a table in which nothing is folded as long as there is room, and what it leaves out for that.

    Args:
        lines: A line for each model and data set.
        models: One for each model; shown where it has several sets.
        free: Names of the models without a price.
        console: Where it is to be printed.
    """
    columns = _columns(free)
    table, left_out = _wide(lines, models, columns), list[str]()
    for dropped in ((), ("Sentences", "Requests"), ("Sentences", "Requests", "Tokens in", "Tokens out, most")):
        if room(console, table) >= 0:
            break
        table = _narrow(lines, models, [column for column in columns if column.title not in dropped])
        left_out = list(dropped)
    return table, left_out


def _columns(free: Collection[str]) -> list[_Column]:
    from hatevolution.runner.rates import duration

    def usd(line: Forecast, value: float | None) -> str:
        return "-" if value is None or line.model in free else f"{value:,.4f}"

    return [
        _Column("Sentences", "Sentences", lambda line: _count(line.sentences)),
        _Column("Pending", "Pending", lambda line: _count(line.pending)),
        _Column("Requests", "Requests", lambda line: _count(line.requests)),
        _Column("Tokens in", "Tokens\nin", lambda line: _count(line.prompt_tokens)),
        _Column("Tokens out, most", "Tokens\nout,\nmost", lambda line: _count(line.completion_tokens_most)),
        _Column("USD, likely", "USD,\nlikely", lambda line: usd(line, line.usd_likely)),
        _Column("USD, most", "USD,\nmost", lambda line: usd(line, line.usd_most)),
        _Column("USD, batch", "USD,\nbatch", lambda line: usd(line, line.usd_batch_likely)),
        _Column("Time, least", "Time,\nleast", lambda line: "-" if line.least_s is None else duration(line.least_s)),
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _grouped(lines: Sequence[Forecast], models: Sequence[Forecast]) -> list[tuple[Forecast, list[Forecast]]]:
    return [(model, [line for line in lines if line.model == model.model]) for model in models]


_ALL: Final = "all its sets"


def _wide(lines: Sequence[Forecast], models: Sequence[Forecast], columns: Sequence[_Column]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from hatevolution.inert import one_line

    table = Table(title="What a run would send", box=box.SIMPLE, title_justify="left")
    for name in ("Model", "Data set"):
        table.add_column(name, overflow="fold")
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    for model, own in _grouped(lines, models):
        for line in own:
            numbers = [column.cell(line) for column in columns]
            table.add_row(Text(one_line(line.model)), Text(one_line(line.dataset)), *numbers)
        if len(own) > 1:
            numbers = [column.cell(model) for column in columns]
            table.add_row(Text(one_line(model.model)), _ALL, *numbers, style="bold", end_section=True)
    return table


def _narrow(lines: Sequence[Forecast], models: Sequence[Forecast], columns: Sequence[_Column]) -> Table:
    """Return the lines with each model on a line of its own above its data sets, and the numbers closer together."""
    from rich.table import Table
    from rich.text import Text

    from hatevolution.inert import one_line

    table = Table(title="What a run would send", box=None, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    table.add_column("Model,\ndata set", overflow="fold")
    for column in columns:
        table.add_column(column.short, justify="right", overflow="fold")  # a figure may be broken, never cut
    for model, own in _grouped(lines, models):
        table.add_row(Text(one_line(model.model)))
        for line in own:
            table.add_row(Text(f"  {one_line(line.dataset)}"), *(column.cell(line) for column in columns))
        if len(own) > 1:
            table.add_row(f"  {_ALL}", *(column.cell(model) for column in columns), style="bold")
    return table
