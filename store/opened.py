"""A store opened for writing: the lock, the schema, and what a run registers before its first request."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.configs.fingerprint import fingerprint
from hatevolution.errors import StoreError
from hatevolution.store.connection import connect_writer, refuse_strangers, transaction
from hatevolution.store.files import JOURNALS, beside
from hatevolution.store.lock import WriterLock
from hatevolution.store.migrations import migrate
from hatevolution.store.model_names import Standing, standing
from hatevolution.store.sentences import insert_sentences
from hatevolution.store.tally import CHUNK, advance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hatevolution.domain import Sentence

__all__ = ["DatasetRecord", "ModelRecord", "RunRecord", "WritableStore"]


_COUNTED_AT_END: Final = 1_000_000
"""Answers that a run counts at its end, at most: some seconds. More are left only by versions that counted none."""


class DatasetRecord(NamedTuple):
    """What a store keeps of a data set beside its sentences."""

    name: str
    title: str
    source: str | None
    licence: str | None
    files: list[dict[str, Any]]
    """``[{"name", "sha256", "bytes"}]``."""
    loader: dict[str, Any]
    """Together with the files' hashes decides the rows."""


class ModelRecord(NamedTuple):
    """What a store keeps of a model."""

    name: str
    title: str
    specification: dict[str, Any]
    configuration: dict[str, Any]


class RunRecord(NamedTuple):
    """Who started a run, when, with what."""

    run: str
    started_at: str
    who: str
    command: list[str]
    configuration: dict[str, Any]
    versions: dict[str, str]
    git_revision: str | None


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


class WritableStore:
    """The one writer of a store.

    Use as a context manager; leaving it closes the connection and lets go of the lock. A store file that this object
    made and in which no run was ever registered is taken away again.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._run = run
        self._lock = WriterLock(path)
        self._created = False
        self._connection: sqlite3.Connection | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The writer's connection."""
        if self._connection is None:
            raise StoreError(f"The store {self.path} is not open.")
        return self._connection

    def __enter__(self) -> WritableStore:
        if not self.path.parent.is_dir():
            raise StoreError(f"The folder {self.path.parent} of the store does not exist; make it first.")
        refuse_strangers(self.path)
        self._lock.acquire(self._run)
        try:
            self._created = not self.path.exists()
            self._connection = connect_writer(self.path)
            migrate(self._connection, str(self.path))
        except sqlite3.Error as error:
            self._leave()
            raise StoreError(f"The store {self.path} can't be opened for writing: {error}.") from None
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        unused = False
        if self._connection is not None:
            if self._created:
                try:
                    unused = not self._connection.execute("SELECT count(*) FROM runs").fetchone()[0]
                except sqlite3.Error:
                    unused = True
            self._connection.close()
            self._connection = None
        elif self._created:
            unused = self.path.exists() and self.path.stat().st_size == 0
        if unused:
            for ending in ("", *JOURNALS):
                beside(self.path, ending).unlink(missing_ok=True)
        self._lock.release()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing."""
        try:
            with transaction(self.connection):
                yield self.connection
        except sqlite3.Error as error:
            raise StoreError(f"The store {self.path} can't be written to: {error}.") from None

    # -- what a run registers; all of it inside one transaction ------------------------------------------------

    def add_run(self, record: RunRecord) -> None:
        """Register a run."""
        self.connection.execute(
            "INSERT INTO runs (run, started_at, who, command, configuration, versions, git_revision) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                record.run,
                record.started_at,
                record.who,
                _dumps(record.command),
                _dumps(record.configuration),
                _dumps(record.versions),
                record.git_revision,
            ],
        )

    def end_run(self, run: str, ended_at: str, outcome: str, note: str | None = None) -> None:
        """Record how a run ended: ``complete``, ``incomplete``, ``interrupted`` or ``failed``."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET ended_at = ?, outcome = ?, note = ? WHERE run = ?", [ended_at, outcome, note, run]
            )
        with suppress(StoreError):  # a full disk: what is not counted now is counted by whoever reads
            self.count_answers(_COUNTED_AT_END)

    def count_answers(self, most: int | None = None) -> None:
        """Bring the tallies of :mod:`hatevolution.store.tally` up to date.

        Args:
            most: How many answers to count, about; None for all.
        """
        chunks = 0
        while most is None or chunks * CHUNK < most:
            chunks += 1
            with self.transaction() as connection:
                left = advance(connection)
            if not left:
                break

    def forget_run(self, run: str) -> None:
        """Take back what a run registered that then could not begin: itself, and the models and sets it brought.

        Only for a run that has sent nothing; foreign keys refuse to forget one that has answers.
        """
        with self.transaction() as connection:
            connection.execute(
                "DELETE FROM sentences WHERE dataset IN (SELECT dataset FROM datasets WHERE run = ?)", [run]
            )
            for table in ("datasets", "models", "runs"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", [run])  # noqa: S608 - constants only

    def check_model(self, record: ModelRecord) -> Standing:
        """Return how a model stands to what the store has under its name.

        Raises:
            StoreError: The name is pinned to another specification; the text names the fields that differ.
        """
        return standing(self.connection, self.path, record)

    def put_model(self, record: ModelRecord) -> str:
        """Add a model, or renew what its answers do not depend on; all of it as long as nothing was asked.

        Returns:
            In which fields the specification was replaced; empty where it was not.
        """
        found = self.check_model(record)
        if found.changed:
            self.connection.execute(
                "UPDATE models SET fingerprint = ?, specification = ? WHERE model = ?",
                [fingerprint(record.specification), _dumps(record.specification), record.name],
            )
        if found.known:
            self.connection.execute(
                "UPDATE models SET title = ?, configuration = ? WHERE model = ?",
                [record.title, _dumps(record.configuration), record.name],
            )
            return found.changed
        self.connection.execute(
            "INSERT INTO models (model, position, title, fingerprint, specification, configuration, run) "
            "VALUES (?, (SELECT count(*) FROM models), ?, ?, ?, ?, ?)",
            [
                record.name,
                record.title,
                fingerprint(record.specification),
                _dumps(record.specification),
                _dumps(record.configuration),
                self._run,
            ],
        )
        return ""

    def has_dataset(self, record: DatasetRecord) -> bool:
        """Return whether the store holds this set, read from the same files by the same loader."""
        row = self.connection.execute("SELECT files, loader FROM datasets WHERE dataset = ?", [record.name]).fetchone()
        return row is not None and row == (_dumps(record.files), _dumps(record.loader))

    def put_dataset(self, record: DatasetRecord, sentences: Iterable[Sentence]) -> int:
        """Add a set and its sentences, or check that the stored ones are the same; return their number.

        Raises:
            StoreError: The store holds the set with other sentences; the text names the first that differs.
            DataError: From the loader, or an id occurs twice.
        """
        stored = self.connection.execute(
            "SELECT content_sha256, sentences FROM datasets WHERE dataset = ?", [record.name]
        ).fetchone()
        if stored is None:
            return self._add_dataset(record, sentences)
        self.connection.execute("SAVEPOINT renew")
        # Same rows from other bytes (a re-saved spreadsheet, a newer loader) are welcome; other rows are not.
        from hatevolution.store.sentences import compare_sentences

        count = compare_sentences(self.connection, self.path, record.name, sentences)
        self.connection.execute(
            "UPDATE datasets SET files = ?, loader = ?, title = ?, source = ?, licence = ? WHERE dataset = ?",
            [_dumps(record.files), _dumps(record.loader), record.title, record.source, record.licence, record.name],
        )
        self.connection.execute("RELEASE renew")
        return count

    def _add_dataset(self, record: DatasetRecord, sentences: Iterable[Sentence]) -> int:
        self.connection.execute(
            "INSERT INTO datasets (dataset, position, title, source, licence, files, loader, sentences, "
            "content_sha256, run) VALUES (?, (SELECT count(*) FROM datasets), ?, ?, ?, ?, ?, 0, '', ?)",
            [
                record.name,
                record.title,
                record.source,
                record.licence,
                _dumps(record.files),
                _dumps(record.loader),
                self._run,
            ],
        )
        digest = hashlib.sha256()
        count = insert_sentences(self.connection, record.name, sentences, digest)
        self.connection.execute(
            "UPDATE datasets SET sentences = ?, content_sha256 = ? WHERE dataset = ?",
            [count, digest.hexdigest(), record.name],
        )
        return count


def process_name() -> str:
    """Return who runs this process: user, host and pid."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"
