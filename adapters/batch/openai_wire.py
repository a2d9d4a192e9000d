"""What OpenAI's batch interface says, as typed values: batches, files, and lists of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hatevolution.adapters.models.faults import printable
from hatevolution.adapters.models.wire import Unreadable, decoder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "METADATA",
    "Batch",
    "BatchInfo",
    "BatchProblem",
    "File",
    "info",
    "read_batch",
    "read_batches",
    "read_file",
    "read_files",
]

METADATA: Final = "hatevolution_batch"
"""The key under which a batch's metadata hold our name of it."""
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")


class BatchProblem(NamedTuple):
    """Why a provider turned a whole batch down."""

    code: str | None
    message: str
    line: int | None
    """Of the input file, from 1."""


class BatchInfo(NamedTuple):
    """A batch, as the provider tells it. Times are seconds since 1970."""

    id: str
    status: str
    name: str | None
    """Our own name of it, from its metadata."""
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    created_at: float
    expires_at: float | None
    completed_at: float | None
    done: int | None
    failed: int | None
    problems: tuple[BatchProblem, ...]


class _Counts(msgspec.Struct):
    completed: int | None = None
    failed: int | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None
    line: int | None = None


class _Errors(msgspec.Struct):
    data: list[_Error] | None = None


class Batch(msgspec.Struct):
    """A batch, as it stands in a response."""

    id: str
    status: str
    created_at: float = 0.0
    expires_at: float | None = None
    completed_at: float | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, Any] | None = None
    request_counts: _Counts | None = None
    errors: _Errors | None = None


class File(msgspec.Struct):
    """A file, as it stands in a response."""

    id: str
    filename: str = ""
    bytes: int = 0
    created_at: float = 0.0


class Batches(msgspec.Struct):
    data: list[Batch]
    has_more: bool = False


class Files(msgspec.Struct):
    data: list[File]
    has_more: bool = False


def _checked(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a reader that takes no ids but those that can stand in an address and in the store."""

    def checked(raw: bytes) -> Any:
        document = read(raw)
        for item in getattr(document, "data", [document]):
            if not _ID.fullmatch(item.id):
                raise Unreadable("an id in it is no id")
        return document

    return checked


read_batch, read_batches = _checked(decoder(Batch)), _checked(decoder(Batches))
read_file, read_files = _checked(decoder(File)), _checked(decoder(Files))


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number < 2**62 else None


def info(batch: Batch) -> BatchInfo:
    """Return what a batch of a response says."""
    counts = batch.request_counts or _Counts()
    errors = (batch.errors.data if batch.errors is not None else None) or []
    name = (batch.metadata or {}).get(METADATA)
    return BatchInfo(
        batch.id,
        printable(batch.status, 60),
        name if isinstance(name, str) else None,
        batch.input_file_id,
        batch.output_file_id,
        batch.error_file_id,
        batch.created_at,
        batch.expires_at,
        batch.completed_at,
        _count(counts.completed),
        _count(counts.failed),
        tuple(BatchProblem(error.code, error.message or error.code or "no reason", error.line) for error in errors),
    )
