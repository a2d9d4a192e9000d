"""OpenAI's batch interface through the ``openai`` package: files up, batches made and asked after, files down.

One call is one request (``max_retries=0``): a batch that was created by a request whose answer got lost must be looked
for, not created again, and the package would do the latter. Answers are read from their bytes, as everywhere here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
import msgspec
from openai import APIConnectionError, APIStatusError, APITimeoutError, DefaultHttpxClient, OpenAI

from hatevolution.adapters.batch.base import TOKEN_LIMIT
from hatevolution.adapters.models.faults import Arrived, Faults, printable, read_error
from hatevolution.adapters.models.openai_endpoint import DEFAULT_KEY, meaning
from hatevolution.adapters.models.wire import Unreadable, decoder
from hatevolution.adapters.secrets import Secrets
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.errors import RequestFailure

__all__ = ["BatchInfo", "BatchProblem", "OpenAIBatches"]

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_METADATA: Final = "hatevolution_batch"
_CONNECT_S: Final = 10.0
_FILE_S: Final = 600.0
"""For the answer to an upload, and between two pieces of a download: files have up to 200 MB."""
_PAGE: Final = 100
_MOST_PAGES: Final = 1_000
_SLACK_S: Final = 24 * 3600
"""By how much this machine's clock may differ from the provider's."""


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


class _Batch(msgspec.Struct):
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


class _File(msgspec.Struct):
    id: str
    filename: str = ""
    bytes: int = 0
    created_at: float = 0.0


class _Batches(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Files(msgspec.Struct):
    data: list[_File]
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


_read_batch, _read_batches = _checked(decoder(_Batch)), _checked(decoder(_Batches))
_read_file, _read_files = _checked(decoder(_File)), _checked(decoder(_Files))


@cache
def _tls() -> ssl.SSLContext:
    """Return the certificates to trust; reading them takes longer than many a request, and each client would."""
    return httpx2.create_ssl_context()


class OpenAIBatches:
    """The batch interface at one address. Use as a context manager.

    Args:
        model: A model that is asked there: its key and its time-out are used.
        environ: The environment variables, for the key.
        base_url: The address, ``/v1`` included.

    Raises:
        ConfigError: The key is not set.
    """

    def __init__(self, model: ModelConfig, environ: Mapping[str, str], base_url: str) -> None:
        secrets = Secrets(environ)
        self._base_url = base_url
        self._faults = Faults(model, secrets.redactor(model, DEFAULT_KEY))
        self._timeout_s = model.endpoint.timeout_s
        timeout = httpx2.Timeout(self._timeout_s, connect=min(_CONNECT_S, self._timeout_s))
        self._client = OpenAI(
            api_key=secrets.api_key(model, DEFAULT_KEY) or "",
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=DefaultHttpxClient(timeout=timeout, verify=_tls()),
        )

    def __enter__(self) -> OpenAIBatches:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._client.close()

    def upload(self, path: Path, name: str) -> str:
        """Upload an input file and return the id that it got.

        Raises:
            RequestFailure: No answer came; the file may be there all the same where it says ``maybe_billed``.
        """

        def send() -> httpx2.Response:
            with path.open("rb") as file:
                return self._client.files.with_raw_response.create(
                    file=(name, file, "application/jsonl"), purpose="batch", timeout=self._patient()
                ).http_response

        file: _File = self._asked(send, _read_file)
        return file.id

    def find_file(self, name: str, size: int, since: float) -> str | None:
        """Return the id of an input file that was uploaded; None where there is none.

        Args:
            name: What it was called.
            size: Its length in bytes: one that was cut on its way is not it.
            since: When it was uploaded at the earliest, in seconds since 1970.
        """
        for file in self._files(since):
            if file.filename == name and file.bytes == size:
                return file.id
        return None

    def create(self, name: str, file_id: str, endpoint: Any, sha256: str) -> BatchInfo:
        """Create a batch of an uploaded file.

        Raises:
            RequestFailure: No answer came; the batch may be there all the same where it says ``maybe_billed``.
        """
        return self._batch(
            lambda: (
                self._client.batches.with_raw_response.create(
                    input_file_id=file_id,
                    endpoint=endpoint,
                    completion_window="24h",
                    metadata={_METADATA: name, "hatevolution_input_sha256": sha256},
                ).http_response
            )
        )

    def find_batches(self, name: str, file_id: str | None, since: float) -> list[BatchInfo]:
        """Return the batches that were created under our name, or of our input file; the oldest first."""
        found = [
            _info(batch)
            for batch in self._batches(since)
            if (batch.metadata or {}).get(_METADATA) == name or (file_id is not None and batch.input_file_id == file_id)
        ]
        found.reverse()  # they are told newest first, and their times are whole seconds
        return sorted(found, key=lambda info: info.created_at)

    def retrieve(self, batch_id: str) -> BatchInfo:
        """Ask after a batch."""
        return self._batch(lambda: self._client.batches.with_raw_response.retrieve(batch_id).http_response)

    def cancel(self, batch_id: str) -> BatchInfo:
        """Ask the provider to stop a batch; what is done by then stays done, and is billed."""
        return self._batch(lambda: self._client.batches.with_raw_response.cancel(batch_id).http_response)

    def download(self, file_id: str, path: Path) -> None:
        """Write an output or error file to the disk, whole or not at all.

        Raises:
            RequestFailure: It did not come whole.
        """
        try:
            with (
                self._client.files.with_streaming_response.content(file_id, timeout=self._patient()) as response,
                path.open("wb") as file,
            ):
                for piece in response.iter_bytes(1 << 20):
                    file.write(piece)
        except (APIConnectionError, APIStatusError, httpx2.HTTPError) as error:
            raise self._failure(error) from None

    # -- below -------------------------------------------------------------------------------------------------

    def _patient(self) -> httpx2.Timeout:
        return httpx2.Timeout(max(self._timeout_s, _FILE_S), connect=min(_CONNECT_S, self._timeout_s))

    def _batch(self, send: Callable[[], httpx2.Response]) -> BatchInfo:
        return _info(self._asked(send, _read_batch))

    def _asked(self, send: Callable[[], httpx2.Response], read: Callable[[bytes], Any]) -> Any:
        try:
            response = send()
        except (APIConnectionError, APIStatusError) as error:
            raise self._failure(error) from None
        try:
            return read(response.content)
        except Unreadable as error:
            arrived = Arrived(response.status_code, response.headers, response.content)
            raise self._faults.malformed(arrived, error) from None

    def _files(self, since: float) -> Iterator[_File]:
        def page(after: dict[str, object]) -> httpx2.Response:
            return self._client.files.with_raw_response.list(
                purpose="batch", order="desc", limit=_PAGE, extra_query=after
            ).http_response

        return self._pages(page, _read_files, since)

    def _batches(self, since: float) -> Iterator[_Batch]:
        def page(after: dict[str, object]) -> httpx2.Response:
            return self._client.batches.with_raw_response.list(limit=_PAGE, extra_query=after).http_response

        return self._pages(page, _read_batches, since)

    def _pages(
        self, page: Callable[[dict[str, object]], httpx2.Response], read: Callable[[bytes], Any], since: float
    ) -> Iterator[Any]:
        """Yield what a list holds, newest first, until all of a page is older than what is looked for."""
        after: dict[str, object] = {}
        for _ in range(_MOST_PAGES):
            found = self._asked(lambda: page(after), read)  # noqa: B023 - called at once
            yield from found.data
            if not (found.has_more and found.data) or all(item.created_at < since - _SLACK_S for item in found.data):
                return
            after = {"after": found.data[-1].id}

    def _failure(self, error: Exception) -> RequestFailure:
        if isinstance(error, APIStatusError):
            response = error.response
            arrived = Arrived(response.status_code, response.headers, _content(response))
            said = read_error(arrived.body)
            kind = meaning(arrived.status, said)
            if kind is FailureKind.RETIRED:  # a 404 here is about a file or a batch
                kind = FailureKind.PERMANENT
            if arrived.status == 400 and said.param in ("file_id", "input_file_id"):
                # A file that was just uploaded is not seen at once (bespokelabsai/curator#116).
                kind = FailureKind.TRANSIENT
            if said.code == TOKEN_LIMIT:  # comes as a 429, and waiting for seconds does not cure it
                kind = FailureKind.PERMANENT
            message = self._faults.answered(arrived, said)
            doubtful = arrived.status >= 500 or arrived.status == 408
            return self._faults.make(kind, message, arrived, code=said.code or said.type, maybe_billed=doubtful)
        cause = error.__cause__ if isinstance(error, APIConnectionError) and error.__cause__ else error
        if isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return self._faults.make(FailureKind.UNREACHABLE, f"{self._base_url} can't be reached: {cause}")
        if isinstance(error, APITimeoutError) or isinstance(cause, httpx2.TimeoutException):
            text = f"No answer from {self._base_url} in time"
            return self._faults.make(FailureKind.TIMEOUT, text, maybe_billed=True)
        text = f"The connection to {self._base_url} failed: {type(cause).__name__}: {cause}"
        return self._faults.make(FailureKind.TRANSIENT, text, maybe_billed=True)


def _content(response: httpx2.Response) -> bytes:
    try:
        return response.content
    except httpx2.ResponseNotRead:
        return b""


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number < 2**62 else None


def _info(batch: _Batch) -> BatchInfo:
    counts = batch.request_counts or _Counts()
    errors = (batch.errors.data if batch.errors is not None else None) or []
    name = (batch.metadata or {}).get(_METADATA)
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
