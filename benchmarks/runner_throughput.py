"""How fast a run is beside a bare aiohttp loop on the same uvloop that keeps nothing; every answer is committed.

    python benchmarks/runner_throughput.py [ROUNDS]

Promises: with one prompt a request, 128 in flight and a server that takes 50 ms, 0.95 of concurrency / latency; against
a server that answers at once, 0.7 of the bare loop; with lists of 32 sentences, 5 times the bare loop's sentences per
second. Both sides are measured in turn and compared by their best rounds. Leaves with 1 where a promise is broken.
"""

from __future__ import annotations

import sys
from typing import Any

from _runner import ask, bare, fast_server, folder, verdict, write_experiment, write_model, write_set

CONCURRENCY = 128
LATENCY_S = 0.05


def compare(count: int, latency_s: float, rounds: int, **endpoint: Any) -> tuple[float, float]:
    """Return the best rates of the bare loop and of the runner, in sentences a second.

    What each sentence costs of the processors' time is printed too: it depends less on who else uses the machine.
    """
    with folder() as where, fast_server(latency_s) as base_url:
        write_set(where, count)
        write_model(where, base_url, max_concurrency=CONCURRENCY, **endpoint)
        write_experiment(where, ["model"], ["set"])
        few = min(count, 30_000)
        bares, ours = [], []
        for _ in range(rounds):
            bares.append(bare(base_url, few, CONCURRENCY))
            ours.append(ask(where))
    theirs_us, ours_us = (
        1e6 * min(took.processor_s for took in found) / size for found, size in ((bares, few), (ours, count))
    )
    print(f"processor time per sentence: bare {theirs_us:.0f} µs, run {ours_us:.0f} µs: {theirs_us / ours_us:.2f}")
    return few / min(took.seconds for took in bares), count / min(took.seconds for took in ours)


def main() -> int:
    """Measure the three cases."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    most = CONCURRENCY / LATENCY_S
    theirs, ours = compare(25_600, LATENCY_S, rounds)
    print(f"50 ms, 128 in flight: bare {theirs:.0f}/s = {theirs / most:.3f}, run {ours:.0f}/s; possible {most:.0f}/s")
    kept = [verdict("  of concurrency / latency", ours / most, 0.95, least=True)]
    theirs, ours = compare(40_000, 0.0, rounds)
    print(f"at once, one a request: bare {theirs:.0f}/s, run {ours:.0f}/s")
    kept.append(verdict("  of the bare loop", ours / theirs, 0.7, least=True))
    theirs, ours = compare(200_000, 0.0, rounds, batch_size=32)
    print(f"at once, lists of 32: bare {theirs:.0f}/s, run {ours:.0f}/s")
    kept.append(verdict("  times the bare loop", ours / theirs, 5.0, least=True))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
