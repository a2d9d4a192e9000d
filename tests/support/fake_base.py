"""What the fake servers share: life cycle, a log of what was sent, scripted faults, a command line.

A fake speaks the documented wire format over loopback. It runs in the test's own event loop (``async with server``),
in a thread of its own (``with in_thread(server)``), or in another process, which prints its port as its first line::

    python tests/support/fake_vllm.py --port 0 --latency 0.05

A server in another process is steered and read over HTTP: ``POST /_fake/fault`` takes the fields of :class:`Fault` plus
``times``, ``GET /_fake/log`` returns ``{"requests", "peak", "sent", "arrivals"}``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from typing import Self

HUGE = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to a request instead of an answer."""

    action: str = "respond"
    """``respond`` (with the fields below), ``hang`` (no answer for ``seconds``), ``drop`` (the connection is closed
    without a byte), ``cut`` (half of the answer, then the connection is closed), ``slow`` (the true answer, ``seconds``
    late)."""
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: str | bytes | dict[str, Any] = ""
    seconds: float = 3600.0

    def response(self) -> web.Response:
        if isinstance(self.body, dict):
            return web.json_response(self.body, status=self.status, headers=self.headers)
        raw = self.body.encode() if isinstance(self.body, str) else self.body
        return web.Response(body=raw, status=self.status, headers={"Content-Type": "application/json", **self.headers})


class FakeServer:
    """Base of the fakes. Subclasses add their routes and call :meth:`serve` with the texts that a request holds.

    Args:
        latency_s: How long each answer takes.
        answer: Text that was sent -> the model's answer; the default says toxic or respectful by a hash of it.
        api_key: The key that has to be there; None: any or none.
        log: False keeps no log, for benchmarks.
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        answer: Callable[[str], str] | None = None,
        api_key: str | None = None,
        log: bool = True,
    ) -> None:
        self.latency_s = latency_s
        self.answer = answer or hashed_answer
        self.api_key = api_key
        self.requests = 0
        """Requests about sentences, failed ones included; probes are not counted."""
        self.probes = 0
        self.sent: Counter[str] = Counter()
        """How often each text (prompt, user message, input) was sent."""
        self.bodies: deque[dict[str, Any]] = deque(maxlen=1000)
        """The last request bodies, parsed."""
        self.headers: deque[dict[str, str]] = deque(maxlen=1000)
        self.peak = 0
        """Most requests in flight at once."""
        self.arrivals: deque[float] = deque(maxlen=10_000)
        """When the last requests came, by a steady clock, in seconds."""
        self._log = log
        self._in_flight = 0
        self._faults: deque[Fault] = deque()
        self._rules: list[tuple[Callable[[Sequence[str]], bool], Fault]] = []
        self._number = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self.port = 0

    # -- scripting ---------------------------------------------------------------------------------------------------

    def fail(self, fault: Fault, times: int = 1) -> None:
        """Let the next requests fail, after those that were told to before."""
        self._faults.extend([fault] * times)

    def fail_when(self, predicate: Callable[[Sequence[str]], bool], fault: Fault) -> None:
        """Let each request fail whose texts the predicate picks."""
        self._rules.append((predicate, fault))

    def asked(self, part: str) -> int:
        """Return how often a text that contains ``part`` was sent."""
        return sum(count for text, count in self.sent.items() if part in text)

    # -- life --------------------------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The address as a model's TOML has it."""
        return f"{self.root}/v1"

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    async def start(self, port: int | None = None) -> None:
        """Listen; on the same port as before, where it was stopped."""
        app = web.Application(client_max_size=HUGE)
        app.add_routes(self.routes())
        app.add_routes([web.get("/_fake/log", self._show_log), web.post("/_fake/fault", self._take_fault)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, keepalive_timeout=60)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port if port is None else port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port and every connection; requests in flight get nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for connection in list(runner.server.connections if runner.server else ()):
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- serving -----------------------------------------------------------------------------------------------------

    def refuse_key(self, request: web.Request) -> web.Response | None:
        """Return the endpoint's answer to a wrong key; None where the key is right."""
        raise NotImplementedError

    async def serve(
        self, request: web.Request, texts: Sequence[str], body: dict[str, Any], respond: Callable[[], web.Response]
    ) -> web.StreamResponse:
        """Log a request, play a fault if one is due, else wait and respond."""
        self.requests += 1
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        if self._log:
            self.arrivals.append(time.monotonic())
            self.sent.update(texts)
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        try:
            fault = self._due(texts)
            if fault is not None:
                return await self._play(request, fault, respond)
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            return respond()
        finally:
            self._in_flight -= 1

    def _due(self, texts: Sequence[str]) -> Fault | None:
        for predicate, fault in self._rules:
            if predicate(texts):
                return fault
        return self._faults.popleft() if self._faults else None

    async def _play(
        self, request: web.Request, fault: Fault, respond: Callable[[], web.Response]
    ) -> web.StreamResponse:
        if fault.action == "respond":
            return fault.response()
        if fault.action in ("hang", "slow"):
            await asyncio.sleep(fault.seconds)
            return respond()
        if fault.action == "cut":
            whole = respond()
            text = whole.body if isinstance(whole.body, bytes) else b""
            part = web.StreamResponse(status=200, headers={"Content-Length": str(len(text))})
            await part.prepare(request)
            await part.write(text[: len(text) // 2])
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    async def _show_log(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"requests": self.requests, "peak": self.peak, "sent": dict(self.sent), "arrivals": list(self.arrivals)}
        )

    async def _take_fault(self, request: web.Request) -> web.Response:
        fields = await request.json()
        times = fields.pop("times", 1)
        self.fail(Fault(**fields), times)
        return web.json_response({"queued": times})

    def next_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._number)}"


def hashed_answer(text: str) -> str:
    """Say toxic or respectful, the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return "toxic" if digest[0] & 1 else "respectful"


async def read_json(request: web.Request) -> dict[str, Any] | None:
    """Return the request's JSON object; None where it is none."""
    try:
        data = json.loads(await request.read())
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


Server = TypeVar("Server", bound=FakeServer)


@contextlib.contextmanager
def in_thread(server: Server) -> Iterator[Server]:
    """Run a server in a thread of its own, for tests whose own event loop is elsewhere."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work: Awaitable[None]) -> None:
        async def do() -> None:
            await work

        asyncio.run_coroutine_threadsafe(do(), loop).result(timeout=10)

    try:
        call(server.start())
        yield server
    finally:
        call(server.stop())
        call(_cancel_others())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()


async def _cancel_others() -> None:
    """End the requests that hang on purpose; a loop that is closed under them complains."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def main(parser: argparse.ArgumentParser, make: Callable[[argparse.Namespace], FakeServer]) -> None:
    """Run a server until it is killed; its port is the first line on standard output."""
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per answer")
    parser.add_argument("--api-key", default=None)
    arguments = parser.parse_args()
    asyncio.run(_forever(make(arguments), arguments.port))


async def _forever(server: FakeServer, port: int) -> None:
    await server.start(port)
    print(server.port, flush=True)
    await asyncio.Event().wait()
