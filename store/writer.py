"""Group commit: what the event loop hands over is written by one thread, many rows to a transaction.

A row is safe once its commit is done, at most ``delay_s`` and one commit after it was handed over. Nothing that was
handed over is ever dropped: when a commit fails (disk full, file locked by another program) its rows are kept and tried
again until they are in, and meanwhile :attr:`GroupCommitWriter.trouble` says why, so that the lanes stop sending.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hatevolution.store.connection import transaction
from hatevolution.store.files import RESERVE, beside
from hatevolution.store.rows import AnswerRecord, FailureRecord, IntentRecord, Tables, salvaged
from hatevolution.store.tally import advance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Ballast", "GroupCommitWriter"]

_Operation = AnswerRecord | FailureRecord | IntentRecord | int

_NO_SPACE = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSTAT", "SQLITE_IOERR_SHMSIZE"})
"""What SQLite says when the disk (WRITE: or the quota, SHMSIZE: while the WAL's index grows) has no room."""

_BUSY_S = 1.0
"""How long a commit waits for another program's lock before it says so and is tried again, in seconds."""

_COUNT_EVERY: Final = 20_000
"""Operations between two times that answers are counted. A reader counts those since, in some 40 ms."""


class Ballast:
    """Disk space set aside, so that what is already in flight can be stored when the disk is full.

    A file of ``size`` bytes beside the store, given back to the file system by :meth:`drop`.
    """

    def __init__(self, store: Path, size: int) -> None:
        self._path = beside(store, RESERVE)
        self._size = size

    def take(self) -> bool:
        """Set the space aside; False where the disk has not got it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, self._size)
            else:
                os.write(descriptor, b"\0" * self._size)
        except OSError:
            self.drop()
            return False
        finally:
            os.close(descriptor)
        return True

    def drop(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)


class GroupCommitWriter:
    """The one way of a run's rows into its store. All methods are called from the event loop's thread.

    Args:
        connection: The writer's connection; used by one worker thread alone while this object is open.
        run: The run whose rows these are.
        rows: Commit when so many operations wait.
        delay_s: Commit when the oldest waiting operation is so old, in seconds.
        backlog: Most operations that may wait before :meth:`room` makes callers wait.
        on_commit: Called (in the event loop) after each commit with the operations that are now safe.
        ballast: Space to give back when the disk is full.
        retry_s: Pause between tries of a commit that failed, in seconds.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        run: str,
        *,
        rows: int = 512,
        delay_s: float = 0.05,
        backlog: int = 8_192,
        on_commit: Callable[[list[_Operation]], None] | None = None,
        ballast: Ballast | None = None,
        retry_s: float = 1.0,
    ) -> None:
        self._connection = connection
        self._patience_ms = int(connection.execute("PRAGMA busy_timeout").fetchone()[0])
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_S)}")
        self._run = run
        self._rows = rows
        self._delay_s = delay_s
        self._backlog = backlog
        self._on_commit = on_commit
        self._ballast = ballast
        self._retry_s = retry_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._waiting: list[_Operation] = []
        self._committing: list[_Operation] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._committed: asyncio.Future[None] | None = None
        self._handed = 0
        """Operations handed over so far."""
        self._safe = 0
        """Operations committed so far; they are committed in the order in which they were handed over."""
        self._uncounted = 0
        """Operations since answers were last counted; the worker thread's own."""
        self._next_response = 1 + self._highest("responses", "response")
        self._next_intent = 1 + self._highest("intents", "intent")
        self.commits = 0
        self.trouble: str | None = None
        """Why the last try to commit failed; None while all is well."""
        self.disk_full = False
        """True once the disk was full: what was handed over gets stored, but the run has to end."""

    def _highest(self, table: str, column: str) -> int:
        row = self._connection.execute(f"SELECT max({column}) FROM {table}").fetchone()  # noqa: S608 - constants only
        return int(row[0] or 0)

    # -- handing over ------------------------------------------------------------------------------------------

    def put(self, operation: AnswerRecord | FailureRecord) -> None:
        """Hand over an answer or a failure."""
        self._add(operation)

    def intend(self, model: str, dataset: str, sentences: list[str], at: str) -> int:
        """Hand over what is about to be sent and return its number, for :meth:`settle`."""
        number = self._next_intent
        self._next_intent += 1
        self._add(IntentRecord(number, model, dataset, sentences, at))
        return number

    def settle(self, intent: int) -> None:
        """Say that everything of an intent is recorded (or was never sent)."""
        self._add(intent)

    @property
    def waiting(self) -> int:
        """Operations that are not safe yet."""
        return len(self._waiting) + len(self._committing)

    @property
    def full(self) -> bool:
        """Whether callers should wait for :meth:`room`.

        A disk that was full stays so: where its reserve helped at once, nobody may have seen the trouble.
        """
        return len(self._waiting) >= self._backlog or self.trouble is not None or self.disk_full

    async def room(self) -> None:
        """Wait until there is room again (and no trouble), or the disk is full for good."""
        while self.full and not self.disk_full:
            await self.flush_once()

    async def flush(self) -> None:
        """Wait until everything handed over before this call is safe.

        What others hand over meanwhile is not waited for: under load there is always something.
        """
        target = self._handed
        while self._safe < target:
            await self.flush_once()

    async def flush_once(self) -> None:
        """Wait for the next commit that is done, starting one now if there is something to commit."""
        loop = asyncio.get_running_loop()
        if self._committed is None:
            self._committed = loop.create_future()
        self._kick()
        if self._task is not None:
            await asyncio.shield(self._committed)

    async def committed(self) -> None:
        """Wait until everything handed over so far is safe; commits at once."""
        await self.flush()

    async def close(self) -> None:
        """Commit everything and let the thread go. What can't be committed is tried again without end."""
        await self.flush()
        if self._task is not None:
            await self._task
        self._let_go()

    async def abandon(self) -> int:
        """Give up what can't be committed, and return how many operations were lost by it."""
        lost = self.waiting
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._waiting.clear()
        self._safe = self._handed
        self._let_go()
        return lost

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._thread.shutdown()
        self._connection.execute(f"PRAGMA busy_timeout = {self._patience_ms}")
        if self._ballast is not None:
            self._ballast.drop()

    # -- committing --------------------------------------------------------------------------------------------

    def _add(self, operation: _Operation) -> None:
        waiting = self._waiting
        waiting.append(operation)
        self._handed += 1
        if len(waiting) >= self._rows:
            self._kick()
        elif self._timer is None and self._task is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._kick)

    def _kick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None and self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        batch, self._waiting = self._waiting, []
        self._committing = batch
        first = self._next_response
        self._next_response += len(batch)
        try:
            while True:
                try:
                    await loop.run_in_executor(self._thread, self._write, batch, first)
                except Exception as error:
                    # Disk full, file locked, I/O error: time may cure it, and the rows are kept until it has. Whatever
                    # else it may be, dropping answers is no way out of it.
                    self._note(error)
                    await asyncio.sleep(0 if self._retry_now else self._retry_s)
                else:
                    break
        finally:
            self._committing = []
            self._task = None
        self.commits += 1
        self.trouble = None
        self._after(batch)

    def _after(self, batch: list[_Operation]) -> None:
        self._safe += len(batch)
        committed, self._committed = self._committed, None
        if committed is not None and not committed.done():
            committed.set_result(None)
        if self._on_commit is not None:
            self._on_commit(batch)
        if len(self._waiting) >= self._rows:
            self._kick()
        elif self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._kick)

    def _note(self, error: Exception) -> None:
        """Remember why a commit failed, and make room where the disk is full."""
        self._retry_now = False
        self.trouble = str(error) or type(error).__name__
        if getattr(error, "sqlite_errorname", "") in _NO_SPACE:
            if not self.disk_full and self._ballast is not None:
                self._ballast.drop()
                self._retry_now = True
            self.disk_full = True

    _retry_now = False

    def _write(self, batch: list[_Operation], first_response: int) -> None:
        """Write one batch in one transaction; runs in the writer's thread."""
        connection = self._connection
        with transaction(connection):
            try:
                connection.execute("SAVEPOINT batch")
                self._tables(batch, first_response).write(connection)
            except sqlite3.OperationalError:
                raise
            except Exception:
                # Something in it can't be bound or breaks a constraint; no waiting cures that. Find it, keep the rest.
                connection.execute("ROLLBACK TO batch")
                self._write_singly(batch, first_response)
        self._uncounted += len(batch)
        if self._uncounted >= _COUNT_EVERY:
            self._uncounted = 0
            self._count()

    def _count(self) -> None:
        """Bring the tallies up to date, in a transaction of their own, so that no answer fails with them."""
        with suppress(sqlite3.Error), transaction(self._connection):
            advance(self._connection, 10 * _COUNT_EVERY)

    def _write_singly(self, batch: list[_Operation], first_response: int) -> None:
        connection = self._connection
        for number, operation in enumerate(batch, first_response):
            try:
                connection.execute("SAVEPOINT single")
                self._tables([operation], number).write(connection)
            except sqlite3.OperationalError:
                raise
            except Exception as error:
                connection.execute("ROLLBACK TO single")
                if not isinstance(operation, AnswerRecord):
                    raise
                # Kept whole as a failure with its body, so that nothing is lost and nothing passes for an answer.
                self._tables([salvaged(operation, error)], number).write(connection)

    def _tables(self, batch: list[_Operation], first_response: int) -> Tables:
        tables = Tables(self._run)
        for number, operation in enumerate(batch, first_response):
            if isinstance(operation, AnswerRecord):
                tables.answer(number, operation)
            elif isinstance(operation, FailureRecord):
                tables.failure(operation)
            elif isinstance(operation, IntentRecord):
                tables.intent(operation)
            else:
                tables.settled.append((operation,))
        return tables
