"""Carries a batch to its provider: upload, create, each step written down before and after it.

After a crash, or a request whose answer never came, nothing is sent again before the provider was asked what it has:
the input file by its name, the batch by the name in its metadata.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from hatevolution.errors import HatevolutionError, RequestFailure
from hatevolution.runner.batch.pace import PASSING, Pace, patient
from hatevolution.runner.batch.words import why_not
from hatevolution.runner.provenance import utc_now
from hatevolution.store.batches import close_batch, mark_lines, note_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hatevolution.adapters.batch.openai_batch import OpenAIBatches
    from hatevolution.adapters.batch.openai_wire import BatchInfo
    from hatevolution.store.batches import BatchRow
    from hatevolution.store.opened import WritableStore

__all__ = ["Carrier", "NotTaken", "iso", "noted", "release", "seconds"]

T = TypeVar("T")


class NotTaken(HatevolutionError):
    """A provider declined a batch for sure; nothing of it will be asked or billed."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def seconds(iso_time: str) -> float:
    """Return seconds since 1970 for a time of the store."""
    return datetime.fromisoformat(iso_time).timestamp()


def iso(since_1970: float | None) -> str | None:
    """Return a provider's time as the store writes it; None where it is none."""
    try:
        return None if since_1970 is None else datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def noted(row: BatchRow, info: BatchInfo, store: WritableStore) -> BatchRow:
    """Write down what a provider says of a batch."""
    now = utc_now()
    with store.transaction() as connection:
        return note_batch(
            connection,
            row,
            file_id=row.file_id or info.input_file_id,
            provider_id=info.id,
            submitted_at=row.submitted_at or now,
            provider_status=info.status,
            done=info.done,
            failed=info.failed,
            expires_at=iso(info.expires_at),
            checked_at=now,
        )


def release(store: WritableStore, row: BatchRow, outcome: str, note: str) -> BatchRow:
    """End a batch of which nothing will come; its sentences are pending again."""
    with store.transaction() as connection:
        mark_lines(connection, row, "released")
        return close_batch(connection, row, outcome, utc_now(), note)


class Carrier:
    """Brings batches of one account to the provider.

    Args:
        store: Where every step is written down.
        api: The provider's batch interface.
        pace: How patient to be.
    """

    def __init__(self, store: WritableStore, api: OpenAIBatches, pace: Pace) -> None:
        self._store = store
        self._api = api
        self._pace = pace

    def find(self, row: BatchRow) -> BatchRow:
        """Adopt what the provider has of a batch whose submission was cut short, and return how far it is."""
        if row.provider_id is None and row.create_tried_at is not None:
            info = patient(lambda: self._found(row), self._pace)
            if info is not None:
                return noted(row, info, self._store)
        if row.file_id is None and row.upload_tried_at is not None:
            file_id = patient(lambda: self._found_file(row), self._pace)
            if file_id is not None:
                return self._note(row, file_id=file_id)
        return row

    def carry(self, row: BatchRow, file: Callable[[], Path]) -> BatchRow:
        """Do what is missing of a batch's submission.

        Args:
            row: The batch; it is in the store already.
            file: Returns its input file, for those that have to be uploaded.

        Raises:
            NotTaken: The provider declines it; it is ended, its sentences are pending again.
            RequestFailure: It is not known how far it came, or it can't go on now; the next start goes on with it.
        """
        try:
            if row.file_id is None:
                row = self._upload(row, file)
            return self._create(row)
        except NotTaken as error:
            release(self._store, row, "not_taken", why_not(error.failure))
            raise

    def _upload(self, row: BatchRow, file: Callable[[], Path]) -> BatchRow:
        def attempt() -> str:
            nonlocal row
            if row.upload_tried_at is not None:
                found = self._found_file(row)
                if found is not None:
                    return found
            path = file()
            row = self._note(row, upload_tried_at=utc_now())
            return _decisive(lambda: self._api.upload(path, row.file_name))

        return self._note(row, file_id=patient(attempt, self._pace))

    def _create(self, row: BatchRow) -> BatchRow:
        def attempt() -> BatchInfo:
            nonlocal row
            if row.create_tried_at is not None:
                found = self._found(row)
                if found is not None:
                    return found
            file_id = row.file_id or ""
            row = self._note(row, create_tried_at=utc_now())
            return _decisive(lambda: self._api.create(row.name, file_id, row.endpoint, row.input_sha256))

        return noted(row, patient(attempt, self._pace), self._store)

    def _found(self, row: BatchRow) -> BatchInfo | None:
        """Look for a batch that may have been created; a second one of the same name is stopped."""
        age = datetime.now(UTC).timestamp() - seconds(row.create_tried_at or row.made_at)
        if 0 <= age < self._pace.grace_s:
            self._pace.sleep(self._pace.grace_s - age)
        found = self._api.find_batches(row.name, row.file_id, seconds(row.made_at))
        for other in found[1:]:
            if other.name == row.name and other.status in ("validating", "in_progress"):
                self._api.cancel(other.id)
        return found[0] if found else None

    def _found_file(self, row: BatchRow) -> str | None:
        return self._api.find_file(row.file_name, row.input_bytes, seconds(row.made_at))

    def _note(self, row: BatchRow, **fields: str | int | None) -> BatchRow:
        with self._store.transaction() as connection:
            return note_batch(connection, row, **fields)


def _decisive(send: Callable[[], T]) -> T:
    """Send what changes something; tell a refusal from an unknown outcome."""
    try:
        return send()
    except RequestFailure as failure:
        if failure.kind in PASSING:
            raise
        raise NotTaken(failure) from None
