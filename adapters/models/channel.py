"""Requests over aiohttp: the way to vLLM, the seq2seq server and Perspective."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from hatevolution.adapters.models.faults import BODY_BYTES, Arrived
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.adapters.models.faults import Faults
    from hatevolution.errors import RequestFailure

__all__ = ["AiohttpChannel", "fault_meaning"]

_CONNECT_S = 10.0
"""A host that takes no connection for this long is not there."""
_PROBE_S = 10.0
_KEEP_ALIVE_S = 4.0
"""uvicorn, under vLLM, closes idle connections after five seconds; a request into a closing one would be lost."""
_DNS_S = 300
_LARGE = 1 << 20
"""From this size on aiohttp wants a stream, which it sends in pieces."""
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


class AiohttpChannel:
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
        self._headers = {"Content-Type": "application/json", **headers}
        self._through_proxy = through_proxy
        self._session: aiohttp.ClientSession | None = None
        self._urls: dict[tuple[str, str], URL] = {}
        self._proxies: dict[str, str | None] = {}

    async def open(self) -> None:
        """Make the session. Limits are the runner's, so the connector has none."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=_DNS_S, keepalive_timeout=_KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            timeout=self._timeout(self._timeout_s),
        )

    async def close(self) -> None:
        """Close the session; safe to call twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, root: str, path: str, body: bytes) -> Arrived:
        """Send a JSON body and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        url = self._urls.get((root, path)) or self._url(root, path)
        data = body if len(body) < _LARGE else io.BytesIO(body)
        try:
            async with self._open_session().post(
                url, data=data, allow_redirects=False, proxy=self._proxy(root) if self._through_proxy else None
            ) as response:
                # Faults hold what is wanted of an error body; nobody has to read a gigabyte of it.
                raw = await (response.read() if response.status == 200 else _some(response))
                return Arrived(response.status, response.headers, raw)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, root) from None

    async def get(self, root: str, path: str) -> Arrived:
        """Ask for a small document and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        timeout = self._timeout(min(_PROBE_S, self._timeout_s))
        try:
            async with self._open_session().get(
                self._url(root, path),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy(root) if self._through_proxy else None,
            ) as response:
                return Arrived(response.status, response.headers, await _some(response, 16 * BODY_BYTES))
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, root) from None

    def _url(self, root: str, path: str) -> URL:
        return self._urls.setdefault((root, path), URL(root + path))

    def _proxy(self, root: str) -> str | None:
        """Return the proxy that the environment names for an address.

        Looked up once: aiohttp's ``trust_env`` does so, and reads ``~/.netrc``, for every request.
        """
        if root not in self._proxies:
            parts = urlsplit(root)
            bypass = parts.hostname is None or proxy_bypass(parts.hostname)
            self._proxies[root] = None if bypass else getproxies().get(parts.scheme)
        return self._proxies[root]

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the adapter is not open")
        return self._session

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=seconds, sock_connect=min(_CONNECT_S, seconds / 2))

    def _failure(self, error: aiohttp.ClientError | OSError, root: str) -> RequestFailure:
        kind, billed = fault_meaning(error)
        if kind is FailureKind.TIMEOUT:
            return self._faults.make(kind, f"No answer from {root} within {self._timeout_s:g} s", maybe_billed=billed)
        if kind is FailureKind.UNREACHABLE:
            return self._faults.make(kind, f"{root} can't be reached ({_reason(error)}); is the server running there?")
        what = f"The connection to {root} failed: {type(error).__name__}: {error}"
        return self._faults.make(kind, what, maybe_billed=billed)


def fault_meaning(error: aiohttp.ClientError | OSError) -> tuple[FailureKind, bool]:
    """Return what a fault of the transport means, and whether the endpoint may have done the work."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return FailureKind.UNREACHABLE, False
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT, True
    if isinstance(error, aiohttp.ClientConnectorError):
        # Out of file descriptors or ports: the fault is here, and passes.
        here = getattr(error, "errno", None) in _NO_RESOURCES
        return (FailureKind.TRANSIENT if here else FailureKind.UNREACHABLE), False
    return FailureKind.TRANSIENT, True


def _reason(error: aiohttp.ClientError | OSError) -> str:
    """Return why a connection failed, in the operating system's words where it has any."""
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) and number > 0 else str(error)


async def _some(response: aiohttp.ClientResponse, most: int = 2 * BODY_BYTES) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size >= most:
            response.close()
            break
    return b"".join(pieces)[:most]
