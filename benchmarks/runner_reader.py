"""The writer's rate while somebody scans the store without pause.

    python benchmarks/runner_reader.py [ROUNDS]

Promise: it keeps 0.9 of its rate. The reader is another process that reads all answers again and again; the run asks a
server that answers at once, with lists of 32. Rounds with and without the reader are taken in turn and compared by
their medians. Leaves with 1 where the promise is broken.

With two processors, reader, server and run share them: to see what the store itself costs, the server's share is left
out by a lane that is paced to a third of what it could do.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from _runner import ask, fast_server, folder, verdict, write_experiment, write_model, write_set

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 60_000

SCAN = """
import sqlite3, sys, time
while True:
    try:
        connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
        while True:
            connection.execute(
                "SELECT count(raw_text), sum(length(body)) FROM predictions JOIN responses USING (response)"
            ).fetchone()
    except sqlite3.Error:
        time.sleep(0.01)
"""


def once(where: Path, *, scanned: bool) -> float:
    """Return the rate of one run, in answers a second."""
    reader = None
    if scanned:
        reader = subprocess.Popen([sys.executable, "-P", "-c", SCAN, str(where / "s.db")], stderr=subprocess.DEVNULL)
    try:
        return COUNT / ask(where).seconds
    finally:
        if reader is not None:
            reader.kill()
            reader.wait()


def main() -> int:
    """Measure with and without the reader."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    kept = []
    for name, endpoint in (
        ("unpaced", {"batch_size": 32, "max_concurrency": 64}),
        ("paced", {"batch_size": 8, "max_concurrency": 64, "requests_per_minute": 60_000}),
    ):
        with folder() as where, fast_server() as base_url:
            write_set(where, COUNT)
            write_model(where, base_url, **endpoint)
            write_experiment(where, ["model"], ["set"])
            alone, beside = [], []
            for _ in range(rounds):
                alone.append(once(where, scanned=False))
                beside.append(once(where, scanned=True))
        base, taken = statistics.median(alone), statistics.median(beside)
        print(f"{name}: alone {base:.0f}/s, beside a reader {taken:.0f}/s")
        kept.append(verdict("  of its rate", taken / base, 0.9, least=True))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
