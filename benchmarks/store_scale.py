"""One store of millions of answers: what starting a run, status, score, merge and backup cost, and bytes per answer.

    python benchmarks/store_scale.py [--sentences 25000,100000] [--folder DIR]

Each size is one set of so many sentences and twenty models that have answered all of them. 500,000 sentences are ten
million answers: a store of 4.2 GB, some 13 GB below ``--folder`` while it is merged (source, destination and the log of
that), some hundred megabytes in SQLite's temporary folder, and minutes to make. What is not needed any more is taken
away at once. The commands run as processes of their own; printed are their times, the processor's share, their highest
memory, the most that stood in the folder, and the time per answer against that of the first size: about 1 means linear.
"Status, nothing counted" is that of a store whose answers nobody counted yet. Run and set are registered by the
project's own code; the answers are filled in by one SQL statement, in the order in which a run that asks all models at
once would have stored them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from _runner import write_experiment, write_model, write_set

from hatevolution.runner.plan import make_plan
from hatevolution.runner.provenance import new_run_id
from hatevolution.runner.register import register
from hatevolution.store.opened import WritableStore

MODELS = 20

ANSWERS = """
INSERT INTO responses (response, run, received_at, latency_s, base_url, http_status, served_model, body)
SELECT s.position * :models + m.position + 1, :run, '2026-01-01T00:00:00.000Z', 0.05, 'http://127.0.0.1:9/v1', 200,
       'fake/model', '{"choices":[{"index":0,"text":" toxic","finish_reason":"stop"}],"usage":{"prompt_tokens":60}}'
FROM sentences AS s, models AS m
"""
PREDICTIONS = """
INSERT INTO predictions (model, dataset, sentence, status, raw_text, finish_reason, prompt_sha256, attempts, run,
                         response)
SELECT m.model, s.dataset, s.sentence, 'answered',
       CASE WHEN (s.position * 7 + m.position * 13) % 29 = 0 THEN 'The input text is number ' || s.position % 400
            WHEN (s.position + m.position) % 3 = 0 THEN 'toxic' ELSE 'respectful' END,
       'stop', h.sha256, 1, :run, s.position * :models + m.position + 1
FROM models AS m, sentences AS s JOIN temp.hashes AS h ON h.position = s.position
ORDER BY s.position, m.position
"""


class Took(NamedTuple):
    """What a process took."""

    seconds: float
    processor_s: float
    peak_mb: float
    folder_gb: float
    """The most that stood in the folder meanwhile."""


def size_gb(folder: Path) -> float:
    """Return how much stands in a folder."""
    found = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # a log that was just taken away
            found += path.stat().st_size
    return found / 1e9


def make(where: Path, sentences: int) -> Path:
    """Make a store in which everything is answered, and the experiment that it answers; return the store."""
    write_set(where, sentences)
    names = [f"model-{number:02}" for number in range(MODELS)]
    for name in names:
        write_model(where, "http://127.0.0.1:9/v1", name=name)
    experiment = write_experiment(where, names, ["set"])
    # `write_model` names each model "model"; a store needs names of their own.
    for name in names:
        path = where / f"{name}.model.toml"
        path.write_text(path.read_text().replace('name = "model"', f'name = "{name}"'))
    store = where / "s.db"
    plan, run = make_plan(str(experiment), store=str(store), data=None, models=None, datasets=None), new_run_id()
    with WritableStore(store, run) as opened:
        register(opened, plan, run, [])
        prompt = plan.models[0].prompt  # the same for all
        assert prompt is not None
        opened.connection.create_function("prompt_sha256", 1, prompt.sha256, deterministic=True)
        opened.connection.execute(
            "CREATE TEMP TABLE hashes AS SELECT position, prompt_sha256(text) AS sha256 FROM sentences"
        )
        opened.connection.execute("CREATE UNIQUE INDEX temp.by_position ON hashes (position)")
        with opened.transaction() as connection:
            values = {"run": run, "models": MODELS}
            connection.execute(ANSWERS, values)
            connection.execute(PREDICTIONS, values)
        opened.end_run(run, "2026-01-01T00:00:00.000Z", "complete")
    return store


def timed(folder: Path, *arguments: str) -> Took:
    """Run the command; anything but success is an error."""
    sizes, done = [size_gb(folder)], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            sizes.append(size_gb(folder))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        return _timed(arguments)._replace(folder_gb=max(sizes))
    finally:
        done.set()
        looker.join()


def _timed(arguments: tuple[str, ...]) -> Took:
    program = str(Path(sys.executable).with_name("hatevolution"))
    begun = time.perf_counter()
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said.decode()
    return Took(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, 0.0)


def uncount(store: Path) -> None:
    """Make nothing counted, as in a store of an older version."""
    with WritableStore(store, "benchmark") as opened, opened.transaction() as connection:
        connection.execute("DELETE FROM tallies")
        connection.execute("UPDATE tallied SET through = 0")


def count(store: Path) -> None:
    """Count all answers, as a run does while it stores them."""
    begun = time.perf_counter()
    with WritableStore(store, "benchmark") as opened:
        opened.count_answers()
    print(f"  counted in {time.perf_counter() - begun:.1f} s", flush=True)


def measure(where: Path, sentences: int) -> dict[str, float]:
    """Measure one size and return seconds per answer by command."""
    begun = time.perf_counter()
    store, rows = make(where, sentences), sentences * MODELS
    size = store.stat().st_size
    print(
        f"{rows:,} answers, made in {time.perf_counter() - begun:.0f} s: {size / 1e9:.2f} GB, "
        f"{size / rows:.0f} bytes per answer, response included",
        flush=True,
    )
    commands = {
        "status, nothing counted": ("status", "--store", str(store), "--json"),
        "run, nothing left": ("run", str(where / "x.toml"), "--store", str(store)),
        "status": ("status", "--store", str(store), "--json"),
        "score": ("score", "--store", str(store), "--json"),
        "merge, all new": ("store", "merge", str(store), "--store", str(where / "merged.db")),
        "merge, all known": ("store", "merge", str(store), "--store", str(where / "merged.db")),
        "backup": ("store", "backup", "--store", str(store), "--out", str(where / "backup.db")),
    }
    found = {}
    uncount(store)
    for name, arguments in commands.items():
        took = timed(where, *arguments)
        if name == "status, nothing counted":
            count(store)
        if name == "merge, all known":
            (where / "merged.db").unlink()
        found[name] = took.seconds / rows
        print(
            f"  {name:<24} {took.seconds:7.2f} s, {took.processor_s:7.2f} s of processor, {took.peak_mb:6.0f} MB, "
            f"{took.folder_gb:5.1f} GB in the folder",
            flush=True,
        )
    return found


def main() -> None:
    """Measure each size in a folder of its own."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sentences", default="25000,100000")
    options.add_argument("--folder", help="where the stores are made; a temporary folder by default")
    chosen = options.parse_args()
    first: dict[str, float] | None = None
    for sentences in map(int, chosen.sentences.split(",")):
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            found = measure(Path(folder), sentences)
        first = first or found
        ratios = ", ".join(f"{name} {value / first[name]:.2f}" for name, value in found.items())
        print(f"  time per answer, of the first size: {ratios}", flush=True)


if __name__ == "__main__":
    main()
