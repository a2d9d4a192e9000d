"""Experiments as files in a folder, and the ways to run them: in this process, or as the real command in another."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hatevolution.cli import main
from hatevolution.runner.plan import make_plan
from hatevolution.runner.run import RunOptions, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hatevolution.runner.run import RunResult

SUPPORT = Path(__file__).resolve().parent
KEY = "sk-fake-canary-0123456789"
"""The fakes' key; it must never be seen anywhere."""


def toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """Write a table as TOML; JSON's strings, numbers and lists are TOML's too."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict)]
    tables = [
        f"[{prefix}{key}]\n{toml(value, f'{prefix}{key}.')}" for key, value in table.items() if isinstance(value, dict)
    ]
    return "\n".join([*plain, *tables]) + "\n"


class Project:
    """A folder with an experiment and everything that it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models: list[str] = []
        self.datasets: list[str] = []

    @property
    def store(self) -> Path:
        return self.folder / "s.db"

    def dataset(
        self, name: str = "mine", count: int = 50, *, text: Callable[[int], str] = "sentence number {}.".format
    ) -> None:
        """Add a set of so many sentences, s0, s1, ..."""
        with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text", "label"])
            writer.writerows([f"s{number}", text(number), str(number % 2)] for number in range(count))
        described = {"name": name, "format": "csv", "path": f"{name}.csv"}
        tables = {
            "columns": {"id": "id", "text": "text", "label": "label"},
            "labels": {"toxic": ["1"], "respectful": ["0"]},
        }
        (self.folder / f"{name}.set.toml").write_text(toml({**described, **tables}))
        if name not in self.datasets:
            self.datasets.append(name)

    def model(self, name: str = "m", **fields: Any) -> None:
        """Add a model; fields as in its TOML."""
        kind = fields.pop("adapter", "vllm-completions")
        table: dict[str, Any] = {"name": name, "adapter": kind, "model": "fake/model", **fields}
        if kind == "vllm-completions":
            table.setdefault("prompt", "paper-open")
        (self.folder / f"{name}.model.toml").write_text(toml(table))
        if name not in self.models:
            self.models.append(name)

    def vllm(self, *urls: str, name: str = "m", **endpoint: Any) -> None:
        """Add a model behind vLLM servers."""
        self.model(name, endpoint={"base_urls": list(urls), "max_concurrency": 8, **endpoint})

    def openai(self, url: str, name: str = "gpt", *, price: Mapping[str, float] | None = None, **endpoint: Any) -> None:
        """Add a model behind OpenAI's API."""
        table = {"input_usd_per_million_tokens": 2.5, "output_usd_per_million_tokens": 10.0}
        self.model(
            name,
            adapter="openai-chat",
            model="gpt-4o",
            prompt="paper-chat",
            price=dict(table if price is None else price),
            endpoint={"base_urls": [url], "max_concurrency": 8, **endpoint},
        )

    @property
    def experiment(self) -> Path:
        path = self.folder / "x.toml"
        models = [f"./{name}.model.toml" for name in self.models]
        datasets = [f"./{name}.set.toml" for name in self.datasets]
        path.write_text(toml({"name": "x", "models": models, "datasets": datasets}))
        return path

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, listeners: Any = (), **options: Any) -> RunResult:
        """Run it in this process, on a loop of its own."""
        names = {key: options.pop(key, None) for key in ("data", "models", "datasets")}
        environ = options.pop("environ", {"OPENAI_API_KEY": KEY})
        plan = make_plan(str(self.experiment), store=str(self.store), **names)
        return execute(plan, RunOptions(environ=environ, **options), listeners=listeners)

    async def run_beside(self, **options: Any) -> RunResult:
        """Run it in a thread, beside a server in this event loop."""
        return await asyncio.to_thread(self.run, **options)

    def arguments(self, *more: str) -> list[str]:
        return [*command("run"), str(self.experiment), "--store", str(self.store), *more]

    def start(self, *more: str, environ: Mapping[str, str] | None = None, **popen: Any) -> subprocess.Popen[str]:
        """Start the real command in a process of its own."""
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **popen}
        return subprocess.Popen(
            self.arguments(*more), env=environment(environ), cwd=self.folder, start_new_session=True, **options
        )

    def process(self, *more: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the real command to its end, in a process of its own."""
        return hatevolution_process("run", str(self.experiment), "--store", str(self.store), *more, environ=environ)

    def command(self, *more: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, in this process."""
        return hatevolution("run", str(self.experiment), "--store", str(self.store), *more, environ=environ)

    # -- looking -----------------------------------------------------------------------------------------------------

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.store)) as connection:
            return connection.execute(sql, values).fetchall()

    def count(self, table: str, where: str = "1") -> int:
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

    def snapshot(self) -> dict[tuple[str, str, str], tuple[Any, ...]]:
        """Everything that is recorded of each answered sentence, response included."""
        found = self.rows(
            "SELECT p.model, p.dataset, p.sentence, p.*, r.* FROM predictions AS p "
            "LEFT JOIN responses AS r ON r.response = p.response"
        )
        return {row[:3]: row[3:] for row in found}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "hatevolution", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of commands: with the fakes' key, without anybody else's, without proxies."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and "proxy" not in name.lower() and not name.startswith("HATEVOLUTION_")
    }
    return {**kept, "OPENAI_API_KEY": KEY, **(more or {})}


def hatevolution(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, as its entry point does; a start of Python costs more than most commands."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with patch.dict(os.environ, environment(environ), clear=True), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as request:
            code = request.code
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, *texts)


def hatevolution_process(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real command to its end, in a process of its own."""
    return subprocess.run(
        command(*arguments), env=environment(environ), capture_output=True, text=True, timeout=600, check=False
    )


class RemoteServer:
    """A fake in a process of its own, read and steered over HTTP."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SUPPORT / script), "--port", "0", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def log(self) -> dict[str, Any]:
        """``{"requests", "peak", "sent", "arrivals"}``: how often each text was sent, when requests came (seconds)."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_fake/log", timeout=10) as response:
            found: dict[str, Any] = json.load(response)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def remote(script: str, *arguments: str) -> Iterator[RemoteServer]:
    """Run a fake in a process of its own."""
    server = RemoteServer(script, *arguments)
    try:
        yield server
    finally:
        server.close()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that another process does."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def end(process: subprocess.Popen[str], number: int = signal.SIGKILL) -> tuple[str, str]:
    """Send a signal and wait; return what it wrote."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return out or "", err or ""
