"""``store import`` of answers that others made: matched, recorded as a run, merged like any other store."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.domain import Answer, Item, Reply
from hatevolution.errors import StoreError
from hatevolution.store.exchange.foreign import Matcher, SentenceRow
from hatevolution.store.exchange.foreign_report import ForeignReport, Left
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.scratch import scratch
from hatevolution.store.exchange.watch import silent
from hatevolution.store.opened import RunRecord, WritableStore
from hatevolution.store.reader import connect, holds_anything
from hatevolution.store.rows import AnswerRecord, Tables, insert_rows
from hatevolution.store.second import keep_second
from hatevolution.store.tables import DATASETS, SENTENCES, names
from hatevolution.store.text import decode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hatevolution.configs.prompts import Prompt
    from hatevolution.domain import Sentence
    from hatevolution.store.exchange.foreign import Foreign, Match
    from hatevolution.store.exchange.watch import Tell
    from hatevolution.store.opened import DatasetRecord, ModelRecord

__all__ = ["Origin", "Target", "import_answers"]

_BLOCK: Final = 1_000
_RUNS: Final = "run, started_at, who, command, configuration, versions, git_revision"


class Origin(NamedTuple):
    """Where answers come from."""

    path: Path
    format: str
    sha256: str
    options: dict[str, Any]
    """How it was read; the same file read in another way is another import."""


class Target(NamedTuple):
    """What answers are about."""

    model: ModelRecord
    prompt: Prompt | None
    dataset: str
    record: DatasetRecord | None
    """None: the destination has the set."""
    sentences: Callable[[], Iterable[Sentence]] | None
    match: Match = "id"
    role: str | None = None


def import_answers(
    records: Iterable[Foreign],
    origin: Origin,
    target: Target,
    destination: Path,
    *,
    begun: RunRecord,
    tell: Tell = silent,
) -> ForeignReport:
    """Bring the answers of a file into a store, as one run.

    Existing answers stay; one that says something else is kept apart, as a merge does. Importing a file again changes
    nothing.

    Args:
        records: What was read of the file.
        origin: Which file that is.
        target: Which model's answers to which set they are.
        destination: The store; made where there is none.
        begun: Who imports, when, with what. Its run and configuration are decided here.
        tell: Takes the progress, in records.

    Raises:
        StoreError: No record is about a sentence of the set; the set or model is another one in the destination.
        DataError: The file, or the data set, holds what it may not hold.
    """
    run = _run_of(begun, origin, target, destination)
    report = ForeignReport(
        store=str(destination),
        file=str(origin.path),
        sha256=origin.sha256,
        run=run.run,
        model=target.model.name,
        dataset=target.dataset,
    )
    with scratch(destination) as made:
        made.finish("the import")
        with WritableStore(made.path, run.run) as store, store.transaction():
            store.add_run(run)
            store.put_model(target.model)
            _put_dataset(store, target, destination)
            _Filler(store.connection, run, origin, target, report).fill(records, tell)
        if report.matched:
            outcome = "complete" if not report.missing else "incomplete"
            note = f"imported from {origin.path.name} (sha256 {origin.sha256})"
            with WritableStore(made.path, run.run) as store:
                store.end_run(run.run, run.started_at, outcome, note)
            merged = merge_stores([made.path], destination, tell=tell, names=[str(origin.path)])
            (source,) = merged.sources
            report.answers, report.agreeing, report.conflicting = source.answers, source.agreeing, source.conflicts
            report.conflicts = merged.conflicts
            return report
    first = (report.unmatched or report.failures or [Left(0, "the file has no record")])[0]
    raise StoreError(
        f"Nothing of {origin.path} is an answer to a sentence of {target.dataset}; nothing was imported. Record "
        f"{first.row}: {first.why}."
    )


def _run_of(begun: RunRecord, origin: Origin, target: Target, destination: Path) -> RunRecord:
    """Return the run of this import: the one that imported the same file in the same way before, if there is one."""
    what = [origin.format, origin.sha256, target.model.name, target.dataset, target.match, target.role, origin.options]
    name = f"import-{hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]}"
    if holds_anything(destination):
        with closing(connect(destination)) as connection:
            row = connection.execute(f"SELECT {_RUNS} FROM runs WHERE run = ?", [name]).fetchone()  # noqa: S608 - constants only
        if row is not None:
            run, started_at, who, command, configuration, versions, revision = row
            return RunRecord(
                run, started_at, who, json.loads(command), json.loads(configuration), json.loads(versions), revision
            )
    configuration = {
        "imported": {"file": origin.path.name, "sha256": origin.sha256, "format": origin.format, **origin.options},
        "models": [target.model.configuration],
        "datasets": [{"name": target.dataset}],
    }
    return begun._replace(run=name, configuration=configuration)


def _put_dataset(store: WritableStore, target: Target, destination: Path) -> None:
    """Put the set into the scratch store, from its files or from the destination."""
    if target.record is not None and target.sentences is not None:
        store.put_dataset(target.record, target.sentences())
        return
    with closing(connect(destination)) as connection:
        found = connection.execute(
            f"SELECT {names(DATASETS)} FROM datasets WHERE dataset = ?",  # noqa: S608 - constants only
            [target.dataset],
        ).fetchone()
        if found is None:
            raise StoreError(f"{destination} has no data set {target.dataset!r}; --data names the folder of its files.")
        values = dict(zip(DATASETS, found, strict=True))
        (run,) = store.connection.execute("SELECT run FROM runs").fetchone()
        insert_rows(store.connection, "datasets", names(DATASETS), "", [tuple({**values, "run": run}.values())])
        rows = connection.execute(
            f"SELECT {names(SENTENCES)} FROM sentences WHERE dataset = ? ORDER BY position",  # noqa: S608 - constants only
            [target.dataset],
        )
        while block := rows.fetchmany(_BLOCK):
            insert_rows(store.connection, "sentences", names(SENTENCES), "", block)


class _Filler:
    """Puts matched records into the scratch store."""

    def __init__(
        self, connection: sqlite3.Connection, run: RunRecord, origin: Origin, target: Target, report: ForeignReport
    ) -> None:
        self._connection = connection
        self._run = run
        self._origin = origin
        self._target = target
        self._report = report
        self._prompt = target.prompt
        rows = connection.execute(
            "SELECT sentence, text, pair, role FROM sentences WHERE dataset = ? ORDER BY position", [target.dataset]
        )
        self._matcher = Matcher(
            (SentenceRow(row[0], decode(row[1]), row[2], row[3]) for row in rows), target.match, self._said, target.role
        )
        self._answered: set[str] = set()
        self._numbers = 0

    def _said(self, text: str) -> str:
        prompt = self._prompt
        if prompt is None:
            return text
        rendered = prompt.render(text)
        return rendered if prompt.system is None else f"{prompt.system}\0{rendered}"

    def fill(self, records: Iterable[Foreign], tell: Tell) -> None:
        """Match the records and write those that are answers."""
        report = self._report
        again: list[tuple[str, Foreign]] = []
        tables = Tables(self._run.run)
        for record in records:
            report.rows += 1
            if report.rows % _BLOCK == 0:
                tell(f"reading {self._origin.path.name}", report.rows, None)
                tables.write(self._connection)
                tables = Tables(self._run.run)
            sentence, why = self._matcher.find(record)
            if sentence is not None and self._matcher.differs(record, sentence):
                sentence, why = None, f"its text is not that of the sentence {sentence!r}"
            if sentence is None:
                report.unmatched.append(Left(record.number, why))
            elif record.why_not is not None:
                report.failures.append(Left(record.number, record.why_not))
            elif sentence in self._answered:
                again.append((sentence, record))
            else:
                self._answered.add(sentence)
                self._numbers += 1
                tables.answer(self._numbers, self._record(sentence, record))
        tables.write(self._connection)
        for sentence, record in again:
            self._second(sentence, record)
        report.matched = len(self._answered)
        report.missing = len(self._matcher.sentences) - report.matched

    def _record(self, sentence: str, record: Foreign) -> AnswerRecord:
        text = self._matcher.sentences[sentence]
        sha256 = None
        if record.said is not None:
            said = self._said(text)
            if record.said == said:
                sha256 = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
            else:
                self._report.other_prompts += 1
        tokens = record.prompt_tokens, record.completion_tokens
        answer = Answer(record.status, record.answer, record.scores, record.finish_reason, sha256, *tokens)
        reply = Reply(
            [answer],
            record.record,
            request_id=f"record {record.number}",
            served_model=record.served_model,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
        )
        return AnswerRecord(
            model=self._target.model.name,
            items=[Item(self._target.dataset, sentence, text)],
            reply=reply,
            attempts=1,
            base_url=f"file:{self._origin.path.name}",
            received_at=self._run.started_at,
            latency_s=record.latency_s,
            cost_usd=None,
        )

    def _second(self, sentence: str, record: Foreign) -> None:
        """Keep a file's second answer to a sentence: an epoch, a repeat, a row that stands there twice."""
        self._numbers += 1
        tables = Tables(self._run.run)
        tables.answer(self._numbers, self._record(sentence, record))
        tables.write(self._connection)  # the response alone: the key has its prediction
        keep_second(
            self._connection,
            tables.predictions[0],
            source=str(self._origin.path),
            noticed_at=self._run.started_at,
        )
