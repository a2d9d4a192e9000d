"""Real servers on the CPU: vLLM with SmolLM2, a small Llama and a small RoBERTa; the seq2seq server with small T5s."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from hatevolution.adapters import registry
from hatevolution.adapters.serving.check import SENTENCES
from hatevolution.adapters.serving.plan import plan_servers
from hatevolution.configs.load import load_model
from hatevolution.configs.prompts import load_prompt
from hatevolution.domain import Item
from hatevolution.runner.plan import make_plan
from hatevolution.runner.run import RunOptions, RunResult, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = [pytest.mark.serving, pytest.mark.timeout(900)]

SUBJECTS = ("my neighbour", "the cat", "nobody", "an old friend", "this silly song", "you people", "the rain", "she")
VERBS = ("never says thank you", "likes cold soup", "is slow today", "sleeps under the table", "makes me smile")


def made_up(count: int) -> list[str]:
    """Sentences of different lengths."""
    return [
        f"{SUBJECTS[n % len(SUBJECTS)]} {VERBS[n % len(VERBS)]}" + ", and so on" * (n % 7) + f" ({n})"
        for n in range(count)
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bench:
    """A folder with models' files and an experiment over one made-up set."""

    def __init__(self, folder: Path, python: str, sentences: int) -> None:
        self.folder = folder
        self.port = free_port()
        self.store = folder / "night.db"
        self.environ = {**os.environ, "HATEVOLUTION_VLLM_PYTHON": python, "HATEVOLUTION_SEQ2SEQ_PYTHON": python}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.names: list[str] = []
        with (folder / "set.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text", "label"])
            writer.writerows((f"s{n:04}", text, n % 2) for n, text in enumerate(made_up(sentences)))
        (folder / "set.toml").write_text(
            'name = "set"\nformat = "csv"\npath = "set.csv"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
            '[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n',
            encoding="utf-8",
        )

    def model(self, name: str, adapter: str, weights: Path, text: str, *, server: str = "", endpoint: str = "") -> Path:
        """Write a model's file; ``text`` are further keys and tables before [endpoint]."""
        vllm = adapter != "seq2seq"
        path = self.folder / f"{name}.toml"
        path.write_text(
            f'name = "{name}"\nadapter = "{adapter}"\nmodel = "test/{name}"\n{text}\n'
            f'[endpoint]\nbase_urls = ["http://127.0.0.1:{self.port}/v1"]\n{endpoint}\n'
            f"[server]\nweights = {json.dumps(str(weights))}\nstartup_timeout_s = 600\n"
            + ('extra_args = ["--enforce-eager", "--max-num-seqs", "32"]\n' if vllm else "")
            + server,
            encoding="utf-8",
        )
        self.names.append(name)
        (self.folder / "night.toml").write_text(
            f'name = "night"\nmodels = {json.dumps([f"./{name}.toml" for name in self.names])}\n'
            f'datasets = ["./set.toml"]\n',
            encoding="utf-8",
        )
        return path

    def run(self) -> RunResult:
        plan = make_plan(str(self.folder / "night.toml"), store=str(self.store), data=None, models=None, datasets=None)
        return execute(plan, RunOptions(environ=self.environ), listeners=[self])

    def __call__(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def told(self, event: str) -> int:
        return sum(name == event for name, _ in self.events)

    def rows(self, model: str, columns: str = "sentence", view: str = "predictions") -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.store) as store:
            query = f"SELECT {columns} FROM {view} WHERE model = ? ORDER BY sentence"
            return store.execute(query, [model]).fetchall()

    def processes(self) -> list[psutil.Process]:
        """Everything that runs on behalf of servers of this folder."""
        mine = [
            one
            for one in psutil.process_iter(["cmdline"])
            if any(str(self.folder) in part for part in one.info["cmdline"] or ()) and one.pid != os.getpid()
        ]
        return [*mine, *(child for one in mine for child in one.children(recursive=True))]

    def nothing_left(self) -> bool:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if not [one for one in self.processes() if one.status() != psutil.STATUS_ZOMBIE]:
                return True
            time.sleep(0.1)
        return False

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "hatevolution", *arguments]
        return subprocess.run(
            command, env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False, timeout=800
        )


GREEDY = "[decoding]\nmax_tokens = {}\ntemperature = 0.0\n"
OPEN = 'prompt = "paper-open"\n'
CLASSIFIER = '[options]\nclasses = ["nothate", "hate"]\n[decoding]\ntruncate_prompt_tokens = 128\n'
WINDOW = 'dtype = "float32"\nmax_model_len = 128\n'


def test_rows_of_three_models_by_one_command(
    tmp_path: Path, serving_python: str, tiny: Callable[[str], Path], smollm: Path
) -> None:
    bench = Bench(tmp_path, serving_python, 40)
    lists = "batch_size = 32\nmax_concurrency = 4\n"
    bench.model("t5", "seq2seq", tiny("t5"), OPEN + GREEDY.format(20), server='dtype = "float32"\n', endpoint=lists)
    bench.model("roberta", "vllm-classify", tiny("roberta"), CLASSIFIER, server=WINDOW, endpoint=lists)
    text = OPEN + GREEDY.format(8)
    bench.model("smollm", "vllm-completions", smollm, text, server="max_model_len = 512\n", endpoint=lists)
    result = bench.run()
    assert (result.exit_code, result.problems) == (0, [])
    for name in bench.names:
        assert bench.rows(name, "sentence, status, attempts") == [(f"s{n:04}", "answered", 1) for n in range(40)]
    for text, scores in bench.rows("roberta", "raw_text, scores"):
        classes = json.loads(scores)
        assert list(classes) == ["nothate", "hate"]
        assert sum(classes.values()) == pytest.approx(1.0, abs=1e-5)
        assert text == max(classes, key=classes.__getitem__)
    assert len({text for (text,) in bench.rows("smollm", "raw_text")}) > 5
    # vLLM's answers repeat the ids of their requests: by these an answer to another request would be known.
    for name in ("roberta", "smollm"):
        assert all("hatevolution-" in named for (named,) in bench.rows(name, "request_id", "answers"))
    assert bench.told("server_ready") == 3
    assert bench.nothing_left()
    again = bench.run()
    assert (again.exit_code, again.asked, bench.told("server_starting")) == (0, 0, 3)


def engine_core(bench: Bench) -> psutil.Process:
    (core,) = {one for one in bench.processes() if "EngineCore" in " ".join(one.cmdline())}
    return core


def api_server(bench: Bench) -> psutil.Process:
    parent = engine_core(bench).parent()
    assert parent is not None
    return parent


def test_vllm_killed_in_mid_run(tmp_path: Path, serving_python: str, tiny: Callable[[str], Path]) -> None:
    """Its API server with SIGTERM, which may leave requests unanswered for ever; then its engine with SIGKILL."""
    bench = Bench(tmp_path, serving_python, 600)
    # One attempt is all a sentence has: if a death burnt it, the sentence would stay pending.
    endpoint = "max_concurrency = 16\nmax_attempts = 1\nbatch_size = 2\n"
    text = OPEN + GREEDY.format(100) + "[decoding.extra]\nignore_eos = true\n"
    bench.model(
        "llama", "vllm-completions", tiny("llama"), text, server=WINDOW.replace("128", "256"), endpoint=endpoint
    )
    killed: list[int] = []

    def after(count: int) -> bool:
        for _ in range(40_000):
            try:
                if len(bench.rows("llama")) >= count:
                    return True
            except sqlite3.Error:
                pass
            time.sleep(0.01)
        return False

    def kill() -> None:
        if after(60):
            victim = api_server(bench)
            killed.append(victim.pid)
            victim.send_signal(signal.SIGTERM)
        if after(300):
            victim = engine_core(bench)
            killed.append(victim.pid)
            victim.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result = bench.run()
    finally:
        killer.join()
    assert len(killed) == 2
    assert (result.exit_code, result.problems, result.pending) == (0, [], 0)
    rows = bench.rows("llama", "sentence, status, completion_tokens, attempts")
    assert [row[:2] for row in rows] == [(f"s{n:04}", "answered") for n in range(600)]
    assert bench.told("server_died") == 2
    assert bench.told("server_ready") == 3
    assert len([row for row in rows if row[3] > 1]) <= 2 * 16 * 2
    assert bench.nothing_left()


def test_serve_and_check_by_hand(tmp_path: Path, serving_python: str, smollm: Path) -> None:
    """`serve` keeps a server; `serve --check` uses it as it is, for the template's path and for the bare one."""
    bench = Bench(tmp_path, serving_python, 1)
    chat = bench.model(
        "smollm",
        "vllm-chat",
        smollm,
        'prompt = "paper-chat"\n' + GREEDY.format(8),
        server='max_model_len = 2048\ndtype = "float32"\n',
    )
    plain = tmp_path / "plain.toml"
    plain.write_text(chat.read_text().replace("vllm-chat", "vllm-completions").replace("paper-chat", "paper-open"))
    serve = subprocess.Popen(
        [sys.executable, "-P", "-m", "hatevolution", "serve", str(chat)],
        env=bench.environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert serve.stderr is not None
    try:
        said = []
        for line in serve.stderr:
            said.append(line)
            if "Ctrl-C stops it" in line:
                break
        assert serve.poll() is None, said
        for path in (chat, plain):
            done = bench.cli("serve", str(path), "--check", "--json")
            assert done.returncode == 0, done.stdout + done.stderr
            document = json.loads(done.stdout)
            verdicts = document["verdicts"]
            assert verdicts["equal"] + verdicts["tie"] == len(SENTENCES), document
            assert verdicts["equal"] >= 4, document
            assert "starting the server" not in done.stderr
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.communicate(timeout=60)
    assert serve.returncode == 130
    assert bench.nothing_left()


def test_check_of_a_classifier(tmp_path: Path, serving_python: str, tiny: Callable[[str], Path]) -> None:
    bench = Bench(tmp_path, serving_python, 1)
    path = bench.model(
        "roberta", "vllm-classify", tiny("roberta"), CLASSIFIER, server=WINDOW, endpoint="batch_size = 32"
    )
    done = bench.cli("serve", str(path), "--check", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["verdicts"] == {"equal": len(SENTENCES) + 1, "tie": 0, "differs": 0, "rejected": 0}
    assert bench.nothing_left()
    # The other order of the classes is another model.
    path.write_text(path.read_text().replace('["nothate", "hate"]', '["hate", "nothate"]'))
    wrong = bench.cli("serve", str(path), "--check")
    assert wrong.returncode == 1
    assert "orders its classes differently" in wrong.stderr + wrong.stdout


@pytest.fixture(scope="module", params=["t5", "mt5"])
def seq2seq(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, serving_python: str,
    tiny: Callable[[str], Path],
) -> Iterator[tuple[Bench, Path]]:  # fmt: skip
    """A seq2seq server that runs, and its model's file."""
    kind = request.param
    folder = tmp_path_factory.mktemp(f"seq2seq-{kind}")
    bench = Bench(folder, serving_python, 1)
    server = 'dtype = "float32"\nmax_model_len = 2000\n'
    path = bench.model(kind, "seq2seq", tiny(kind), OPEN + GREEDY.format(20), server=server, endpoint="batch_size = 32")
    model, _ = load_model(str(path))

    async def work(ready: threading.Event, done: threading.Event) -> None:
        adapter = registry.create(model, load_prompt("paper-open"), bench.environ)
        servers = plan_servers(model, adapter, bench.environ, folder / "logs", tell=lambda *_, **__: None, redact=str)
        await adapter.open()
        await servers.start()
        ready.set()
        await asyncio.to_thread(done.wait)
        await servers.stop()
        await adapter.close()

    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(work(ready, done)))
    thread.start()
    try:
        assert ready.wait(300)
        yield bench, path
    finally:
        done.set()
        thread.join()
    assert bench.nothing_left()


def test_batched_answers_equal_one_by_one_answers(seq2seq: tuple[Bench, Path]) -> None:
    bench, path = seq2seq
    items = [Item("set", str(n), text) for n, text in enumerate(made_up(64))]

    async def ask_all() -> list[list[tuple[str | None, str | None]]]:
        model, _ = load_model(str(path))
        adapter = registry.create(model, load_prompt("paper-open"), bench.environ)
        await adapter.open()
        url = adapter.base_urls[0]
        try:
            one_by_one = [await adapter.ask([item], url) for item in items]
            together = await asyncio.gather(*(adapter.ask([item], url) for item in items))
            lists = await asyncio.gather(*(adapter.ask(items[at : at + 32], url) for at in range(0, len(items), 32)))
        finally:
            await adapter.close()
        assert all((reply.completion_tokens or 0) <= 20 for reply in one_by_one)
        return [
            [(answer.raw_text, answer.finish_reason) for reply in replies for answer in reply.answers]
            for replies in (one_by_one, together, lists)
        ]

    one_by_one, together, lists = asyncio.run(ask_all())
    assert one_by_one == together == lists
    assert len({text for text, _ in one_by_one}) > 10
    assert {reason for _, reason in one_by_one} == {"stop", "length"}


def test_seq2seq_equals_transformers(seq2seq: tuple[Bench, Path]) -> None:
    bench, path = seq2seq
    done = bench.cli("serve", str(path), "--check", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["verdicts"] == {"equal": len(SENTENCES), "tie": 0, "differs": 0, "rejected": 0}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"prompt": "a", "temperature": 0.7}, 400, "temperature"),
        ({"prompt": ["a", "\ud800"]}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": "word " * 2500}, 400, "input_tokens"),
        ({"prompt": "a", "best_of": 2}, 400, "best_of"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "a", "model": "somebody/else"}, 404, "model"),
        (b'{"prompt"', 400, None),
    ],
)
def test_what_the_seq2seq_server_refuses(
    seq2seq: tuple[Bench, Path], body: Any, status: int, param: str | None
) -> None:
    bench, _ = seq2seq
    data = body if isinstance(body, bytes) else json.dumps(body).encode("ascii")
    url = f"http://127.0.0.1:{bench.port}/v1/completions"
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as response:
        assert response.status == status
        error = json.loads(response.read())["error"]
    assert (error["code"], error["param"]) == (status, param)
    assert error["message"]


def test_a_bad_request_harms_no_other(seq2seq: tuple[Bench, Path]) -> None:
    bench, path = seq2seq

    async def ask_all() -> list[Any]:
        model, _ = load_model(str(path))
        adapter = registry.create(model, load_prompt("paper-open"), bench.environ)
        await adapter.open()
        texts = ["fine", "\ud800", "x " * 2500, "fine too"] * 4
        try:
            return await asyncio.gather(
                *(adapter.ask([Item("set", "s", text)], adapter.base_urls[0]) for text in texts), return_exceptions=True
            )
        finally:
            await adapter.close()

    outcomes = asyncio.run(ask_all())
    kinds = [getattr(outcome, "kind", "answered") for outcome in outcomes]
    assert kinds == ["answered", "unsendable", "too_long", "answered"] * 4


def test_cutting_is_asked_for_and_told(seq2seq: tuple[Bench, Path]) -> None:
    bench, _ = seq2seq
    body = {"prompt": "word " * 700, "truncate_prompt_tokens": 50, "max_tokens": 4, "return_token_ids": True}
    url = f"http://127.0.0.1:{bench.port}/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode("ascii"), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    assert answer["usage"]["prompt_tokens"] == 50
    assert answer["choices"][0]["prompt_token_ids"][-1] == 1  # the end of sequence stays
