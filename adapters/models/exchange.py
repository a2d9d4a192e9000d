"""One request and its response on one of libcurl's easy handles, which is used again for the next one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

import pycurl

import hatevolution
from hatevolution.adapters.models.sockets import Ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.adapters.models.sockets import Sockets

__all__ = ["Exchange", "ExchangeFailed", "Received", "Setup"]

_IDLE_S = 4
"""uvicorn, under vLLM, closes idle connections after five seconds; a request into a closing one would be lost."""
_DNS_S = 300
_KEEP_ALIVE_S = 60
"""A connection that has been silent for this long is asked whether its other end still stands."""
_WORDS = {
    pycurl.E_BAD_CONTENT_ENCODING: "its body can't be unpacked",
    pycurl.E_SEND_FAIL_REWIND: "it was closed before an answer came",
    100: "its header is too large",  # CURLE_TOO_LARGE
}
"""What libcurl says nothing of, or nothing that helps."""


class Setup(NamedTuple):
    """What all requests of a channel have in common."""

    headers: Mapping[str, str]
    connect_s: float
    """Seconds that a connection may take."""


class Received(NamedTuple):
    """A response, whatever its status."""

    status: int
    head: list[bytes]
    """The lines of its header, the status line first, as they came."""
    body: bytes
    cut: bool
    """Whether there was more of the body than was wanted."""


class ExchangeFailed(Exception):
    """No response came, or only a part of one.

    Attributes:
        text: libcurl's own words.
        sent: Whether anything of the request had left.
        timed_out: Whether the time for it was over.
        os_error: The operating system's error number; 0 where it gave none.
    """

    def __init__(self, text: str, *, sent: bool, timed_out: bool, os_error: int) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent
        self.timed_out = timed_out
        self.os_error = os_error


class Exchange:
    """An easy handle with its callbacks. One request at a time; after a failure it is of no more use.

    Args:
        setup: What all requests have in common.
        sockets: Those behind the connections.
        alone: True for connections that nobody else has used or will use.
    """

    def __init__(self, setup: Setup, sockets: Sockets, *, alone: bool = False) -> None:
        self._sockets = sockets
        self._opened: list[int] = []
        """Descriptors of the sockets that were made for this request."""
        self._stale = False
        """Whether the connection that it was to go through had died, or said something unasked."""
        self._sending = False
        self._url = ""
        self._proxy: str | None = None
        self._timeout_s = 0.0
        self._body = b""
        self._given = 0
        self._head: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size = 0
        self._most = self._most_of_error = 0
        self._cut = False
        self._begun = False
        """Whether the header has come whole."""
        self._headers = _headers(setup)
        self._ends: Ends | None = None
        self._curl = _handle(setup, self._headers)
        self._curl.setopt(pycurl.HEADERFUNCTION, self._line)
        self._curl.setopt(pycurl.WRITEFUNCTION, self._take)
        self._curl.setopt(pycurl.SOCKOPTFUNCTION, self._socket)
        self._curl.setopt(pycurl.PREREQFUNCTION, self._before)
        if alone:
            self._curl.setopt(pycurl.FRESH_CONNECT, 1)
            self._curl.setopt(pycurl.FORBID_REUSE, 1)

    def prepare(
        self,
        url: str,
        proxy: str,
        timeout_s: float,
        body: bytes | None,
        *,
        most: int,
        most_of_error: int,
        tag: bytes | None = None,
    ) -> None:
        """Take up the next request.

        Args:
            url: Where to.
            proxy: Its proxy; empty for none.
            timeout_s: For all of it, in seconds.
            body: What to post; None to get.
            most: Bytes of the response's body, unpacked, after which the rest is not read.
            most_of_error: The same, where the status is not 200.
            tag: What this request is to be known by, sent as ``X-Request-Id``.
        """
        curl = self._curl
        if tag is not None:
            curl.setopt(pycurl.HTTPHEADER, [*self._headers, b"X-Request-Id: " + tag])
        # Setting an option again costs as much as setting it once.
        if url != self._url:
            curl.setopt(pycurl.URL, url)
            self._url = url
        if proxy != self._proxy:
            curl.setopt(pycurl.PROXY, proxy)
            self._proxy = proxy
        if timeout_s != self._timeout_s:
            curl.setopt(pycurl.TIMEOUT_MS, max(1, round(1000 * timeout_s)))
            self._timeout_s = timeout_s
        if body is not None:
            if not self._body:
                self._will_post()
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
            self._body = body
        self._most, self._most_of_error = most, most_of_error

    def _begin(self) -> None:
        self._given = self._size = 0
        self._cut = self._begun = self._stale = self._sending = False
        self._head, self._pieces = [], []
        self._opened.clear()
        self._ends = None

    def _will_post(self) -> None:
        """Prepare the handle for bodies.

        libcurl sends a request once more, by itself and up to five times, when a connection that it had used before
        breaks without an answer. But then the endpoint may have done the work, and whether to ask again is the runner's
        to decide. There is no option against it (curl's pull request 18417); a body that can't be read twice is one.
        """
        curl = self._curl
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.READFUNCTION, self._give)
        curl.setopt(pycurl.SEEKFUNCTION, _never_again)

    async def perform(self, multi: pycurl.AsyncCurlMulti) -> Received:
        """Send the request and return the response.

        Raises:
            ExchangeFailed: There was none, or only a part of one.
        """
        curl = self._curl
        while True:
            self._begin()
            try:
                await multi.add_handle(curl)
            except pycurl.error as error:
                if self._stale:  # nothing was sent, and libcurl has closed that connection: the next one
                    continue
                self._forget()
                if not self._cut:
                    raise self._failed(error) from None
            except asyncio.CancelledError:
                self._forget()
                raise
            break
        if not self._begun:  # libcurl takes a connection that closes in the middle of it for its end
            raise ExchangeFailed("the header of the response broke off", sent=True, timed_out=False, os_error=0)
        return Received(curl.getinfo(pycurl.RESPONSE_CODE), self._head, b"".join(self._pieces), self._cut)

    def _forget(self) -> None:
        """A failed or cancelled request takes its connection along."""
        if self._ends is not None:
            self._sockets.forget(self._ends)
            self._ends = None

    def distrust(self) -> None:
        """Send nothing more over the connection that the last request went through."""
        if self._ends is not None:
            self._sockets.distrust(self._ends)

    def _failed(self, error: pycurl.error) -> ExchangeFailed:
        code, text = int(error.args[0]), str(error.args[-1])
        curl = self._curl
        sent = self._sending and curl.getinfo(pycurl.REQUEST_SIZE) > 0
        return ExchangeFailed(
            _WORDS.get(code) or text or f"libcurl's error {code}",
            sent=sent,
            timed_out=code == pycurl.E_OPERATION_TIMEDOUT,
            os_error=0 if sent or code == pycurl.E_OPERATION_TIMEDOUT else self._os_error(code),
        )

    def _os_error(self, code: int) -> int:
        """Return the operating system's error that kept a connection from being made; 0 where it was none of its."""
        number = int(self._curl.getinfo(pycurl.OS_ERRNO)) if code == pycurl.E_COULDNT_CONNECT else 0
        if number:
            return number
        # libcurl keeps that of connecting, not that of making a socket to connect with.
        try:
            socket.socket().close()
        except OSError as error:
            return error.errno or 0
        return 0

    # -- called by libcurl ---------------------------------------------------------------------------------------

    def _socket(self, descriptor: int, _purpose: int) -> int:
        self._opened.append(descriptor)
        return int(pycurl.SOCKOPT_OK)

    def _before(self, peer: str, own: str, peer_port: int, own_port: int) -> int:
        """Say whether the request may go out over this connection, which stands; only now libcurl has chosen it."""
        ends = Ends(peer, own, peer_port, own_port)
        if self._opened:
            self._sockets.add(ends, self._opened)
        elif not self._sockets.stands(ends):
            self._stale = True
            return int(pycurl.PREREQFUNC_ABORT)
        self._sending = True
        self._ends = ends
        return int(pycurl.PREREQFUNC_OK)

    def _give(self, size: int) -> bytes:
        start = self._given
        self._given += size
        return self._body[start : self._given]

    def _line(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):  # what stood before was an interim response's, or a proxy's
            self._head.clear()
            self._begun = False
        elif line in (b"\r\n", b"\n"):
            self._begun = True
        self._head.append(line)

    def _take(self, piece: bytes) -> int | None:
        """Keep a piece of the body; anything but its length ends the exchange, which is what a cut is."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size < self._most_of_error:
            return None
        most = self._most if self._succeeded() else self._most_of_error
        if self._size < most:
            return None
        self._cut = True
        self._pieces = [b"".join(self._pieces)[:most]]
        return 0

    def _succeeded(self) -> bool:
        return self._head[0].split(None, 2)[1:2] == [b"200"]


def _never_again(_offset: int, _origin: int) -> int:
    return int(pycurl.SEEKFUNC_FAIL)


def _headers(setup: Setup) -> list[bytes]:
    headers = {"User-Agent": f"hatevolution/{hatevolution.__version__}", **setup.headers}
    # "Expect:" takes back the question whether a large body is welcome, which costs a round trip.
    return [f"{name}: {value}".encode() for name, value in headers.items()] + [b"Expect:"]


def _handle(setup: Setup, headers: list[bytes]) -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.HTTPHEADER, headers)
    curl.setopt(pycurl.ACCEPT_ENCODING, "")  # whatever libcurl can decompress
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, round(1000 * setup.connect_s)))
    curl.setopt(pycurl.DNS_CACHE_TIMEOUT, _DNS_S)
    curl.setopt(pycurl.MAXAGE_CONN, _IDLE_S)
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.TCP_KEEPALIVE, 1)
    curl.setopt(pycurl.TCP_KEEPIDLE, _KEEP_ALIVE_S)
    _trust(curl)
    return curl


def _trust(curl: pycurl.Curl) -> None:
    """Trust whom Python trusts: SSL_CERT_FILE, SSL_CERT_DIR, or the system's certificates."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile is not None:
        curl.setopt(pycurl.CAINFO, paths.cafile)
    if paths.capath is not None:
        curl.setopt(pycurl.CAPATH, paths.capath)
    if paths.cafile is None and paths.capath is None:
        curl.setopt(pycurl.SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA)
