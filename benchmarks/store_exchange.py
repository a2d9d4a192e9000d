"""What merge, export, import, verify and backup cost, and whether they stay linear; bytes per answer.

    python benchmarks/store_exchange.py [ROWS ...]      (default: 50000 200000)

Each store has one model, one set and four answers a response, with bodies like those of a completions endpoint. Times
are of one try; what counts is the last column, the processor's microseconds per answer, which has to stay the same from
size to size and does not depend on who else uses the machine. Texts and bodies repeat themselves more than real ones
do, so the Parquet files are smaller than real ones. Also measured: what compressing each body on its own would save
(design/exchange.md).
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
import time
import zlib
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hatevolution.domain import Answer, Item, Label, Reply, Sentence, Status
from hatevolution.store.exchange.backup import backup_store
from hatevolution.store.exchange.exporting import export_store
from hatevolution.store.exchange.importing import import_folder
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import verify_store
from hatevolution.store.opened import DatasetRecord, ModelRecord, RunRecord, WritableStore
from hatevolution.store.rows import AnswerRecord, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BATCH = 4
_WORDS = (
    "people", "here", "say", "that", "words", "change", "and", "nobody", "knows", "what", "they", "will", "mean", "in",
    "ten", "years", "from", "now",
)  # fmt: skip


def _sentences(count: int) -> Iterator[Sentence]:
    for n in range(count):
        text = " ".join(_WORDS[(n * 7 + k * k) % len(_WORDS)] for k in range(18)) + f" {n}"
        yield Sentence(id=f"row-{n}", text=text, gold=list(Label)[n % 2], gold_raw=str(n % 2), year=2017 + n % 5)


def _body(number: int, count: int) -> str:
    choices = [
        {"index": at, "text": " toxic" if (number + at) % 3 else " respectful", "logprobs": None,
         "finish_reason": "stop", "stop_reason": None, "token_ids": None, "prompt_logprobs": None,
         "prompt_token_ids": None}
        for at in range(count)
    ]  # fmt: skip
    return json.dumps({
        "id": f"cmpl-{number:032x}", "object": "text_completion", "created": 1764000000 + number // 50,
        "model": "google/flan-t5-xl", "choices": choices, "service_tier": None, "system_fingerprint": None,
        "usage": {"prompt_tokens": 160 + number % 40, "total_tokens": 168 + number % 40, "completion_tokens": 8,
                  "prompt_tokens_details": None},
        "kv_transfer_params": None,
    })  # fmt: skip


def make(path: Path, rows: int, run: str, first: int = 0, last: int | None = None) -> None:
    """Make a store with a set of ``rows`` sentences, answered from ``first`` to before ``last``."""
    spec = {"adapter": "vllm-completions", "model": "google/flan-t5-xl", "prompt": None}
    with WritableStore(path, run) as store:
        store.connection.execute("PRAGMA synchronous = OFF")
        with store.transaction() as connection:
            configuration = {"models": [{"name": "m"}], "datasets": [{"name": "set"}]}
            store.add_run(RunRecord(run, "2026-01-01T00:00:00.000Z", "bench", [], configuration, {}, None))
            store.put_model(ModelRecord("m", "m", spec, {"name": "m"}))
            files = [{"name": "set.csv", "sha256": "0" * 64, "bytes": rows}]
            store.put_dataset(DatasetRecord("set", "set", None, None, files, {}), _sentences(rows))
            stream = islice(_sentences(rows), first, last)
            for number in range(1, 2**62):
                part = list(islice(stream, _BATCH))
                if not part:
                    break
                tables = Tables(run)
                answers = [Answer(Status.ANSWERED, " toxic", None, "stop", f"{number:064x}") for _ in part]
                reply = Reply(answers, _body(number, len(part)), 200, f"req-{number}", prompt_tokens=160)
                items = [Item("set", sentence.id, sentence.text) for sentence in part]
                at = f"2026-01-01T00:00:00.{number % 1000:03d}Z"
                tables.answer(number, AnswerRecord("m", items, reply, 1, "http://one/v1", at, 0.1, None))
                tables.write(connection)


def _timed(what: str, rows: int, work: Callable[[], object]) -> None:
    begun, used = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    print(
        f"{rows:>10,}  {what:<20} {seconds:8.2f} s  {cpu:8.2f} s CPU  {1e6 * cpu / rows:7.1f} us CPU/answer", flush=True
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _shards(folder: Path, rows: int, count: int) -> list[Path]:
    """Cut a store's work into shards, each of a run of its own that knows the whole set."""
    size = -(-rows // count)
    paths = []
    for n in range(count):
        paths.append(folder / f"shard{n}.db")
        make(paths[-1], rows, f"shard-{n}", n * size, (n + 1) * size)
    return paths


def measure(rows: int, folder: Path) -> None:
    """Measure everything on one store of so many answers."""
    store = folder / "s.db"
    make(store, rows, "run-1")
    print(f"{rows:>10,}  {store.stat().st_size / rows:.0f} bytes per answer in SQLite, its sentence included")
    _timed("verify", rows, lambda: list(verify_store(store)))
    _timed("backup, verified", rows, lambda: backup_store(store, folder / "b.db"))
    _timed("export", rows, lambda: export_store(store, folder / "out"))
    print(f"{rows:>10,}  {_size(folder / 'out') / rows:.0f} bytes per answer as Parquet")
    _timed("import", rows, lambda: import_folder(folder / "out", folder / "back.db"))
    _timed("merge, all new", rows, lambda: merge_stores([store], folder / "merged.db"))
    _timed("merge, all known", rows, lambda: merge_stores([store], folder / "merged.db"))
    paths = _shards(folder, rows, 8)
    _timed("merge of 8 shards", rows, lambda: merge_stores(paths, folder / "all.db"))


def compression(path: Path) -> None:
    """Print what compressing each body on its own would save."""
    with closing(sqlite3.connect(path)) as connection:
        bodies = [body.encode() for (body,) in connection.execute("SELECT body FROM responses LIMIT 20000")]
        (total,) = connection.execute("SELECT sum(length(body)) FROM responses").fetchone()
    plain = sum(map(len, bodies))
    begun = time.perf_counter()
    alone = sum(len(zlib.compress(body, 6)) for body in bodies)
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    known = 0
    for body in bodies:
        packer = zlib.compressobj(6, zdict=bodies[0])
        known += len(packer.compress(body)) + len(packer.flush())
    with_dictionary = time.perf_counter() - begun
    print(
        f"bodies: {plain / len(bodies):.0f} bytes each, {total / path.stat().st_size:.0%} of the file; "
        f"zlib alone {alone / plain:.0%} of that ({1e6 * seconds / len(bodies):.0f} us each), "
        f"with a dictionary {known / plain:.0%} ({1e6 * with_dictionary / len(bodies):.0f} us each)"
    )


def main() -> None:
    """Measure stores of the sizes given."""
    for rows in [int(word) for word in sys.argv[1:]] or [50_000, 200_000]:
        folder = Path(tempfile.mkdtemp(prefix="store-exchange-"))
        try:
            measure(rows, folder)
            compression(folder / "s.db")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
