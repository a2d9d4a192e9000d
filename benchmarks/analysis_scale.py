"""Time and memory of scoring stores of growing size: linear, streamed, below 4 GB at ten million rows.

Each store is scored in a process of its own, whose highest resident memory is read at its end.

Run: ``python benchmarks/analysis_scale.py [--factors 1,4,31]`` (31 x 327,600 rows are ten million; the store takes some
two gigabytes below ``--folder``, and minutes to make)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from analysis_data import build

SCORE = """
import json, resource, sys, time
from hatevolution.analysis import report
start = time.perf_counter()
made = report.make(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": time.perf_counter() - start, "megabytes": used / 1024, "tables": len(made.tables)}))
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--factors", default="1,4")
    options.add_argument("--folder", help="where the stores are made; a temporary folder by default")
    chosen = options.parse_args()
    first: float | None = None
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "bench.db"
        for factor in map(int, chosen.factors.split(",")):
            start = time.perf_counter()
            rows = build(path, factor=factor)
            made = time.perf_counter() - start
            done = subprocess.run([sys.executable, "-c", SCORE, str(path)], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            per_row = found["seconds"] / rows
            first = per_row if first is None else first
            print(
                f"{rows} rows (made in {made:.0f} s, {path.stat().st_size / 1e9:.2f} GB): {found['seconds']:.2f} s, "
                f"{found['megabytes']:.0f} MB, time per row {per_row / first:.2f} of the first",
                flush=True,
            )


if __name__ == "__main__":
    main()
