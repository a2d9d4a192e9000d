"""All intervals, ranks, paired tests, correlations, trends and agreement of the study's size, on one core.

21 models x 15,600 sentences, 2,000 resamples. The process pins itself to one core and its libraries to one thread.

Run: ``python benchmarks/analysis_intervals.py [--resamples 2000]``
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--resamples", type=int, default=2000)
    chosen = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read when the libraries are loaded, hence before their imports
    from analysis_data import build

    from hatevolution.analysis.correlation import every_pair
    from hatevolution.analysis.frames import load
    from hatevolution.analysis.rankings import rankings
    from hatevolution.analysis.scores import scores
    from hatevolution.analysis.statistics import statistics

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        rows = build(path)
        study = load(path)
        found = scores(study)
        ranked = rankings(study, found)
        wall, core = time.perf_counter(), time.process_time()
        made = statistics(study, found, ranked, every_pair(ranked), seed=1, resamples=chosen.resamples)
        wall, core = time.perf_counter() - wall, time.process_time() - core
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rows} rows, {chosen.resamples} resamples: {made.intervals.height} intervals, {len(made.robust)} correlations"
    )
    print(f"{core:.1f} s of one core ({wall:.1f} s by the clock; at most 10), {used:.0f} MB (below 1000)")


if __name__ == "__main__":
    main()
