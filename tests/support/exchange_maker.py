"""Stores for tests of merging, exporting, verifying and backing up, written as a run writes them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from run_maker import dataset_record, model, run_record

from hatevolution.configs.fingerprint import specification
from hatevolution.configs.prompts import Prompt
from hatevolution.domain import Answer, Item, Label, Reply, Sentence, Status
from hatevolution.store.opened import ModelRecord, WritableStore
from hatevolution.store.rows import AnswerRecord, FailureRecord, IntentRecord, Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PROMPT = Prompt("test", 1, "Say it: ", ".\nAnswer: ", "You are {careful}.")
ODD_TEXTS = ("a\0b", "\ud800 broken", "\x1b[31mred", "[bold]x[/bold]", "", " ", "ünï 🎈 \u202e", "=1+1", "x" * 5000)


def some_sentences(count: int, *, text: str = "sentence number {}", year: bool = True) -> list[Sentence]:
    """Sentences with golds, years, meta and, every tenth, an odd text."""
    return [
        Sentence(
            id=f"s{n}",
            text=ODD_TEXTS[n // 10 % len(ODD_TEXTS)] if n % 10 == 9 else text.format(n),
            gold=list(Label)[n * 7 // 3 % 2],
            gold_raw=str(n * 7 // 3 % 2),
            year=2017 + n % 5 if year else None,
            target="\ud800 group" if n % 13 == 5 else None,
            meta={"note": f"n\ud800{n}"} if n % 17 == 3 else {},
        )
        for n in range(count)
    ]


_templates: dict[str, Path] = {}
_folder = TemporaryDirectory(prefix="exchange-maker-")


def _template(models: Sequence[str], sets: dict[str, list[Sentence]], fields: dict[str, Any]) -> Path:
    """A store with models and data sets and no answer, made once as a run makes it and then copied."""
    key = repr((models, sets, fields))
    if key not in _templates:
        path = Path(_folder.name) / f"{len(_templates)}.db"
        with WritableStore(path, "template") as store, store.transaction():
            store.add_run(run_record("template", models, sets))
            for name in models:
                spec = specification(model(name, **fields), PROMPT)
                store.put_model(ModelRecord(name, name.title(), spec, {"name": name, "adapter": "scripted"}))
            for name, rows in sets.items():
                store.put_dataset(dataset_record(name, licence="MIT", source="https://example.org"), rows)
        _templates[key] = path
    return _templates[key]


class Shard:
    """A store that one run writes to, request by request."""

    def __init__(
        self,
        path: Path,
        run: str,
        *,
        models: Sequence[str] = ("m",),
        datasets: dict[str, list[Sentence]] | None = None,
        **fields: Any,
    ) -> None:
        self.path = path
        self.run = run
        self.sets = {"set": some_sentences(20)} if datasets is None else datasets
        self._clock = 0
        shutil.copy(_template(models, self.sets, fields), path)
        with self._writing() as connection:
            for table in ("runs", "models", "datasets"):
                connection.execute(f"UPDATE {table} SET run = ?", [run])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection, but for the syncing, which takes most of a small test's time."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            yield connection

    def _at(self) -> str:
        self._clock += 1
        return f"2026-01-01T00:{self._clock // 60:02d}:{self._clock % 60:02d}.000Z"

    def ask(
        self,
        texts: Iterable[tuple[str, str | None]],
        *,
        dataset: str = "set",
        name: str = "m",
        batch: int = 4,
        status: Status = Status.ANSWERED,
        body: str | bytes | None = None,
        **fields: Any,
    ) -> Shard:
        """Store answers to sentences, ``(id, raw text)``, several to a response."""
        known = {sentence.id: sentence for sentence in self.sets[dataset]}
        pairs = list(texts)
        with self._writing() as connection:
            (highest,) = connection.execute("SELECT coalesce(max(response), 0) FROM responses").fetchone()
            for start in range(0, len(pairs), batch):
                part = pairs[start : start + batch]
                tables = Tables(self.run)
                highest += 1
                tables.answer(highest, self._answer(part, known, dataset, name, status, body, fields))
                tables.write(connection)
        return self

    def _answer(
        self,
        part: list[tuple[str, str | None]],
        known: dict[str, Sentence],
        dataset: str,
        name: str,
        status: Status,
        body: str | bytes | None,
        fields: dict[str, Any],
    ) -> AnswerRecord:
        answers = [Answer(status, text, prompt_sha256=PROMPT.sha256(known[key].text), **fields) for key, text in part]
        made = json.dumps({"choices": [{"index": at, "text": text} for at, (_, text) in enumerate(part)]})
        items = [Item(dataset, key, known[key].text) for key, _ in part]
        reply = Reply(
            answers,
            made if body is None else body,
            http_status=200,
            request_id=f"{self.run}-{self._clock}",
            prompt_tokens=10 * len(part),
            completion_tokens=len(part),
        )
        return AnswerRecord(name, items, reply, 1, "http://one/v1", self._at(), 0.1 + self._clock / 7, 0.1 / 3)

    def fail(self, keys: Iterable[str], *, dataset: str = "set", name: str = "m", message: str = "late") -> Shard:
        items = [Item(dataset, key, "") for key in keys]
        record = FailureRecord(
            name,
            items,
            1,
            "timeout",
            message,
            None,
            None,
            "\ud800 body",
            None,
            "http://one/v1",
            self._at(),
            1 / 3,
            True,
        )
        tables = Tables(self.run)
        tables.failure(record)
        with self._writing() as connection:
            tables.write(connection)
        return self

    def intend(self, keys: list[str], *, dataset: str = "set", name: str = "m") -> int:
        with self._writing() as connection:
            (number,) = connection.execute("SELECT coalesce(max(intent), 0) + 1 FROM intents").fetchone()
            tables = Tables(self.run)
            tables.intent(IntentRecord(number, name, dataset, keys, self._at()))
            tables.write(connection)
        return int(number)

    def end(self, outcome: str = "complete") -> Shard:
        with self._writing() as connection:
            connection.execute(
                "UPDATE runs SET ended_at = '2026-01-02T00:00:00.000Z', outcome = ? WHERE run = ?", [outcome, self.run]
            )
        return self


def rows(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Ask a store with SQL."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


_CONTENT = {
    "runs": "*",
    "models": "model, title, fingerprint, specification, configuration, run",
    "datasets": "dataset, title, source, licence, files, loader, sentences, content_sha256, run",
    "sentences": "*",
    "failures": "model, dataset, sentence, run, failed_at, attempt, kind, message, body, latency_s, maybe_billed",
    "intents": "run, model, dataset, sentences, at",
    "answers": "*",
    "second_answers": "model, dataset, sentence, status, raw_text, scores, run, agrees",
    "verdicts": "model, dataset, sentence, judgement, who, judged_at",
}


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that a store says, without the numbers that only it gives; sorted."""
    return {
        table: sorted(rows(path, f"SELECT {columns} FROM {table}"), key=repr) for table, columns in _CONTENT.items()
    }
