"""A lane that may send little beside three that may send much: the whole takes no longer than the slowest alone.

    python benchmarks/runner_lanes.py

1 request a second and 100 a second, ten times as fast here: 10 and 1000. Promise: at most 1.03 times the slowest lane's
own bound. Leaves with 1 where it is broken.
"""

from __future__ import annotations

import sys

from _runner import ask, fast_server, folder, verdict, write_experiment, write_model, write_set

SLOW_A_SECOND, QUICK_A_SECOND, LATENCY_S = 10, 1_000, 0.05
SECONDS = 20


def main() -> int:
    """Run the four lanes side by side."""
    with folder() as where, fast_server(LATENCY_S) as base_url:
        root = base_url.removesuffix("/v1")
        write_set(where, SLOW_A_SECOND * SECONDS)
        # Addresses that differ, as far as the runner can tell: local servers of one address are asked in turn.
        write_model(where, base_url, "slow", max_concurrency=16, requests_per_minute=60 * SLOW_A_SECOND)
        names = ["slow"]
        for number, spelled in enumerate((f"{root}/v1/", root.replace("127.0.0.1", "localhost"), f"{root}/")):
            names.append(f"quick{number}")
            write_model(where, spelled, names[-1], max_concurrency=128, requests_per_minute=60 * QUICK_A_SECOND)
        write_experiment(where, names, ["set"])
        taken = ask(where).seconds
    bound = SECONDS - 1 / SLOW_A_SECOND + LATENCY_S - 1  # a second's worth may go out at once
    print(f"four lanes {taken:.2f} s, the slowest one's bound {bound:.2f} s")
    return 0 if verdict("  times the bound", taken / bound, 1.03, least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
