"""What a person sees of a run, on standard error: live lanes on a terminal, plain lines with times elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from hatevolution.inert import one_line
from hatevolution.runner.rates import RateMeter, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rich.table import Table

    from hatevolution.runner.budget import Budget
    from hatevolution.runner.events import LaneState
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["PlainEvents", "live_display", "plain_display"]

_REFRESH_S = 0.25
_FIRST_LINE_S = 2.0
_LINE_S = 15.0
_WHY = 160

_TELL = {
    "note": "note: {text}",
    "reading": "reading {dataset} into the store: {sentences} sentences so far",
    "run_started": "asking for {pending} answers",
    "not_asked": "not asked: {model}: {why}",
    "lane_crashed": "{model} ended by an internal error; the other models go on ({why})",
    "lane_stopped": "{model} stopped: {message}",
    "cooldown": "{model}: pause of {seconds} s, then {concurrency} in flight at most ({why})",
    "server_down": "{model}: {base_url} is down, probing ({why})",
    "server_up": "{model}: {base_url} is back",
    "paused": "{model}: {why}",
    "server_starting": "{model}: its server is starting at {base_url}; its log is {log}",
    "server_ready": "{model}: its server answers, after {seconds} s",
    "server_died": "{model}: its server at {base_url} died (exit code {exit_code})",
    "server_log": "{model}:   | {line}",
    "worker_joined": "a worker of the cluster is ready: {node}",
    "worker_lost": "{model}: a worker of the cluster was lost, its {sentences} sentences go to others ({why})",
    "worker_gone": "a worker of the cluster can't be used: {why}",
    "draining": "interrupted: {waits}; a second {signal} stops at once",
    "holding": "records that wait for the store: {waiting} ({why}); a second {signal} gives them up",
    "stopping_at_once": "stopping at once; answers in flight are lost and may have been billed",
}


class PlainEvents:
    """Listener that writes what happens as lines with times; the same failure is said once in a while, not each time.

    Args:
        stream: Where to write; None takes the process' standard error as it is at that moment (a live display
            replaces it, so that lines go above the display).
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}

    def __call__(self, event: str, **fields: Any) -> None:
        """Write an event, if it is one that a person wants to know of."""
        if event == "failure":
            self._failure(fields)
        elif event in _TELL:
            if event == "draining":
                fields["waits"] = _waits(fields["in_flight"])
            self.line(_TELL[event].format_map({key: one_line(str(value), _WHY) for key, value in fields.items()}))

    def _failure(self, fields: dict[str, Any]) -> None:
        key = (fields["model"], fields["kind"])
        count, said_at = self._failures.get(key, (0, float("-inf")))
        count += 1
        now = time.monotonic()
        if now - said_at >= _LINE_S:
            said_at = now
            text = one_line(str(fields["message"]), _WHY)
            self.line(f"{one_line(key[0])}: failed attempt number {count} of kind {key[1]}: {text}")
        self._failures[key] = (count, said_at)

    def line(self, text: str) -> None:
        """Write one line, if anybody is still there to read it: a night's run does not end with its terminal."""
        stream = self._stream or sys.stderr
        with suppress(OSError):
            stream.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
            stream.flush()


def _waits(requests: int) -> str:
    if not requests:
        return "nothing is in flight"
    return f"waiting for {requests} request{'' if requests == 1 else 's'} in flight"


class _Meters:
    """A rate meter for each lane."""

    def __init__(self, states: Sequence[LaneState]) -> None:
        self.states = states
        self._meters = {id(state): RateMeter() for state in states}
        now = asyncio.get_running_loop().time()
        for state in states:
            self.rate(state, now)

    def rate(self, state: LaneState, now: float) -> float:
        return self._meters[id(state)].update(now, state.done)


def _eta(state: LaneState, rate: float) -> str:
    left = state.total - state.done - state.given_up
    if state.phase in ("done", "stopped"):
        return state.phase
    return duration(left / rate) if rate > 0 else "-"


def _why(state: LaneState, now: float) -> str:
    if state.phase == "paused" and state.paused_until is not None:
        # First for how long: the reason may be longer than the terminal is wide.
        return f"for {duration(state.paused_until - now)} more: {state.why}"
    return state.why


def plain_display(
    stream: TextIO,
) -> Callable[[Sequence[LaneState], Budget, GroupCommitWriter], AbstractContextManager[None]]:
    """Return a display that writes a line per lane now and then."""

    @contextmanager
    def show(states: Sequence[LaneState], budget: Budget, writer: GroupCommitWriter) -> Iterator[None]:
        loop, events, meters = asyncio.get_running_loop(), PlainEvents(stream), _Meters(states)
        finished: set[str] = set()

        def report() -> None:
            for state in states:
                if state.ended_at is not None and state.started_at is not None and not state.why:
                    if state.model not in finished:
                        finished.add(state.model)
                        took = duration(state.ended_at - state.started_at)
                        events.line(f"{one_line(state.model)}: {state.done} of {state.total}, done in {took}")
                    continue
                rate = meters.rate(state, loop.time())
                why = _why(state, loop.time())
                spent = f", {state.spent_usd:.4f} USD" if state.spent_usd else ""
                events.line(
                    f"{one_line(state.model)}: {state.done} of {state.total} ({rate:.1f}/s, {state.in_flight} in flight"
                    f"{spent}), left: {_eta(state, rate)}" + (f"; {one_line(why, _WHY)}" if why else "")
                )
            if writer.trouble is not None:
                events.line(f"the store can't be written to ({one_line(writer.trouble)}); answers are held and retried")

        async def tick() -> None:
            await asyncio.sleep(_FIRST_LINE_S)
            while True:
                report()
                await asyncio.sleep(_LINE_S)

        task = loop.create_task(tick())
        try:
            yield
        finally:
            task.cancel()
            report()

    return show


def live_display(
    stream: TextIO,
) -> Callable[[Sequence[LaneState], Budget, GroupCommitWriter], AbstractContextManager[None]]:
    """Return a display of all lanes that renews itself on a terminal."""
    from rich.console import Console
    from rich.live import Live

    @contextmanager
    def show(states: Sequence[LaneState], budget: Budget, writer: GroupCommitWriter) -> Iterator[None]:
        loop, meters = asyncio.get_running_loop(), _Meters(states)
        console = Console(file=stream, highlight=False, markup=False)
        live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=stream is sys.stderr)

        def draw() -> None:
            with suppress(OSError):  # the terminal may be gone; the run goes on
                live.update(_lanes(meters, budget, writer, loop.time()), refresh=True)

        async def tick() -> None:
            while True:
                draw()
                await asyncio.sleep(_REFRESH_S)

        live.start()
        task = loop.create_task(tick())
        try:
            yield
        finally:
            task.cancel()
            draw()
            with suppress(OSError):
                live.stop()

    return show


def _lanes(meters: _Meters, budget: Budget, writer: GroupCommitWriter, now: float) -> Table:
    from rich import box
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, expand=True)
    table.add_column("Model", no_wrap=True)
    table.add_column("", width=16)
    for name in ("Done", "Rate/s", "In flight", "Left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", ratio=1, overflow="ellipsis", no_wrap=True)
    for state in meters.states:
        rate = meters.rate(state, now)
        spent = f"{state.spent_usd:.4f} USD  " if state.spent_usd else ""
        table.add_row(
            Text(one_line(state.title, 40)),
            ProgressBar(total=max(1, state.total), completed=state.done, width=16),
            f"{state.done}/{state.total}",
            f"{rate:.1f}",
            f"{state.in_flight}/{state.limit}",
            _eta(state, rate),
            Text(spent + one_line(_why(state, now), _WHY)),
        )
    notes = []
    if budget.limit_usd is not None:
        notes.append(f"budget {budget.committed_usd:.4f} of {budget.limit_usd:g} USD")
    if writer.trouble is not None:
        notes.append(f"the store can't be written to ({one_line(writer.trouble)}); answers are held and retried")
    if notes:
        table.caption = Text("; ".join(notes))
    return table
