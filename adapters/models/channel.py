"""Requests over libcurl: the way to vLLM, the seq2seq server and Perspective.

pycurl's own asyncio interface drives the sockets from the run's event loop; a request costs half of what it costs over
aiohttp (benchmarks/runner_throughput.py, design/adapters.md).
"""

from __future__ import annotations

import os
import secrets
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import pycurl
from yarl import URL

from hatevolution.adapters.models.exchange import Exchange, ExchangeFailed, Setup
from hatevolution.adapters.models.faults import BODY_BYTES, NO_RESOURCES, Arrived
from hatevolution.adapters.models.headers import ResponseHeaders
from hatevolution.adapters.models.sockets import Sockets
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.adapters.models.exchange import Received
    from hatevolution.adapters.models.faults import Faults
    from hatevolution.errors import RequestFailure

__all__ = ["Channel"]

_CONNECT_S = 10.0
"""A host that takes no connection for this long is not there."""
_PROBE_S = 10.0
_MOST_BYTES = 64 << 20
"""Of a success, unpacked. The answers to thousands of sentences are smaller, and a broken server may never end."""
_ERROR_BYTES = 2 * BODY_BYTES
_SMALL_BYTES = 16 * BODY_BYTES
"""Of a document in which a server describes itself."""
_CONNECTIONS = 100_000
"""Connections that are kept; limits are the runner's, so this is none."""


class Channel:
    """Posts bytes, gets bytes; what fails on the way becomes a failure.

    Args:
        faults: What makes the failures.
        timeout_s: For one whole request, connection included.
        headers: Sent with every request (content type, key).
        through_proxy: True to obey the proxy variables of the environment, for endpoints out in the world.
        tagged: True to send each request with an id of its own, for servers that put it into their answers (vLLM does):
            an answer with the id of another request is then none, whatever went wrong on the way.
    """

    def __init__(
        self,
        faults: Faults,
        *,
        timeout_s: float,
        headers: Mapping[str, str],
        through_proxy: bool = False,
        tagged: bool = False,
    ) -> None:
        self._faults = faults
        self._timeout_s = timeout_s
        self._setup = Setup({"Content-Type": "application/json", **headers}, min(_CONNECT_S, timeout_s / 2))
        self._through_proxy = through_proxy
        self._multi: pycurl.AsyncCurlMulti | None = None
        self._sockets = Sockets()
        self._idle: list[Exchange] = []
        self._urls: dict[tuple[str, str], str] = {}
        self._proxies: dict[str, str] = {}
        self._mark = f"hatevolution-{secrets.token_hex(6)}-".encode() if tagged else None
        self._numbers = count(1)

    async def open(self) -> None:
        """Make the pool of connections."""
        self._multi = pycurl.AsyncCurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, _CONNECTIONS)

    async def close(self) -> None:
        """Close all connections; safe to call twice."""
        multi, self._multi = self._multi, None
        self._idle.clear()
        if multi is not None:
            await multi.aclose()

    async def post(self, root: str, path: str, body: bytes) -> Arrived:
        """Send a JSON body and return the response, whatever its status.

        Raises:
            RequestFailure: There was none.
        """
        exchange = self._idle.pop() if self._idle else Exchange(self._setup, self._sockets)
        url, proxy = self._url(root, path), self._proxy(root)
        tag = None if self._mark is None else b"%s%d" % (self._mark, next(self._numbers))
        # Faults hold what is wanted of an error body; nobody has to read a gigabyte of it.
        exchange.prepare(url, proxy, self._timeout_s, body, most=_MOST_BYTES, most_of_error=_ERROR_BYTES, tag=tag)
        received = await self._perform(exchange, root)
        self._idle.append(exchange)
        arrived = Arrived(received.status, ResponseHeaders(received.head), received.body)
        if received.cut and received.status == 200:
            raise self._faults.malformed(arrived, f"it is longer than {_MOST_BYTES >> 20} MiB")
        if tag is not None and _of_another(received.body, tag):
            exchange.distrust()
            raise self._faults.malformed(arrived, "it answers another request")
        return arrived

    async def get(self, root: str, path: str) -> Arrived:
        """Ask for a small document and return the response, whatever its status.

        It goes over a connection of its own: a server that is on its way out still answers on those it has.

        Raises:
            RequestFailure: There was none.
        """
        exchange = Exchange(self._setup, self._sockets, alone=True)
        timeout_s = min(_PROBE_S, self._timeout_s)
        url, proxy = self._url(root, path), self._proxy(root)
        exchange.prepare(url, proxy, timeout_s, None, most=_SMALL_BYTES, most_of_error=_SMALL_BYTES)
        received = await self._perform(exchange, root)
        return Arrived(received.status, ResponseHeaders(received.head), received.body)

    async def _perform(self, exchange: Exchange, root: str) -> Received:
        """Send; an exchange that failed, or was cancelled, is not used again."""
        if self._multi is None:
            raise RuntimeError("the adapter is not open")
        try:
            return await exchange.perform(self._multi)
        except ExchangeFailed as error:
            raise self._failure(error, root) from None

    def _url(self, root: str, path: str) -> str:
        """Return an address as it is sent (a host outside of ASCII in its encoded form)."""
        url = self._urls.get((root, path))
        if url is None:
            url = self._urls[root, path] = str(URL(root + path))
        return url

    def _proxy(self, root: str) -> str:
        """Return the proxy that the environment names for an address; empty for none."""
        if not self._through_proxy:
            return ""
        proxy = self._proxies.get(root)
        if proxy is None:
            parts = urlsplit(root)
            bypass = parts.hostname is None or proxy_bypass(parts.hostname)
            proxy = self._proxies[root] = "" if bypass else getproxies().get(parts.scheme, "")
        return proxy

    def _failure(self, error: ExchangeFailed, root: str) -> RequestFailure:
        """Return what a fault of the transport means; once a request has left, the endpoint may have done the work."""
        if not error.sent:
            # Out of file descriptors or ports: the fault is here, and passes.
            here = error.os_error in NO_RESOURCES
            kind = FailureKind.TRANSIENT if here else FailureKind.UNREACHABLE
            why = os.strerror(error.os_error).lower() if error.os_error else error.text
            hint = "" if here else "; is the server running there?"
            return self._faults.make(kind, f"{root} can't be reached ({why}){hint}")
        if error.timed_out:
            what = f"No answer from {root} within {self._timeout_s:g} s"
            return self._faults.make(FailureKind.TIMEOUT, what, maybe_billed=True)
        what = f"The connection to {root} failed: {error.text}"
        return self._faults.make(FailureKind.TRANSIENT, what, maybe_billed=True)


def _of_another(body: bytes, tag: bytes) -> bool:
    """Whether a body names a request of this channel, and not the one with this tag."""
    at = body.find(tag[: tag.rindex(b"-") + 1])
    if at < 0:
        return False
    end = at + len(tag)
    return body[at:end] != tag or body[end : end + 1].isdigit()
