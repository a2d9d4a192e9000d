"""``store merge``: everything of some stores into another one, each source in one transaction."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hatevolution.errors import StoreError
from hatevolution.store.exchange import merge_sql as sql
from hatevolution.store.exchange.guards import Guard
from hatevolution.store.exchange.merge_verdicts import merge_verdicts
from hatevolution.store.exchange.watch import interruptible, silent
from hatevolution.store.files import beside
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect, holds_anything, uri
from hatevolution.store.tables import has_table
from hatevolution.store.text import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hatevolution.store.exchange.watch import Tell

__all__ = ["Conflict", "MergeReport", "Merged", "merge_stores"]

_LOCK_NAME: Final = "merge"
_SHOWN: Final = 100
"""Conflicts that a report spells out; the view ``conflicts`` has all of them."""
_CACHE_KIB: Final = 256 * 1024
"""Pages of the destination kept in memory: shards of one data set insert all over its index."""

_SOURCE_CACHE_KIB: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Two answers to one key."""

    model: str
    dataset: str
    sentence: str
    kept: str
    """What the first answer says, which stays."""
    other: str
    """What the source's answer says, which is kept apart."""
    source: str


@dataclass(kw_only=True)
class Merged:
    """What came of one source. Counts are of new rows; ``agreeing`` and ``conflicts`` are of all that it has."""

    source: str
    runs: int = 0
    models: int = 0
    datasets: int = 0
    sentences: int = 0
    responses: int = 0
    answers: int = 0
    failures: int = 0
    intents: int = 0
    verdicts: int = 0
    verdicts_apart: int = 0
    """Verdicts on answers that conflict: kept, but not as verdicts on the answer that stays."""
    agreeing: int = 0
    """Answers to keys that have theirs already, and that say the same."""
    conflicts: int = 0
    """Answers to keys that have theirs already, and that say something else."""
    kept_apart: int = 0
    """Of the last two, those that the destination had not kept yet."""
    open_batches: int = 0
    """Batches of the source that are not collected yet. They stay where they are: collected there, their answers come
    along with the next merge; carried along, two stores would collect them, or each think the other does."""


@dataclass(kw_only=True)
class MergeReport:
    """What came of a merge."""

    store: str
    sources: list[Merged] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    """The first hundred."""

    @property
    def conflicting(self) -> int:
        """How many answers of the sources say something else than the answer that stays."""
        return sum(source.conflicts for source in self.sources)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "store": self.store,
            "sources": [asdict(source) for source in self.sources],
            "conflicting": self.conflicting,
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
        }


def merge_stores(
    sources: Sequence[Path], destination: Path, *, tell: Tell = silent, names: Sequence[str] | None = None
) -> MergeReport:
    """Bring everything of some stores into another one, which is made where there is none.

    The first answer of a key stays; what a source says besides is kept in ``second_answers``. Each source goes in whole
    or not at all, so that a merge which was killed is simply started again. Sources are only read, and may be in use.

    Args:
        sources: The stores to merge; the order decides which answer of a key is the first.
        destination: Where they go.
        tell: Takes the progress, in sources.
        names: What the destination is to remember each source as, and error texts call it; None for their paths.

    Raises:
        StoreError: A source is no store, or a model, data set or run of it is not what stands under that name in
            another one (then nothing was written); or the destination can't be written to.
    """
    names = [str(path) for path in sources] if names is None else names
    for path in sources:
        if destination.exists() and path.exists() and path.samefile(destination):
            raise StoreError(f"{path} is the destination itself; a store can't be merged into itself.")
    _check(sources, names, destination, tell)
    report = MergeReport(store=str(destination))
    with WritableStore(destination, _LOCK_NAME) as store:
        store.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # One sync to the disk at the end instead of one a source: what a power cut takes, a second start brings back.
        store.connection.execute("PRAGMA synchronous = NORMAL")
        for statement in sql.TABLES:
            store.connection.execute(statement)
        for number, (path, name) in enumerate(zip(sources, names, strict=True)):
            tell(f"merging {path.name}", number, len(sources))
            report.sources.append(_merge_one(store, path, name, report.conflicts))
        tell("counting", len(sources), len(sources))
        with interruptible(store.connection):
            store.count_answers()
        _sync(destination)
        tell("merged", len(sources), len(sources))
    return report


def _check(sources: Sequence[Path], names: Sequence[str], destination: Path, tell: Tell) -> None:
    """Hold everything against everything before the first row is written."""
    guard = Guard()
    if holds_anything(destination):
        with closing(connect(destination)) as connection:
            guard.add(destination, connection, str(destination))
    for number, (path, name) in enumerate(zip(sources, names, strict=True)):
        tell(f"checking {path.name}", number, len(sources))
        with closing(connect(path)) as connection, _readable(path):
            guard.add(path, connection, name)


def _sync(path: Path) -> None:
    """Make sure that the disk has what was committed: whoever is told that a merge is done may delete its sources.

    SQLite keeps its locks on the file and on ``-shm``, so opening and closing the write-ahead log loses none.
    """
    with suppress(FileNotFoundError):
        real = path.resolve()
        descriptor = os.open(beside(real, "-wal"), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path} can't be read as a store: {error}; nothing was merged.") from None


def _merge_one(store: WritableStore, path: Path, name: str, conflicts: list[Conflict]) -> Merged:
    connection, result = store.connection, Merged(source=name)
    try:
        connection.execute("ATTACH DATABASE ? AS src", [uri(path, "ro")])
    except sqlite3.Error as error:
        raise StoreError(f"{path} can't be read: {error}; the sources before it are merged.") from None
    try:
        # SQLite's two megabytes are too few for a source whose answers don't stand in the order of its responses.
        connection.execute(f"PRAGMA src.cache_size = -{_SOURCE_CACHE_KIB}")
        second = has_table(connection, "src", "second_answers")
        connection.execute(sql.WITH_SECOND if second else sql.PREDICTIONS_ONLY)
        with store.transaction(), interruptible(connection):
            for table in sql.EMPTY:
                connection.execute(f"DELETE FROM temp.{table}")  # noqa: S608 - constants only
            _registrations(connection, path, result)
            _responses(connection, result)
            _answers(connection, result, conflicts)
            result.failures = connection.execute(sql.FAILURE_ROWS).rowcount
            result.failures += connection.execute(sql.SHARED_FAILURE_ROWS).rowcount
            connection.execute(sql.SETTLED_INTENTS)
            result.intents = connection.execute(sql.INTENT_ROWS).rowcount
            connection.execute(sql.RUN_ENDS)
            if has_table(connection, "src", "batches"):
                result.open_batches = connection.execute(sql.OPEN_BATCHES).fetchone()[0]
            result.verdicts, result.verdicts_apart = merge_verdicts(connection, name)
    finally:
        connection.execute("DROP VIEW IF EXISTS temp.candidates")
        connection.execute("DETACH DATABASE src")
    return result


def _registrations(connection: sqlite3.Connection, path: Path, result: Merged) -> None:
    stranger = connection.execute(sql.STRANGERS).fetchone()
    if stranger is not None:  # it was checked, but may be in use
        raise StoreError(f"{path} was given another {stranger[0]!r} while it was being merged; start the merge again.")
    connection.execute(sql.SHARE)
    result.runs = connection.execute(sql.RUN_ROWS).rowcount
    result.models = connection.execute(sql.MODEL_ROWS).rowcount
    new = [row[0] for row in connection.execute(sql.NEW_DATASETS)]
    result.datasets = connection.execute(sql.DATASET_ROWS).rowcount
    for name in new:
        result.sentences += connection.execute(sql.SENTENCE_ROWS, [name]).rowcount


def _responses(connection: sqlite3.Connection, result: Merged) -> None:
    if connection.execute("SELECT count(*) FROM temp.shared").fetchone()[0]:
        connection.execute(sql.KNOWN_ANSWERS)
        connection.execute(sql.KNOWN_RESPONSES)
        connection.execute(sql.DOUBTFUL_ANSWERS)
        connection.execute(sql.known_responses("predictions"))
        if connection.execute(sql.SECOND_THERE).fetchone()[0]:  # otherwise all answers would be held against nothing
            connection.execute(sql.known_responses("second_answers"))
        connection.execute(sql.SOURCE_REFERENCED)
        if connection.execute(sql.SOURCE_ORPHANS).rowcount:
            connection.execute("DELETE FROM temp.referenced")
            for statement in sql.MAIN_REFERENCED:
                connection.execute(statement)
            connection.execute(sql.KNOWN_ORPHANS)
    highest = connection.execute("SELECT coalesce(max(response), 0) FROM main.responses").fetchone()[0]
    connection.execute(sql.UNKNOWN_RESPONSES)
    result.responses = connection.execute(sql.RESPONSE_ROWS, [highest]).rowcount


def _answers(connection: sqlite3.Connection, result: Merged, conflicts: list[Conflict]) -> None:
    result.answers = connection.execute(sql.PREDICTION_ROWS).rowcount
    (asked,) = connection.execute("SELECT count(*) FROM candidates").fetchone()
    if result.answers == asked:  # each of them was the first of its key, or is there just so
        return
    result.agreeing, result.conflicts = connection.execute(sql.COUNT_OTHERS).fetchone()
    if result.conflicts and len(conflicts) < _SHOWN:
        rows = connection.execute(sql.CONFLICT_ROWS, [_SHOWN - len(conflicts)])
        conflicts += [
            Conflict(
                model=row[0],
                dataset=row[1],
                sentence=row[2],
                kept=_spelled(*row[3:6]),
                other=_spelled(*row[6:9]),
                source=result.source,
            )
            for row in rows
        ]
    if result.agreeing or result.conflicts:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        result.kept_apart = connection.execute(sql.SECOND_ROWS, [result.source, now]).rowcount


def _spelled(status: str, raw_text: str | bytes | None, scores: str | None) -> str:
    """Return an answer in one line for people."""
    said = scores if raw_text is None else repr(decode(raw_text)[:200])
    return status if said is None else f"{status}: {said[:200]}"
