"""The writer's rate while somebody scans the store without pause.

    python benchmarks/runner_reader.py [ROUNDS]

Promise: it keeps 0.9 of its rate. Answers are handed over as fast as the writer takes them; the reader is another
process that reads all of them again and again. Rounds with and without it are taken in turn and compared by their
medians. Leaves with 1 where the promise is broken. Needs two processors that nobody else uses.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import uvloop
from _runner import folder, verdict

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from run_maker import RUN, fill, model, sentences

from hatevolution.domain import Answer, Item, Reply, Status
from hatevolution.store.opened import WritableStore
from hatevolution.store.rows import AnswerRecord
from hatevolution.store.writer import GroupCommitWriter

COUNT = 150_000

SCAN = """
import sqlite3, sys
connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
print("ready", flush=True)
while True:
    connection.execute(
        "SELECT count(raw_text), sum(length(body)) FROM predictions JOIN responses USING (response)"
    ).fetchone()
"""


def answers() -> list[AnswerRecord]:
    body = '{"choices": [' + '{"index": 0, "text": "respectful", "finish_reason": "stop"}' * 6 + "]}"
    found = []
    for number in range(COUNT):
        said = Answer(Status.ANSWERED, "respectful", None, "stop", "0" * 64, 40, 2)
        reply = Reply([said], body, 200, f"cmpl-{number}", "fake/model", None, 40, 2)
        item = Item("set", f"s{number}", "")
        found.append(AnswerRecord("m", [item], reply, 1, "http://x/v1", "2026-01-01T00:00:00.000Z", 0.05, None))
    return found


async def write(store: WritableStore, records: list[AnswerRecord]) -> None:
    writer = GroupCommitWriter(store.connection, RUN)
    for record in records:
        writer.put(record)
        if writer.full:
            await writer.room()
    await writer.close()


def once(where: Path, records: list[AnswerRecord], *, scanned: bool) -> float:
    """Return the rate, in answers a second."""
    reader = None
    with WritableStore(where / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(COUNT)})
        if scanned:
            command = [sys.executable, "-P", "-c", SCAN, str(where / "s.db")]
            reader = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert reader.stdout is not None
            reader.stdout.readline()
        try:
            begun = time.perf_counter()
            uvloop.run(write(store, records))
            taken = time.perf_counter() - begun
        finally:
            if reader is not None:
                reader.kill()
                reader.wait()
    for path in where.iterdir():
        path.unlink()
    return COUNT / taken


def main() -> int:
    """Measure with and without the reader."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    records = answers()
    alone, beside = [], []
    with folder() as where:
        for _ in range(rounds):
            alone.append(once(where, records, scanned=False))
            beside.append(once(where, records, scanned=True))
    base, taken = statistics.median(alone), statistics.median(beside)
    print(f"writer alone {base:.0f}/s, beside a reader {taken:.0f}/s")
    return 0 if verdict("  of its rate", taken / base, 0.9, least=True) else 1


if __name__ == "__main__":
    sys.exit(main())
