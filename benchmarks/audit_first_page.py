"""How long ``hatevolution audit`` takes to its first page, and what else it does, on 330 thousand answers.

The promise: the first page within a second, the interpreter's start included, in bounded memory. Leaves with 1 where it
is broken. On a busy machine the processor time says more than the clock; both are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -P leaves it out

from analysis_data import build

PROMISE_S: Final = 1.0
MEMORY_MIB: Final = 600
ROUNDS: Final = 5
COMMANDS: Final = {
    "first page": [],
    "page 300": ["--page", "300"],
    "every answer": ["--parsed", "any"],
    "refused ones": ["--status", "refused"],
    "a rare kind": ["--kind", "refusal"],
    "another policy": ["--parser", "strict"],
    "search": ["--search", "number 17"],
    "pairs": ["--pairs"],
    "disagreements": ["--disagreements"],
    "two readings": ["--differ", "paper,lenient"],
    "kinds": ["--kinds"],
    "all broken to .csv": ["--export", "{folder}/x.csv"],
    "all answers to .parquet": ["--parsed", "any", "--export", "{folder}/x.parquet"],
}


def measured(arguments: list[str]) -> tuple[float, float, float]:
    """Run the command; return seconds by the clock, seconds of the processor, and MiB at its peak."""
    # Installed programs have their bytecode; without it every start would compile the sources anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with Path(os.devnull).open("w") as nothing:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "hatevolution", "audit", *arguments],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1), (os.POSIX_SPAWN_DUP2, nothing.fileno(), 2)],
        )
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{arguments} ended with {os.waitstatus_to_exitcode(status)}")
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit


def main() -> int:
    """Measure every command; the first page several times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--factor", type=int, default=1, help="times 327,600 answers")
    factor = parser.parse_args().factor
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "s.db"
        print(f"{build(store, factor=factor):,} answers, {store.stat().st_size / 2**20:.0f} MiB")
        first, peak = 0.0, 0.0
        for name, more in COMMANDS.items():
            arguments = ["--store", str(store), *(part.format(folder=folder) for part in more)]
            rounds = [measured(arguments) for _ in range(ROUNDS if not more else 1)]
            clock, processor, memory = (statistics.median(column) for column in zip(*rounds, strict=True))
            first, peak = (min(round_[0] for round_ in rounds) if not more else first), max(peak, memory)
            print(f"{name:<24} {clock:6.2f} s  {processor:6.2f} s of the processor  {memory:5.0f} MiB")
    kept = factor > 1 or (first <= PROMISE_S and peak <= MEMORY_MIB)
    print(f"first page, best of {ROUNDS}: {first:.2f} s; promised: {PROMISE_S} s and {MEMORY_MIB} MiB at most")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
