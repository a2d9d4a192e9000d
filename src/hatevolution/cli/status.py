"""``hatevolution status``: what is done, pending and failed, and what was spent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hatevolution.cli.options import FiniteRange, store_option
from hatevolution.terminal import NO_TERMINAL, room

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hatevolution.store.status import Cell

__all__ = ["cells_table", "command", "status_report", "store_line"]

_SHOWN = 20
_NUMBERS: Final = ("Total", "Answered", "Refused", "Rejected", "Pending", "Failures")


@click.command(name="status")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.option(
    "--watch",
    "watch_s",
    is_flag=False,
    flag_value=2.0,
    type=FiniteRange(min=0.1),
    metavar="[SECONDS]",
    help="Show it anew every 2 (or so many) seconds until the run that writes has ended.",
)
@click.option("--unrecorded", "all_unrecorded", is_flag=True, help="List every possibly billed request, not only 20.")
@click.option(
    "--failures", "show_failures", is_flag=True, help="Show failed attempts by kind, with an example of each."
)
@click.pass_context
def command(
    ctx: click.Context,
    store: str,
    as_json: bool,
    watch_s: float | None,
    all_unrecorded: bool,
    show_failures: bool,
) -> None:
    """Show what a store holds: done, pending, failed, per model and data set.

    Also lists what was spent, and the requests that may have been billed without being recorded because a run died
    between sending them and storing their answers. Reading never disturbs a run that is writing.

    --watch waits for a run to begin where none is writing and something is pending; it ends with 0 when everything is
    done, and with 1 when the run ended before that.
    """
    if watch_s is not None:
        from hatevolution.cli._watch import watch

        if as_json:
            raise click.UsageError("--watch and --json don't go together.")
        ctx.exit(watch(Path(store), watch_s))
    report = status_report(Path(store))
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        _show(report, all_unrecorded)
        if show_failures:
            _show_failures(report["failures"])


def status_report(path: Path) -> dict[str, Any]:
    """Return the document of ``--json``."""
    from hatevolution.store import status
    from hatevolution.store.lock import holder
    from hatevolution.store.reader import connect
    from hatevolution.store.tally import tallies

    connection = connect(path)
    try:
        writer = holder(path)
        live = writer.get("run") if writer else None
        counted = tallies(connection)
        return {
            "store": str(path),
            "cells": [cell._asdict() for cell in status.cells(connection, counted)],
            "spend": [item._asdict() for item in status.spend(connection, counted)],
            "possibly_unrecorded": [item._asdict() for item in status.unrecorded(connection, live)],
            "open_batches": [item._asdict() for item in status.open_batches(connection)],
            "failures": [item._asdict() for item in status.failures(connection)],
            "runs": [item._asdict() for item in status.runs(connection)],
            "writer": writer,
        }
    finally:
        connection.close()


def _show(report: dict[str, Any], all_unrecorded: bool) -> None:
    from rich.console import Console

    from hatevolution.inert import one_line
    from hatevolution.store.status import Cell

    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else NO_TERMINAL)
    cells = [Cell(**cell) for cell in report["cells"]]
    console.print(store_line(report))
    console.print(cells_table(cells, console))
    pending = sum(cell.pending for cell in cells)
    spent = sum(item["cost_usd"] for item in report["spend"])
    console.print(
        f"{sum(cell.total for cell in cells) - pending} of {sum(cell.total for cell in cells)} sentences recorded, "
        f"{pending} pending; {spent:.4f} USD spent."
    )
    for item in report["open_batches"]:
        console.print(
            f"{item['sentences']} sentences of {one_line(item['model'], 80)} are in open batches (hatevolution batch "
            f"status)."
        )
    if report["writer"]:
        console.print(f"A run is writing now (process {report['writer'].get('pid')}).")
    elif report["runs"] and report["runs"][-1]["outcome"] is None:
        console.print("The last run died before its end; start it again with the same command to go on.")
    free = [item for item in report["possibly_unrecorded"] if not item["priced"]]
    if not all(item["answered"] for item in free):  # else it is over: nothing was billed, and nothing is missing
        console.print(
            f"A run died while up to {len(free)} sentences of models without a price were being sent; nothing was "
            f"billed."
        )
    doubtful = [item for item in report["possibly_unrecorded"] if item["priced"]]
    if doubtful:
        console.print(
            f"{len(doubtful)} sentences may have been sent (and billed) without their answers being recorded, since "
            f"a run died:"
        )
        for item in doubtful if all_unrecorded else doubtful[:_SHOWN]:
            console.print(
                f"  {item['at']}  {one_line(item['model'], 80)}  {one_line(item['dataset'], 80)}  "
                f"{one_line(item['sentence'], 80)}"
            )
        if len(doubtful) > _SHOWN and not all_unrecorded:
            console.print(f"  ... and {len(doubtful) - _SHOWN} more (--unrecorded lists all)")


def _show_failures(failures: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from hatevolution.inert import one_line

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not failures:
        console.print("No attempt has failed.")
    for item in failures:
        status = "" if item["http_status"] is None else f" (HTTP {item['http_status']})"
        console.print(
            f"{one_line(item['model'], 80)}, {one_line(item['dataset'], 80)}: {item['attempts']} attempts failed as "
            f"{item['kind']}{status}, of {item['sentences']} sentences, {item['pending']} of them still pending; "
            f"last at {item['last_at']}: {one_line(item['example'], 400)}"
        )


def store_line(report: dict[str, Any]) -> Text:
    """Return the line above the table."""
    return _name(report["store"], "Store ")


def cells_table(cells: list[Cell], console: Console) -> Table:
    """Return the cells as a table in which no name is folded, as long as the longest has room beside the numbers."""
    table = _wide(cells)
    return table if room(console, table) >= 0 else _narrow(cells)


def _wide(cells: list[Cell]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    table.add_column("Model", overflow="fold")
    table.add_column("Data set", overflow="fold")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    for cell in cells:
        table.add_row(_name(cell.model), _name(cell.dataset), *_numbers(cell))
    return table


def _narrow(cells: list[Cell]) -> Table:
    """Return the cells with each model on a line of its own above its data sets, and the numbers closer together."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("Model, data set", overflow="fold")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    model = None
    for cell in cells:
        if cell.model != model:
            model = cell.model
            table.add_row(_name(model))
        table.add_row(_name(cell.dataset, "  "), *_numbers(cell))
    return table


def _name(name: str, before: str = "") -> Text:
    from rich.text import Text

    from hatevolution.inert import one_line

    return Text(before + one_line(name))


def _numbers(cell: Cell) -> map[str]:
    return map(str, (cell.total, cell.answered, cell.refused, cell.rejected, cell.pending, cell.failed_attempts))
