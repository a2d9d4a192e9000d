"""OpenAI's batch interface through the ``openai`` package: files up, batches made and asked after, files down.

One call is one request (``max_retries=0``): a batch that was created by a request whose answer got lost must be looked
for, not created again, and the package would do the latter. Answers are read from their bytes, as everywhere here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, DefaultHttpxClient, OpenAI

from hatevolution.adapters.batch.base import TOKEN_LIMIT
from hatevolution.adapters.batch.openai_wire import METADATA, info, read_batch, read_batches, read_file, read_files
from hatevolution.adapters.models.faults import Arrived, Faults, read_error
from hatevolution.adapters.models.openai_endpoint import DEFAULT_KEY, meaning
from hatevolution.adapters.models.wire import Unreadable
from hatevolution.adapters.secrets import Secrets
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hatevolution.adapters.batch.openai_wire import Batch, BatchInfo, File
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.errors import RequestFailure

__all__ = ["OpenAIBatches"]

_CONNECT_S: Final = 10.0
_FILE_S: Final = 600.0
"""For the answer to an upload, and between two pieces of a download: files have up to 200 MB."""
_PAGE: Final = 100
_MOST_PAGES: Final = 1_000
_SLACK_S: Final = 24 * 3600
"""By how much this machine's clock may differ from the provider's."""


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

        file: File = self._asked(send, read_file)
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
                    metadata={METADATA: name, "hatevolution_input_sha256": sha256},
                ).http_response
            )
        )

    def find_batches(self, name: str, file_id: str | None, since: float) -> list[BatchInfo]:
        """Return the batches that were created under our name, or of our input file; the oldest first."""
        found = [
            info(batch)
            for batch in self._batches(since)
            if (batch.metadata or {}).get(METADATA) == name or (file_id is not None and batch.input_file_id == file_id)
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
        return info(self._asked(send, read_batch))

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

    def _files(self, since: float) -> Iterator[File]:
        def page(after: dict[str, object]) -> httpx2.Response:
            return self._client.files.with_raw_response.list(
                purpose="batch", order="desc", limit=_PAGE, extra_query=after
            ).http_response

        return self._pages(page, read_files, since)

    def _batches(self, since: float) -> Iterator[Batch]:
        def page(after: dict[str, object]) -> httpx2.Response:
            return self._client.batches.with_raw_response.list(limit=_PAGE, extra_query=after).http_response

        return self._pages(page, read_batches, since)

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
