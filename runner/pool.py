"""The servers that share a model's load, and the breaker that leaves out a dead one until it is back."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.adapters.base import Adapter

__all__ = ["Endpoint", "Pool"]

_STRIKES = 3
"""Server errors in a row, without one answer between them, that make an endpoint suspect."""

_SECOND_LOOK_S = 0.5
"""How long after a first good probe one is made again where the server may be on its way out."""

_HOPELESS = frozenset({FailureKind.WRONG_MODEL, FailureKind.AUTH, FailureKind.RETIRED})
"""What a probe finds that no waiting cures."""


class Endpoint:
    """One base URL and what is known of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.outstanding = 0
        self.up = True
        """False while it is suspected or known to be dead: it gets no requests."""
        self.strikes = 0
        self.fallen = 0
        """Requests that failed since it became suspect."""
        self.reason = ""
        self.down_since = 0.0
        """Since when it is not up (event loop time)."""
        self.verdict: asyncio.Future[bool] | None = None
        """Of the first probe after it became suspect: whether it is dead. None while nothing is suspected."""
        self.asking: set[asyncio.Task[object]] = set()
        """Tasks that wait for an answer of it now."""
        self.abandoned: set[asyncio.Task[object]] = set()
        """Those of them that were woken because it died."""
        self.last_word = 0.0
        """When it last answered anything (event loop time)."""

    @property
    def words(self) -> str:
        """Where it is and what is wrong with it; most reasons name the address themselves."""
        host = urlsplit(self.url).netloc
        return self.reason if host and host in self.reason else f"{self.url}: {self.reason}"


class Pool:
    """Least-outstanding choice among the endpoints that are up; dead ones are probed until they are back.

    Args:
        adapter: Knows the base URLs and how to probe them.
        give_up_after_s: How long all may be dead before :attr:`lost` is set, in seconds. While one of them lives the
            others are probed without end.
        on_change: Called when an endpoint goes down or comes back.
        watch_s: An endpoint with requests in flight that says nothing for so long is probed, in seconds. A server
            that was told to stop may hold its connections open for ever without answering.
        strikes: Server errors in a row that make an endpoint suspect.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        give_up_after_s: float,
        on_change: Callable[[Endpoint], None] | None = None,
        watch_s: float = 10.0,
        strikes: int = _STRIKES,
    ) -> None:
        self._adapter = adapter
        self._give_up_after_s = give_up_after_s
        self._on_change = on_change
        self._watch_s = watch_s
        self._strikes = strikes
        self.endpoints = [Endpoint(url) for url in adapter.base_urls]
        self._single = self.endpoints[0] if len(self.endpoints) == 1 else None
        self._probes: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._closing = False
        self.lost: RequestFailure | None = None
        """Why no endpoint will come back; None while there is hope."""
        self.on_lost: Callable[[RequestFailure], None] | None = None
        """Called when :attr:`lost` is set."""

    def pick(self) -> Endpoint | None:
        """Return the endpoint to ask next; None while all are down."""
        if self._single is not None:
            return self._single if self._single.up else None
        best: Endpoint | None = None
        for endpoint in self.endpoints:
            if endpoint.up and (best is None or endpoint.outstanding < best.outstanding):
                best = endpoint
        return best

    async def available(self) -> None:
        """Wait until an endpoint is up, or all are lost."""
        while self.lost is None and not self._closing and self.pick() is None:
            self._changed.clear()
            await self._changed.wait()

    def success(self, endpoint: Endpoint) -> None:
        """It answered."""
        endpoint.strikes = 0
        endpoint.last_word = asyncio.get_running_loop().time()

    async def failed(self, endpoint: Endpoint, failure: RequestFailure) -> bool:
        """Take note of a failure; return whether it was the death of the server, which costs nobody an attempt.

        Where the failure makes the endpoint suspect this waits for the outcome of one probe, not until it is back:
        another endpoint may take the request meanwhile.
        """
        endpoint.last_word = asyncio.get_running_loop().time()
        if not self._suspect(endpoint, failure):
            return False
        if endpoint.verdict is None:
            if self._closing:
                return failure.kind is FailureKind.UNREACHABLE
            self._open(endpoint, failure)
        endpoint.fallen += 1
        assert endpoint.verdict is not None  # noqa: S101 - set by _open
        return await asyncio.shield(endpoint.verdict)

    def _suspect(self, endpoint: Endpoint, failure: RequestFailure) -> bool:
        kind = failure.kind
        if kind is FailureKind.TRANSIENT and failure.http_status is not None and not _broke_off(failure):
            endpoint.strikes += 1
            return endpoint.strikes >= self._strikes or not endpoint.up
        silent = failure.http_status is None and kind in (FailureKind.TRANSIENT, FailureKind.TIMEOUT)
        return silent or _broke_off(failure) or kind is FailureKind.UNREACHABLE

    def _open(self, endpoint: Endpoint, failure: RequestFailure) -> None:
        loop = asyncio.get_running_loop()
        endpoint.verdict = loop.create_future()
        endpoint.up = False
        endpoint.fallen = 0
        endpoint.reason = str(failure)
        endpoint.down_since = loop.time()
        probing = self._probe_until_back(endpoint, endpoint.verdict, broke_off=_broke_off(failure))
        task = loop.create_task(probing)
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe_until_back(
        self, endpoint: Endpoint, verdict: asyncio.Future[bool], *, broke_off: bool = False
    ) -> None:
        loop = asyncio.get_running_loop()
        pause_s = 0.25
        while True:
            failure = await self._probe(endpoint)
            if failure is None and not verdict.done() and (broke_off or endpoint.fallen > endpoint.outstanding):
                # A server that was told to stop breaks off its answers, or fails them all, while its health is good.
                await asyncio.sleep(_SECOND_LOOK_S)
                failure = await self._probe(endpoint)
            if failure is None or failure.kind is FailureKind.RATE_LIMIT:  # too busy to be dead
                self._close_breaker(endpoint, verdict)
                return
            endpoint.reason = str(failure)
            if failure.kind in _HOPELESS:
                self._lose(endpoint, failure)
                return
            if failure.kind is FailureKind.UNREACHABLE:
                # Others may still get what they were promised: a server that answers probes with errors is there.
                self._abandon(endpoint)
            if not verdict.done():
                verdict.set_result(True)
                self._tell(endpoint)
            if all(not e.up and loop.time() - e.down_since >= self._give_up_after_s for e in self.endpoints):
                self._lose(endpoint, self._given_up(endpoint))
                return
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(10.0, pause_s * 1.6)

    async def _probe(self, endpoint: Endpoint) -> RequestFailure | None:
        """Return what is wrong with an endpoint; None where it is well."""
        try:
            await self._adapter.probe(endpoint.url)
        except RequestFailure as failure:
            return failure
        except Exception as error:
            # A fault of ours must not leave everybody waiting for a probe that has died.
            return RequestFailure(FailureKind.PERMANENT, f"the probe failed: {type(error).__name__}: {error}")
        return None

    def _given_up(self, endpoint: Endpoint) -> RequestFailure:
        return RequestFailure(
            FailureKind.UNREACHABLE,
            f"{endpoint.url} did not come back within {self._give_up_after_s:g} s ({endpoint.reason})",
        )

    def _close_breaker(self, endpoint: Endpoint, verdict: asyncio.Future[bool]) -> None:
        endpoint.up = True
        endpoint.strikes = 0
        endpoint.last_word = asyncio.get_running_loop().time()
        endpoint.verdict = None
        was_down = verdict.done()
        if not was_down:
            verdict.set_result(False)
        self._changed.set()
        if was_down:
            self._tell(endpoint)

    def _lose(self, endpoint: Endpoint, failure: RequestFailure) -> None:
        """Give everything up: the last endpoint is gone for good, or one has become another model's."""
        endpoint.up = False
        if self.lost is None:
            self.lost = failure
        self._let_go(endpoint)
        self._tell(endpoint)
        self._changed.set()
        if self.on_lost is not None:
            self.on_lost(failure)

    @staticmethod
    def _let_go(endpoint: Endpoint) -> None:
        if endpoint.verdict is not None and not endpoint.verdict.done():
            endpoint.verdict.set_result(True)

    def _abandon(self, endpoint: Endpoint) -> None:
        """Wake everybody who waits for an answer of a dead endpoint."""
        for task in list(endpoint.asking):
            endpoint.abandoned.add(task)
            task.cancel()

    def _tell(self, endpoint: Endpoint) -> None:
        if self._on_change is not None:
            self._on_change(endpoint)

    async def watch(self) -> None:
        """Probe endpoints that owe answers and say nothing; runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._watch_s / 2)
            for endpoint in self.endpoints:
                quiet = endpoint.outstanding and endpoint.up and loop.time() - endpoint.last_word > self._watch_s
                if not quiet:
                    continue
                failure = await self._probe(endpoint)
                if failure is not None and endpoint.verdict is None:
                    if failure.kind in _HOPELESS:
                        self._lose(endpoint, failure)
                    elif failure.kind is FailureKind.UNREACHABLE:
                        self._open(endpoint, failure)
                endpoint.last_word = loop.time()

    def release(self) -> None:
        """Let everybody go who waits for a dead endpoint: the lane ends."""
        self._closing = True
        for endpoint in self.endpoints:
            self._let_go(endpoint)
        self._changed.set()

    async def close(self) -> None:
        """End the probes."""
        self.release()
        for task in list(self._probes):
            task.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)


def _broke_off(failure: RequestFailure) -> bool:
    """Whether the server had begun to answer, and ended in the middle of it."""
    return failure.kind is FailureKind.TRANSIENT and failure.http_status == 200
