"""What the benchmarks of the runner share: a fast server in a process of its own, an experiment, a bare client loop."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import uvloop

from hatevolution.runner.plan import make_plan
from hatevolution.runner.run import RunOptions, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "Classify the input text as 'respectful' or 'toxic'.\nInput text: {}.\nAnswer: "
MODEL = "fake/model"


@contextlib.contextmanager
def fast_server(latency_s: float = 0.0) -> Iterator[str]:
    """Run tests/support/fake_fast.py and give its base URL."""
    script = ROOT / "tests" / "support" / "fake_fast.py"
    process = subprocess.Popen(
        [sys.executable, "-P", str(script), "--port", "0", "--latency", str(latency_s)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for stores and experiments."""
    with tempfile.TemporaryDirectory(prefix="hatevolution-bench-") as made:
        yield Path(made)


def sentence(number: int) -> str:
    """Text of about the length of a real one."""
    return f"number {number}: people say that words change and nobody knows what they will mean in ten years from now"


def write_set(where: Path, count: int, name: str = "set") -> None:
    """Write a data set of so many sentences."""
    with (where / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label"])
        writer.writerows([f"s{number}", sentence(number), number % 2] for number in range(count))
    (where / f"{name}.set.toml").write_text(
        f'name = "{name}"\nformat = "csv"\npath = "{name}.csv"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
        '[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n'
    )


def write_model(where: Path, base_url: str, name: str = "model", **endpoint: Any) -> None:
    """Write a model behind the server."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"base_urls": [base_url], **endpoint}.items()]
    (where / f"{name}.model.toml").write_text(
        f'name = "{name}"\nadapter = "vllm-completions"\nmodel = "{MODEL}"\nprompt = "paper-open"\n[endpoint]\n'
        + "\n".join(lines)
        + "\n"
    )


def write_experiment(where: Path, models: list[str], datasets: list[str]) -> Path:
    """Write an experiment and return its path."""
    path = where / "x.toml"
    path.write_text(
        'name = "x"\n'
        f"models = {json.dumps([f'./{name}.model.toml' for name in models])}\n"
        f"datasets = {json.dumps([f'./{name}.set.toml' for name in datasets])}\n"
    )
    return path


class Took(NamedTuple):
    """What asking took: seconds by the clock, and seconds of processors (all threads of this process)."""

    seconds: float
    processor_s: float


class Clock:
    """Listener that takes the times at which a run began and ended to ask."""

    def __init__(self) -> None:
        self.times: dict[str, tuple[float, float]] = {}

    def __call__(self, event: str, **_fields: Any) -> None:
        """Take note."""
        self.times[event] = (time.perf_counter(), time.process_time())

    def took(self) -> Took:
        """Return what lay between the beginning and the end."""
        began, ended = self.times["run_started"], self.times["run_ended"]
        return Took(ended[0] - began[0], ended[1] - began[1])


def ask(where: Path, store: str = "s.db") -> Took:
    """Run the experiment in this process; return what it took from its first request to its last commit."""
    plan = make_plan(str(where / "x.toml"), store=str(where / store), data=None, models=None, datasets=None)
    clock = Clock()
    result = execute(plan, RunOptions(), listeners=[clock])
    assert result.exit_code == 0, result
    for path in where.glob(f"{store}*"):
        path.unlink()
    return clock.took()


async def _bare(base_url: str, count: int, concurrency: int) -> None:
    numbers = iter(range(count))

    async def worker(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            body = {"model": MODEL, "prompt": PROMPT.format(sentence(number))}
            async with session.post(f"{base_url}/completions", json=body) as response:
                answer = await response.json()
            assert answer["choices"][0]["text"]

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(worker(session))


def bare(base_url: str, count: int, concurrency: int) -> Took:
    """Ask as many with aiohttp on uvloop and nothing else, keeping nothing; return what it took."""
    begun, used = time.perf_counter(), time.process_time()
    uvloop.run(_bare(base_url, count, concurrency))
    return Took(time.perf_counter() - begun, time.process_time() - used)


def verdict(what: str, value: float, bound: float, *, least: bool) -> bool:
    """Print a ratio beside its promise; return whether it is kept."""
    kept = value >= bound if least else value <= bound
    word = "at least" if least else "at most"
    print(f"{what}: {value:.3f} ({word} {bound:g}){'' if kept else '  <-- broken'}")
    return kept


if __name__ == "__main__":  # the whole bare script, for benchmarks/runner_command.py
    bare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
