"""Downloads as they go: a live display on a terminal, plain lines elsewhere, on standard error."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from hatevolution.adapters.datasets.fetch import Fetched, Reporter, Wish

__all__ = ["reporter"]


@contextlib.contextmanager
def reporter() -> Iterator[Reporter]:
    """Yield what to tell of downloads."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False, markup=False), transient=True) as display:
        yield _Live(display)


def _sentence(result: Fetched) -> str:
    head = f"{result.dataset}: {result.name}"
    if result.file is None:
        return f"{head} failed: {result.problem}"
    done = "is there already" if result.outcome == "present" else "downloaded"
    checksum = (
        "checksum as released"
        if result.verified
        else f"not verified (no checksum is known; sha256 {result.file.sha256})"
    )
    return f"{head} {done}, {result.file.bytes:,} bytes, {checksum}"


class _Lines:
    def __init__(self) -> None:
        self._begun: set[tuple[str, str]] = set()

    def progress(self, wish: Wish, done: int, total: int | None) -> None:
        key = (wish.dataset, wish.source.name)
        if key not in self._begun:
            self._begun.add(key)
            size = "size unknown" if total is None else f"{total:,} bytes"
            rest = f", {done:,} are here already" if done else ""
            click.echo(one_line(f"{wish.dataset}: fetching {wish.source.name} ({size}{rest})"), err=True)

    def finished(self, result: Fetched) -> None:
        click.echo(one_line(_sentence(result)), err=True)


class _Live:
    def __init__(self, display: Progress) -> None:
        self._display = display
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def progress(self, wish: Wish, done: int, total: int | None) -> None:
        key = (wish.dataset, wish.source.name)
        if key not in self._tasks:
            self._tasks[key] = self._display.add_task(one_line(wish.source.name, 60), total=total)
        self._display.update(self._tasks[key], completed=done, total=total)

    def finished(self, result: Fetched) -> None:
        task = self._tasks.pop((result.dataset, result.name), None)
        if task is not None:
            self._display.remove_task(task)
        self._display.console.print(one_line(_sentence(result)), soft_wrap=True)
