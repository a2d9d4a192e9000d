"""Progress of long work on stores: a live line on a terminal, a plain one now and then elsewhere; on standard error."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

    from hatevolution.store.exchange.watch import Tell

__all__ = ["progress"]

_QUIET_S: Final = 5.0
"""Seconds between two plain lines; work that is done before the first has passed tells nothing."""


@contextmanager
def progress() -> Iterator[Tell]:
    """Yield what to tell of long work."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True, highlight=False, markup=False)
    with Progress(*columns, console=console, transient=True) as display:
        yield _Live(display)


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._last >= _QUIET_S:
            self._last = now
            of = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            click.echo(f"{one_line(what, 200)} ({of})", err=True)


class _Live:
    def __init__(self, display: Progress) -> None:
        self._display = display
        self._task = display.add_task("", total=None)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        self._display.update(self._task, description=one_line(what, 60), completed=done, total=total)
