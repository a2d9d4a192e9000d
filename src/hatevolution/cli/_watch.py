"""``hatevolution status --watch``: a store shown anew until the run that writes to it has ended."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hatevolution.cli._output import nobody_reads

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["watch"]


class _State(NamedTuple):
    """What is looked at each time."""

    report: dict[str, Any]
    total: int
    recorded: int
    pid: int | None
    """Of the process that writes; None where nobody does."""

    @property
    def pending(self) -> int:
        return self.total - self.recorded

    def line(self, left: str) -> str:
        who = f"process {self.pid} is writing" if self.pid is not None else "nobody is writing"
        spent = sum(item["cost_usd"] for item in self.report["spend"])
        paid = f", {spent:.4f} USD spent" if spent else ""
        time_left = f", about {left} left" if left and self.pending else ""
        return f"{self.recorded} of {self.total} sentences recorded, {self.pending} pending{paid}; {who}{time_left}"


def watch(path: Path, seconds: float) -> int:
    """Show a store until nobody writes, or nobody looks any more; return the exit code.

    Args:
        path: The store.
        seconds: Between two looks.

    Returns:
        0 where everything is done, 1 where something is pending.

    Raises:
        StoreError: It can't be read.
    """
    state = _look(path)
    run = _live if sys.stdout.isatty() else _plain
    state = run(path, seconds, state)
    if state.pending:
        click.echo(f"The run has ended with {state.pending} sentences pending; start it again to ask for them.")
        return 1
    return 0


def _look(path: Path) -> _State:
    from hatevolution.cli.status import status_report
    from hatevolution.store.verdicts import LOCK_NAME

    report = status_report(path)
    total = sum(cell["total"] for cell in report["cells"])
    pending = sum(cell["pending"] for cell in report["cells"])
    writer = report["writer"]
    if writer is not None and writer.get("run") == LOCK_NAME:
        writer = None  # a person's judgement is being stored: no run, and gone in a moment
    return _State(report, total, total - pending, None if writer is None else int(writer.get("pid", 0)))


class _Progress:
    """Decides when it is over, and how long it may take still."""

    def __init__(self, state: _State) -> None:
        from hatevolution.runner.rates import RateMeter

        self._meter = RateMeter()
        self._seen_writing = False
        self.left = ""
        self.take(state)

    def take(self, state: _State) -> None:
        from hatevolution.runner.rates import duration

        self._seen_writing |= state.pid is not None
        rate = self._meter.update(time.monotonic(), state.recorded)
        self.left = duration(state.pending / rate) if rate > 0 else ""

    def over(self, state: _State) -> bool:
        """Nobody writes, and either all is done or a run that was seen has gone away."""
        return state.pid is None and (self._seen_writing or not state.pending)


def _plain(path: Path, seconds: float, state: _State) -> _State:
    progress, said = _Progress(state), ""
    while True:
        line = state.line(progress.left)
        if line != said:
            click.echo(f"{time.strftime('%H:%M:%S')}  {line}")
            sys.stdout.flush()
        said = line
        if progress.over(state) or nobody_reads():
            return state
        time.sleep(seconds)
        state = _look(path)
        progress.take(state)


def _live(path: Path, seconds: float, state: _State) -> _State:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from hatevolution.cli.status import cells_table, store_line
    from hatevolution.store.status import Cell

    console = Console(highlight=False, markup=False)

    def view(state: _State) -> Group:
        cells = [Cell(**cell) for cell in state.report["cells"]]
        # The line on top: what does not fit the screen is cut at the bottom.
        return Group(Text(state.line(progress.left)), store_line(state.report), cells_table(cells, console))

    progress = _Progress(state)
    with Live(view(state), console=console, auto_refresh=False) as live:
        while not progress.over(state) and not nobody_reads():
            time.sleep(seconds)
            state = _look(path)
            progress.take(state)
            live.update(view(state), refresh=True)
    return state
