"""How large the page about 330 thousand predictions is, and how long `hatevolution report` takes to make it.

The promise: below 15 MB, in less than 20 s. Leaves with 1 where it is broken. The processor's seconds stand beside
the wall clock's, which on a busy machine tells of the machine.
"""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from analysis_data import build

MOST_BYTES = 15_000_000
MOST_SECONDS = 20.0
BODY = '{"id":"cmpl-%d","object":"text_completion","choices":[{"index":0,"text":"toxic","finish_reason":"stop"}]}'


def with_responses(path: Path) -> None:
    """Give every prediction a response of its own, as APIs that take one sentence at a time do."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER predictions_are_final")
        run = connection.execute("SELECT run FROM runs").fetchone()[0]
        rows = connection.execute("SELECT rowid FROM predictions").fetchall()
        connection.executemany(
            "INSERT INTO responses (response, run, received_at, latency_s, base_url, http_status, served_model,"
            " prompt_tokens, completion_tokens, body) VALUES (?, ?, '2025-01-01T00:00:00Z', 0.1, 'http://127.0.0.1/v1',"
            " 200, 'served', 40, 3, ?)",
            ((row, run, (BODY % row) + " " * 400) for (row,) in rows),
        )
        connection.execute("UPDATE predictions SET response = rowid")
    connection.close()


def main() -> int:
    """Make a store and the page about it; print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        store, page = Path(folder) / "store.db", Path(folder) / "report.html"
        count = build(store)
        with_responses(store)
        program = Path(sys.executable).with_name("hatevolution")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run([str(program), "report", "--store", str(store), "--out", str(page)], check=True)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size = page.stat().st_size
    print(f"predictions        {count:12,}")
    print(f"page               {size / 1e6:12.2f} MB, allowed: {MOST_BYTES / 1e6:.0f} MB")
    print(f"time               {seconds:12.1f} s, allowed: {MOST_SECONDS:.0f} s")
    print(f"processor time     {processor:12.1f} s")
    print(f"peak memory        {after.ru_maxrss / 1024:12.0f} MB")
    return 0 if size < MOST_BYTES and seconds < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
