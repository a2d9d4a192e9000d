"""A million sentences: how soon the first request goes out, how much memory it takes, how soon a second start is done.

    python benchmarks/runner_million.py [SENTENCES]

Promises: first request within 3 s of the start and peak memory at most 50 MB above that of a thousand sentences; the
second start of a finished million says so within 2 s. The first start of all has to read the file, check it and put a
million sentences into the store; its time is shown, and promised is its memory alone (SQLite needs 2.5 s for the rows
by themselves, ``INSERT ... SELECT``). Leaves with 1 where a promise is broken.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from _runner import fast_server, folder, verdict, write_experiment, write_model, write_set

if TYPE_CHECKING:
    from pathlib import Path

MEASURE = """
import json, resource, sys, time
begun = time.perf_counter()
from hatevolution.adapters.models import completions
asked = completions.Completions.ask
first = None
async def ask(self, items, base_url):
    global first
    if first is None:
        first = time.perf_counter() - begun
    return await asked(self, items, base_url)
completions.Completions.ask = ask
from hatevolution.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"first": first, "whole": time.perf_counter() - begun, "peak": peak, "code": code}))
"""


class Measured(NamedTuple):
    """One start of the command."""

    first_s: float | None
    whole_s: float
    peak_mb: float


def start(where: Path, *more: str) -> Measured:
    """Run the command in a process of its own, with a look at its first request."""
    command = [sys.executable, "-P", "-c", MEASURE, "run", str(where / "x.toml"), "--store", str(where / "s.db"), *more]
    begun = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["code"] == 0, done.stderr
    # The interpreter's own start belongs to it.
    extra = time.perf_counter() - begun - said["whole"]
    first = None if said["first"] is None else said["first"] + extra
    return Measured(first, said["whole"] + extra, said["peak"] / 1e6)


def prepared(where: Path, base_url: str, count: int) -> None:
    write_set(where, count)
    write_model(where, base_url, max_concurrency=128, batch_size=32)
    write_experiment(where, ["model"], ["set"])


def main() -> int:
    """Measure a thousand and a million."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    kept = []
    with fast_server() as base_url:
        with folder() as where:
            prepared(where, base_url, 1_000)
            small = start(where)
            print(f"{1_000:>9,} sentences: first request after {small.first_s:.2f} s, peak {small.peak_mb:.0f} MB")
        with folder() as where:
            prepared(where, base_url, count)
            new = start(where, "--limit", "1")
            assert new.first_s is not None
            print(
                f"{count:>9,} sentences: first start of all: first request after {new.first_s:.2f} s, "
                f"{count / new.first_s:.0f} rows/s"
            )
            big = start(where)
            rate = count / big.whole_s
            print(
                f"{count:>9,} sentences pending: first request after {big.first_s:.2f} s, peak {big.peak_mb:.0f} MB, "
                f"done in {big.whole_s:.0f} s ({rate:.0f}/s)"
            )
            again = start(where)
            print(f"{count:>9,} sentences done: says so after {again.whole_s:.2f} s")
    assert big.first_s is not None
    assert again.first_s is None
    kept.append(verdict("  pending: seconds to the first request", big.first_s, 3.0, least=False))
    kept.append(verdict("  peak memory above that of a thousand, MB", big.peak_mb - small.peak_mb, 50.0, least=False))
    kept.append(
        verdict("  peak memory of the first start of all above it, MB", new.peak_mb - small.peak_mb, 50.0, least=False)
    )
    kept.append(verdict("  seconds of the second start of a finished set", again.whole_s, 2.0, least=False))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
