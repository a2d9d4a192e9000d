"""Requests through the ``openai`` package: its address, key and headers, none of its retries.

The body is written by the adapters and handed over as bytes: the package writes JSON as UTF-8, which an unpaired
surrogate has none of, and the exact bytes of the answer are wanted anyway. One request is one attempt
(``max_retries=0``); left to itself the package repeats 408, 409, 429 and 5xx, an exhausted quota included.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAioHttpClient

from hatevolution.adapters.models.faults import NO_RESOURCES, Arrived
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from hatevolution.adapters.models.faults import Faults
    from hatevolution.errors import RequestFailure

__all__ = ["OpenAIChannel"]

_CONNECT_S = 10.0
_PROBE_S = 20.0
_JSON = {"Content-Type": "application/json"}


class OpenAIChannel:
    """Posts and gets at one or more addresses of OpenAI's API.

    Args:
        faults: What makes the failures.
        base_urls: The addresses, ``/v1`` included.
        api_key: The key.
        timeout_s: For one whole request, connection included.
    """

    def __init__(self, faults: Faults, *, base_urls: tuple[str, ...], api_key: str, timeout_s: float) -> None:
        self._faults = faults
        self._base_urls = base_urls
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._clients: dict[str, AsyncOpenAI] = {}

    async def open(self) -> None:
        """Make the clients. Over aiohttp: the package's own transport gets slower with the number of requests."""
        timeout = httpx2.Timeout(self._timeout_s, connect=min(_CONNECT_S, self._timeout_s))
        for base_url in self._base_urls:
            self._clients[base_url] = AsyncOpenAI(
                api_key=self._api_key,
                base_url=base_url,
                max_retries=0,
                timeout=timeout,
                http_client=DefaultAioHttpClient(timeout=timeout),
            )

    async def close(self) -> None:
        """Close the clients; safe to call twice."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def post(self, base_url: str, path: str, body: bytes) -> Arrived:
        """Send a JSON body and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        client = self._client(base_url)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await client.post(
                    path, cast_to=httpx2.Response, content=body, options={"headers": dict(_JSON)}
                )
        except (APIConnectionError, APIStatusError, TimeoutError) as error:
            return self._arrived(error, base_url)
        return Arrived(response.status_code, response.headers, response.content)

    async def get(self, base_url: str, path: str) -> Arrived:
        """Ask for a small document and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        client = self._client(base_url)
        try:
            async with asyncio.timeout(min(_PROBE_S, self._timeout_s)):
                response = await client.get(path, cast_to=httpx2.Response)
        except (APIConnectionError, APIStatusError, TimeoutError) as error:
            return self._arrived(error, base_url)
        return Arrived(response.status_code, response.headers, response.content)

    def _client(self, base_url: str) -> AsyncOpenAI:
        if not self._clients:
            raise RuntimeError("the adapter is not open")
        return self._clients[base_url]

    def _arrived(self, error: APIConnectionError | APIStatusError | TimeoutError, base_url: str) -> Arrived:
        """Return the response that an error of the package stands for, or raise the failure that it means."""
        if isinstance(error, APIStatusError):
            response = error.response
            return Arrived(response.status_code, response.headers, response.content)
        raise self._failure(error, base_url) from None

    def _failure(self, error: APIConnectionError | TimeoutError, base_url: str) -> RequestFailure:
        kind, billed = _meaning(error)
        cause = error.__cause__ or error
        if kind is FailureKind.UNREACHABLE:
            return self._faults.make(kind, f"{base_url} can't be reached: {cause}")
        if kind is FailureKind.TIMEOUT:
            message = f"No answer from {base_url} within {self._timeout_s:g} s"
            return self._faults.make(kind, message, maybe_billed=billed)
        message = f"The connection to {base_url} failed: {type(cause).__name__}: {cause}"
        return self._faults.make(kind, message, maybe_billed=billed)


def _meaning(error: APIConnectionError | TimeoutError) -> tuple[FailureKind, bool]:
    """Return what a fault of the transport means, and whether the endpoint may have done the work."""
    cause: BaseException | None = error
    while cause is not None:
        # Over aiohttp the package calls a connection that the server dropped a connect timeout (and says so on top of
        # aiohttp's own error); but such a request had been sent, and may be billed.
        if isinstance(cause, (aiohttp.ClientError, OSError)):
            return _fault_meaning(cause)
        cause = cause.__cause__
    if isinstance(error.__cause__, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return FailureKind.UNREACHABLE, False
    return (FailureKind.TIMEOUT if isinstance(error, APITimeoutError) else FailureKind.TRANSIENT), True


def _fault_meaning(error: aiohttp.ClientError | OSError) -> tuple[FailureKind, bool]:
    """Return what a fault of aiohttp, under the package, means, and whether the endpoint may have done the work."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return FailureKind.UNREACHABLE, False
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT, True
    if isinstance(error, aiohttp.ClientConnectorError):
        # Out of file descriptors or ports: the fault is here, and passes.
        here = getattr(error, "errno", None) in NO_RESOURCES
        return (FailureKind.TRANSIENT if here else FailureKind.UNREACHABLE), False
    return FailureKind.TRANSIENT, True
