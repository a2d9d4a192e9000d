"""Rates, times left, lines and the log: what somebody sees who looks in on a run."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run_maker import Puppet, failure, model, reply, run_lanes
from virtual_loop import run_virtually

import hatevolution.runner
from hatevolution.errors import ConfigError
from hatevolution.runner.display import PlainEvents
from hatevolution.runner.events import Listeners
from hatevolution.runner.log import JsonLog
from hatevolution.runner.rates import RateMeter, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.domain import Item, Reply


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"), (0, "0 s"), (41.6, "42 s"), (59.6, "1 min 00 s"), (725, "12 min 05 s"), (3_599.7, "1 h 00 min"),
        (11_220, "3 h 07 min"), (187_200, "2 d 04 h"),
    ],
)  # fmt: skip
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_rate_is_that_of_the_last_seconds() -> None:
    meter = RateMeter(window_s=20)
    assert meter.update(0, 0) == 0
    assert [meter.update(second, 10 * second) for second in range(1, 61)][-1] == pytest.approx(10)
    assert [meter.update(second, 600) for second in range(61, 121)][-1] == 0


def test_a_rate_is_known_after_two_looks_however_far_apart() -> None:
    meter = RateMeter(window_s=20)
    meter.update(0, 0)
    assert meter.update(100, 50) == pytest.approx(0.5)


def test_failures_of_one_kind_are_said_once_in_a_while() -> None:
    stream = io.StringIO()
    events = PlainEvents(stream)
    for number in range(500):
        events("failure", model="m", kind="transient", message=f"HTTP 500: \x1b[31m number {number}\n" + "x" * 1000)
    events("failure", model="m", kind="timeout", message="late")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert "failed attempt number 1 of kind transient" in lines[0]
    assert "\x1b" not in lines[0]
    assert len(lines[0]) < 350


def test_events_that_nobody_needs_are_not_said() -> None:
    stream = io.StringIO()
    PlainEvents(stream)("something_else", model="m")
    assert stream.getvalue() == ""


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_terminal_that_is_gone_is_no_error() -> None:
    PlainEvents(Gone())("draining", in_flight=3, signal="Ctrl-C")


@pytest.mark.parametrize(
    ("in_flight", "said"),
    [
        (0, "nothing is in flight"),
        (1, "waiting for 1 request in flight"),
        (12, "waiting for 12 requests in flight"),
    ],
)
def test_what_an_interrupted_run_waits_for_is_counted_in_requests(in_flight: int, said: str) -> None:
    stream = io.StringIO()
    PlainEvents(stream)("draining", in_flight=in_flight, signal="SIGTERM")
    assert stream.getvalue().endswith(f"  interrupted: {said}; a second SIGTERM stops at once\n")


def test_a_listener_that_cannot_write_is_left_out_and_the_others_hear_on() -> None:
    heard: list[str] = []

    def broken(event: str, **_fields: object) -> None:
        heard.append(f"broken {event}")
        raise OSError("gone")

    listeners = Listeners([broken, lambda event, **_fields: heard.append(event)])
    listeners("a")
    listeners("b")
    assert heard == ["broken a", "a", "b"]


def test_a_log_holds_any_text_in_ascii(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log("failure", message="\ud800 \x00 ü \n")
    log.close()
    raw = (tmp_path / "log.jsonl").read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == 1
    assert json.loads(raw)["message"] == "\ud800 \x00 ü \n"


def test_a_log_in_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        JsonLog(tmp_path / "nowhere" / "log.jsonl")


def test_the_state_of_a_lane_adds_up(tmp_path: Path) -> None:
    def answers(_number: int, items: Sequence[Item], _url: str) -> Reply:
        if items[0].sentence in ("s3", "s4"):
            raise failure("permanent", 400)
        return reply(items, prompt_tokens=1)

    puppet = Puppet(answers, latency_s=1.0)
    config = model(price={"usd_per_request": 0.5}, endpoint={"max_concurrency": 4})
    (state,) = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 20)])).states
    assert (state.total, state.done, state.given_up, state.failures, state.in_flight) == (20, 18, 2, 2, 0)
    assert state.spent_usd == pytest.approx(9.0)
    assert state.started_at is not None
    assert state.ended_at is not None
    # One alone first, since it costs money; then four at a time.
    assert state.ended_at - state.started_at == pytest.approx(1 + 5)


def test_waiting_and_deciding_never_ask_the_wall_clock() -> None:
    """A machine clock that jumps changes nothing: only the event loop's time decides, and the clock is written down."""
    folder = Path(hatevolution.runner.__path__[0])
    allowed = {"perf_counter", "monotonic", "strftime", "sleep"}
    seen = []
    for path in sorted(folder.glob("*.py")):
        if path.name in ("provenance.py", "display.py"):  # they write times down and show them
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "time" and node.attr not in allowed:
                    seen.append((path.name, node.attr))
                if node.value.id == "datetime" and node.attr in ("now", "utcnow", "today"):
                    seen.append((path.name, node.attr))
    # Which day it is decides whether a model is retired; nothing else.
    assert set(seen) <= {("preflight.py", "now"), ("forecast.py", "now")}
