"""The whole command beside the whole bare script: 4000 sentences, 128 in flight, a server that takes 50 ms.

    python benchmarks/runner_command.py [ROUNDS]

Promise: at most 1.3 times the bare script's wall time, start-up included. Medians of rounds taken in turn. Leaves with
1 where it is broken.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from _runner import fast_server, folder, verdict, write_experiment, write_model, write_set

COUNT, CONCURRENCY, LATENCY_S = 4_000, 128, 0.05


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of a process."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> int:
    """Measure both in turn."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    program = str(Path(sys.executable).with_name("hatevolution"))
    script = str(Path(__file__).with_name("_runner.py"))
    theirs, ours = [], []
    with folder() as where, fast_server(LATENCY_S) as base_url:
        write_set(where, COUNT)
        write_model(where, base_url, max_concurrency=CONCURRENCY)
        experiment = str(write_experiment(where, ["model"], ["set"]))
        for number in range(rounds):
            theirs.append(seconds([sys.executable, "-P", script, base_url, str(COUNT), str(CONCURRENCY)]))
            ours.append(seconds([program, "run", experiment, "--store", str(where / f"{number}.db")]))
    base, taken = statistics.median(theirs), statistics.median(ours)
    print(f"bare script {base:.2f} s, command {taken:.2f} s (best {min(theirs):.2f} and {min(ours):.2f})")
    return 0 if verdict("  times the bare script", taken / base, 1.3, least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
