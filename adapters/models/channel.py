"""Requests over pyreqwest (Rust's reqwest): the way to vLLM, the seq2seq server and Perspective.

Its sockets are served by a thread outside Python's lock, so that a request costs less than half of what it costs over
aiohttp (benchmarks/runner_throughput.py, design/adapters.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import BuilderError, PyreqwestError, RequestTimeoutError
from pyreqwest.http import Url

import hatevolution
from hatevolution.adapters.models.faults import BODY_BYTES, NO_RESOURCES, Arrived
from hatevolution.errors import ConfigError, FailureKind

if TYPE_CHECKING:
    from pyreqwest.client import Client
    from pyreqwest.http import HeaderMap
    from pyreqwest.request import RequestBuilder
    from pyreqwest.response import Response

    from hatevolution.adapters.models.faults import Faults
    from hatevolution.errors import RequestFailure

__all__ = ["Channel"]

_CONNECT_S = 10.0
"""A host that takes no connection for this long is not there."""
_PROBE_S = 10.0
_KEEP_ALIVE_S = 4.0
"""uvicorn, under vLLM, closes idle connections after five seconds; a request into a closing one would be lost."""
_SMALL = 16 * BODY_BYTES
"""Most of a document that a server describes itself with, in bytes."""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_CONNECTING = "client error (Connect)"
"""reqwest's word, in the causes of an error, for one from before there was a connection. The package's own classes do
not tell: a server that falls silent or hangs up in the middle of a request is a ConnectError there as well."""


class Channel:
    """Posts bytes, gets bytes; what fails on the way becomes a failure.

    Args:
        faults: What makes the failures.
        timeout_s: For one whole request, connection included.
        headers: Sent with every request (content type, key).
        through_proxy: True to obey the proxy variables of the environment, for endpoints out in the world.
    """

    def __init__(
        self, faults: Faults, *, timeout_s: float, headers: Mapping[str, str], through_proxy: bool = False
    ) -> None:
        self._faults = faults
        self._timeout_s = timeout_s
        agent = f"hatevolution/{hatevolution.__version__}"
        self._headers = {"Content-Type": "application/json", "User-Agent": agent, **headers}
        self._through_proxy = through_proxy
        self._client: Client | None = None
        self._urls: dict[tuple[str, str], Url] = {}

    async def open(self) -> None:
        """Make the client. Limits are the runner's, so it has none.

        Raises:
            ConfigError: This machine has no certificates to check servers by.
        """
        builder = (
            ClientBuilder()
            .timeout(timedelta(seconds=self._timeout_s))
            .connect_timeout(timedelta(seconds=min(_CONNECT_S, self._timeout_s / 2)))
            .pool_idle_timeout(timedelta(seconds=_KEEP_ALIVE_S))
            .follow_redirects(False)
            .default_headers(self._headers)
        )
        try:
            self._client = (builder if self._through_proxy else builder.no_proxy()).build()
        except BuilderError as error:
            raise ConfigError(
                f"No HTTP client can be made on this machine ({_causes(error)[-1]}); the certificates of the system "
                "(package ca-certificates, or SSL_CERT_FILE) are needed."
            ) from None

    async def close(self) -> None:
        """Close the client; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def post(self, root: str, path: str, body: bytes) -> Arrived:
        """Send a JSON body and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        client, url = self._open_client(), self._urls.get((root, path)) or self._url(root, path)
        return await self._send(client.post(url).body_bytes(body), root)

    async def get(self, root: str, path: str) -> Arrived:
        """Ask for a small document and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        request = self._open_client().get(self._url(root, path))
        return await self._send(request.timeout(timedelta(seconds=min(_PROBE_S, self._timeout_s))), root, most=_SMALL)

    async def _send(self, request: RequestBuilder, root: str, most: int | None = None) -> Arrived:
        try:
            async with request.build_streamed() as response:
                if response.status == 200 and most is None:
                    raw = bytes(await response.bytes())
                else:
                    # Faults hold what is wanted of an error body; nobody has to read a gigabyte of it.
                    raw = await _some(response, most or 2 * BODY_BYTES)
                return Arrived(response.status, Headers(response.headers), raw)
        except PyreqwestError as error:
            raise self._failure(error, root) from None

    def _url(self, root: str, path: str) -> Url:
        return self._urls.setdefault((root, path), Url(root + path))

    def _open_client(self) -> Client:
        if self._client is None:
            raise RuntimeError("the adapter is not open")
        return self._client

    def _failure(self, error: PyreqwestError, root: str) -> RequestFailure:
        kind, billed = _meaning(error)
        if kind is FailureKind.TIMEOUT:
            return self._faults.make(kind, f"No answer from {root} within {self._timeout_s:g} s", maybe_billed=billed)
        if kind is FailureKind.UNREACHABLE:
            return self._faults.make(kind, f"{root} can't be reached ({_reason(error)}); is the server running there?")
        return self._faults.make(kind, f"The connection to {root} failed: {_reason(error)}", maybe_billed=billed)


class Headers(Mapping[str, str]):
    """Headers of a response, by names whose case does not matter; those that are no text are as if absent."""

    def __init__(self, headers: HeaderMap) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        try:
            return self._headers[name]
        except ValueError:  # bytes outside of ASCII
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers.keys())

    def __len__(self) -> int:
        return len(self._headers)


def _meaning(error: PyreqwestError) -> tuple[FailureKind, bool]:
    """Return what a fault of the transport means, and whether the endpoint may have done the work.

    Whatever is not known to be from before there was a connection may have been billed.
    """
    causes = _causes(error)
    if _CONNECTING in causes:
        # Out of file descriptors or ports: the fault is here, and passes.
        here = _os_error(causes[-1]) in NO_RESOURCES
        return (FailureKind.TRANSIENT if here else FailureKind.UNREACHABLE), False
    if isinstance(error, RequestTimeoutError):
        return FailureKind.TIMEOUT, True
    return FailureKind.TRANSIENT, True


def _causes(error: PyreqwestError) -> list[str]:
    """Return the texts of an error's causes, from the outermost to the first."""
    found = getattr(error, "details", {}).get("causes") or []
    return [str(cause["message"]) for cause in found] or [error.message]


def _os_error(cause: str) -> int | None:
    """Return the number of the operating system's error that a cause quotes."""
    found = _OS_ERROR.search(cause)
    return None if found is None else int(found[1])


def _reason(error: PyreqwestError) -> str:
    """Return the first cause of an error, in the operating system's words where it has any."""
    cause = _causes(error)[-1]
    number = _os_error(cause)
    return cause if number is None else os.strerror(number).lower()


async def _some(response: Response, most: int) -> bytes:
    """Return the first bytes of a body; leaving the request behind closes the connection over the rest."""
    pieces: list[bytes] = []
    size = 0
    while size < most and (piece := await response.body_reader.read_chunk()) is not None:
        pieces.append(bytes(piece))
        size += len(piece)
    return b"".join(pieces)[:most]
