"""How long ``hatevolution --help`` takes beside an interpreter that does nothing.

The promise: at most three times ``python -c pass``, plus 0.2 s. Leaves with 1 where it is broken.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measure both in turn, so that a busy machine slows both alike, and compare the medians."""
    program = Path(sys.executable).with_name("hatevolution")
    nothing, helped = [], []
    for _ in range(ROUNDS):
        nothing.append(seconds([sys.executable, "-c", "pass"]))
        helped.append(seconds([str(program), "--help"]))
    base, taken = statistics.median(nothing), statistics.median(helped)
    allowed = 3 * base + 0.2
    print(f"python -c pass       {base * 1000:6.0f} ms")
    print(
        f"hatevolution --help  {taken * 1000:6.0f} ms, {taken / base:.1f} times that; allowed: {allowed * 1000:.0f} ms"
    )
    return 0 if taken <= allowed else 1


if __name__ == "__main__":
    sys.exit(main())
