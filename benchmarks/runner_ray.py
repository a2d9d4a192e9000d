"""Two workers of a Ray cluster beside one process, on a server that takes 50 ms and clients of 16 requests in flight.

    python benchmarks/runner_ray.py [SENTENCES]

Promise: at most 0.6 times the single process' time, from the first request to the last commit. Ray's own start (a
cluster on this machine, and its workers) is not part of that and told beside it. Leaves with 1 where it is broken.
"""

from __future__ import annotations

import sys
import time

from _runner import Clock, Took, ask, fast_server, folder, verdict, write_experiment, write_model, write_set

from hatevolution.runner.plan import make_plan
from hatevolution.runner.ray_cluster.options import RayOptions
from hatevolution.runner.run import RunOptions, execute

LATENCY_S, CONCURRENCY, WORKERS = 0.05, 16, 2


def over_ray(experiment: str, store: str) -> tuple[Took, float]:
    """Ask over a cluster of our own; return what asking took, and how long all the rest did in seconds."""
    plan = make_plan(experiment, store=store, data=None, models=None, datasets=None)
    clock, begun = Clock(), time.perf_counter()
    result = execute(plan, RunOptions(ray=RayOptions(workers=WORKERS)), listeners=[clock])
    whole = time.perf_counter() - begun
    assert result.exit_code == 0, result
    return clock.took(), whole - clock.took().seconds


def main() -> int:
    """Measure both."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
    with folder() as where, fast_server(LATENCY_S) as base_url:
        write_set(where, count)
        write_model(where, base_url, max_concurrency=CONCURRENCY)
        experiment = str(write_experiment(where, ["model"], ["set"]))
        alone = ask(where)
        spread, rest_s = over_ray(experiment, str(where / "ray.db"))
    least = count / CONCURRENCY * LATENCY_S
    print(f"one process {alone.seconds:.2f} s (the server alone: {least:.2f} s), two workers {spread.seconds:.2f} s")
    print(
        f"start and end of Ray, not counted: {rest_s:.2f} s; the driver's own processor time {spread.processor_s:.2f} s"
    )
    return 0 if verdict("  times the single process", spread.seconds / alone.seconds, 0.6, least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
