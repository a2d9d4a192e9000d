"""Requests over libcurl against servers that write what the test says, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import io
import resource
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from fake_setup import model, until
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.models.channel import Channel
from hatevolution.adapters.models.faults import BODY_BYTES, Faults
from hatevolution.adapters.models.headers import ResponseHeaders
from hatevolution.adapters.secrets import Secrets
from hatevolution.errors import ConfigError, FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from hatevolution.adapters.models.faults import Arrived

    Script = Callable[["Connection"], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Connection:
    """One client, as a script sees it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def request(self) -> tuple[list[bytes], bytes]:
        """Read one request; raises IncompleteReadError where the client has gone."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next((int(line[15:]) for line in head if line.lower().startswith(b"content-length:")), 0)
        return head, await self.reader.readexactly(length)

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()


class Written:
    """A server that does what a script says, and keeps what was asked."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.requests: list[tuple[list[bytes], bytes]] = []
        self.gone = 0
        self.root = ""
        self._tasks: set[asyncio.Task[None] | None] = set()

    @contextlib.asynccontextmanager
    async def listening(self, context: ssl.SSLContext | None = None) -> AsyncIterator[Written]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, backlog=1000)
        port = server.sockets[0].getsockname()[1]
        self.root = f"http{'s' if context else ''}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                if task is not None:
                    task.cancel()
            await until(lambda: self.gone == self.connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        connection = Connection(self.connections, reader, writer)
        request = connection.request

        async def kept() -> tuple[list[bytes], bytes]:
            self.requests.append(await request())
            return self.requests[-1]

        connection.request = kept  # type: ignore[method-assign]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await self._script(connection)
        self.gone += 1
        writer.close()


@contextlib.asynccontextmanager
async def channel(**fields: Any) -> AsyncIterator[Channel]:
    faults = Faults(model("vllm-completions"), Secrets({}).redactor(model("vllm-completions")))
    made = Channel(faults, **{"timeout_s": 5.0, "headers": {}, **fields})
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def answering(connection: Connection) -> None:
    while True:
        await connection.request()
        await connection.say(OK)


async def failure(asking: Awaitable[Arrived]) -> RequestFailure:
    with pytest.raises(RequestFailure) as caught:
        await asking
    return caught.value


async def test_connections_are_used_again() -> None:
    async with Written(answering).listening() as server, channel(headers={"X-Key": "k"}) as client:
        for number in range(5):
            arrived = await client.post(server.root, "/v1/x", b"%d" % number)
            assert (arrived.status, arrived.body) == (200, b"ok")
        assert server.connections == 1
        head, _ = server.requests[0]
        assert head[0] == b"POST /v1/x HTTP/1.1"
        assert b"X-Key: k" in head
        assert b"Content-Type: application/json" in head
        assert [body for _, body in server.requests] == [b"0", b"1", b"2", b"3", b"4"]


async def test_many_at_once() -> None:
    async with Written(answering).listening() as server, channel() as client:
        arrived = await asyncio.gather(*(client.post(server.root, "/", b"%d" % number) for number in range(300)))
        assert {one.body for one in arrived} == {b"ok"}
        assert {body for _, body in server.requests} == {b"%d" % number for number in range(300)}


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_request_is_never_sent_twice_by_itself(size: int) -> None:
    """libcurl would, once a connection that it has used before breaks; but the endpoint may have done the work."""

    async def once_then_hangs_up(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)
        if connection.number == 1:
            await connection.request()
            return
        await answering(connection)

    async with Written(once_then_hangs_up).listening() as server, channel() as client:
        await client.post(server.root, "/", b"first")
        failed = await failure(client.post(server.root, "/", b"x" * size))
        assert failed.kind is FailureKind.TRANSIENT
        assert failed.maybe_billed
        await asyncio.sleep(0.2)
        assert len(server.requests) == 2
        assert (await client.post(server.root, "/", b"third")).body == b"ok"
        assert [len(body) for _, body in server.requests] == [5, size, 5]


async def test_a_connection_that_the_server_has_closed_meanwhile_costs_no_request() -> None:
    async def one_each(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)

    async with Written(one_each).listening() as server, channel() as client:
        for number in range(1, 4):
            assert (await client.post(server.root, "/", b"x")).body == b"ok"
            await until(lambda number=number: server.gone == number)  # type: ignore[misc]
            await asyncio.sleep(0.02)
        assert (server.connections, len(server.requests)) == (3, 3)


def named(head: list[bytes]) -> bytes:
    """The id that a request was sent with."""
    return next(line for line in head if line.startswith(b"X-Request-Id: "))[14:]


async def test_an_answer_with_the_id_of_another_request_is_none() -> None:
    """A second copy that comes while the next request is under way can't be seen beforehand."""

    async def says_it_again_later(connection: Connection) -> None:
        last = b""
        while True:
            head, _ = await connection.request()
            answer = b'{"id":"cmpl-%s"}' % named(head)
            for body in (last, answer):
                if body:
                    await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            last = answer

    async with Written(says_it_again_later).listening() as server, channel(tagged=True) as client:
        assert b"-1" in (await client.post(server.root, "/", b"first")).body
        failed = await failure(client.post(server.root, "/", b"second"))
        assert failed.kind is FailureKind.MALFORMED
        assert failed.maybe_billed
        assert "another request" in str(failed)
        assert b'-3"' in (await client.post(server.root, "/", b"third")).body
        assert server.connections == 2


@pytest.mark.parametrize("wrong", [b"%s0", b"1%s", b"%s1"])
async def test_ids_are_told_apart_to_the_last_digit(wrong: bytes) -> None:
    async def renaming(connection: Connection) -> None:
        while True:
            head, _ = await connection.request()
            mark, number = named(head).rsplit(b"-", 1)
            body = b'{"text":"toxic","id":"chatcmpl-%s-%s"}' % (mark, wrong % number)
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    async with Written(renaming).listening() as server, channel(tagged=True) as client:
        for _ in range(3):
            assert (await failure(client.post(server.root, "/", b"x"))).kind is FailureKind.MALFORMED


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_what_a_server_says_unasked_is_no_answer_to_the_next_request(size: int) -> None:
    async def says_everything_twice(connection: Connection) -> None:
        while True:
            _, body = await connection.request()
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            await connection.say(answer)
            await asyncio.sleep(0.01)
            await connection.say(answer)

    async with Written(says_everything_twice).listening() as server, channel() as client:
        for number in range(8):
            body = b"%d" % number * size
            assert (await client.post(server.root, "/", body)).body == body
            await asyncio.sleep(0.05)
        assert (server.connections, len(server.requests)) == (8, 8)


async def test_many_connections_that_died_together_cost_nothing() -> None:
    async def one_each(connection: Connection) -> None:
        await connection.request()
        await asyncio.sleep(0.05)
        await connection.say(OK)

    async with Written(one_each).listening() as server, channel() as client:
        for turn in (1, 2):
            await asyncio.gather(*(client.post(server.root, "/", b"%d" % number) for number in range(50)))
            await until(lambda turn=turn: server.gone == 50 * turn)  # type: ignore[misc]
            await asyncio.sleep(0.02)
        assert (server.connections, len(server.requests)) == (100, 100)


async def test_a_success_without_end_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hatevolution.adapters.models.channel._MOST_BYTES", 1 << 20)

    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await connection.say(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")

    async with Written(endless).listening() as server, channel() as client:
        failed = await failure(client.post(server.root, "/", b"x"))
        await until(lambda: server.gone == 1)
    assert failed.kind is FailureKind.MALFORMED
    assert failed.maybe_billed
    assert "longer than 1 MiB" in str(failed)
    assert failed.body is not None
    assert len(failed.body) <= BODY_BYTES


@pytest.mark.parametrize(
    ("head", "words"), [(b"Content-Encoding: gzip\r\n", "unpacked"), (b"X: " + b"x" * 9_000_000 + b"\r\n", "too large")]
)
async def test_what_can_not_be_taken_is_said_in_words(head: bytes, words: str) -> None:
    async def odd(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 2\r\n\r\nok")

    async with Written(odd).listening() as server, channel() as client:
        failed = await failure(client.post(server.root, "/", b"x"))
    assert failed.kind is FailureKind.TRANSIENT
    assert failed.maybe_billed
    assert words in str(failed)


async def test_what_comes_before_the_response_is_not_the_response() -> None:
    async def hints(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 103 Early Hints\r\nX-Request-Id: no\r\nLink: </x>\r\n\r\n")
        await connection.say(b"HTTP/1.1 200 OK\r\nx-REQUEST-id:  yes \r\nContent-Length: 2\r\n\r\nok")

    async with Written(hints).listening() as server, channel() as client:
        arrived = await client.post(server.root, "/", b"x")
    assert arrived.headers.get("X-Request-ID") == "yes"
    assert "link" not in arrived.headers


async def test_compressed_and_chunked_bodies() -> None:
    packed = gzip.compress(b"an answer " * 100)

    async def compressed(connection: Connection) -> None:
        await connection.request()
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        await connection.say(head)
        for start in range(0, len(packed), 7):
            piece = packed[start : start + 7]
            await connection.say(b"%x\r\n%s\r\n" % (len(piece), piece))
        await connection.say(b"0\r\nX-Trailer: t\r\n\r\n")

    async with Written(compressed).listening() as server, channel() as client:
        assert (await client.post(server.root, "/", b"x")).body == b"an answer " * 100


async def test_of_an_endless_error_only_the_beginning_is_read() -> None:
    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await connection.say(b"400\r\n" + b"e" * 1024 + b"\r\n")

    async with Written(endless).listening() as server, channel() as client:
        arrived = await client.post(server.root, "/", b"x")
        assert (arrived.status, arrived.body) == (500, b"e" * 2 * BODY_BYTES)
        arrived = await client.get(server.root, "/")
        assert (arrived.status, arrived.body) == (500, b"e" * 16 * BODY_BYTES)
        await until(lambda: server.gone == 2)


@pytest.mark.parametrize("status", [b"200 OK", b"200"])  # no word behind the number is asked for
async def test_a_large_answer_is_read_whole(status: bytes) -> None:
    body = b"a" * 20 * BODY_BYTES

    async def large(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))

    async with Written(large).listening() as server, channel() as client:
        assert (await client.post(server.root, "/", b"x")).body == body


@pytest.mark.parametrize(
    "raw",
    [b"", b"toxic\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nContent-Le", b"\0" * 9],
)
async def test_what_is_no_whole_response_may_be_billed(raw: bytes) -> None:
    async def broken(connection: Connection) -> None:
        await connection.request()
        await connection.say(raw)

    async with Written(broken).listening() as server, channel() as client:
        failed = await failure(client.post(server.root, "/", b"x"))
    assert failed.kind is FailureKind.TRANSIENT
    assert failed.maybe_billed
    assert failed.http_status is None


async def test_who_is_cancelled_hangs_up() -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        if connection.number == 1:
            await connection.reader.read(1)  # until the client is gone
            return
        await connection.say(OK)

    async with Written(silent).listening() as server, channel() as client:
        asking = asyncio.ensure_future(client.post(server.root, "/", b"x"))
        await until(lambda: len(server.requests) == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: server.gone == 1)
        assert (await client.post(server.root, "/", b"x")).body == b"ok"


async def test_closing_ends_what_is_in_flight() -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.reader.read(1)

    async with Written(silent).listening() as server:
        async with channel() as client:
            asking = asyncio.ensure_future(client.post(server.root, "/", b"x"))
            await until(lambda: len(server.requests) == 1)
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: server.gone == 1)


async def test_a_probe_goes_over_a_connection_of_its_own() -> None:
    """A server that is on its way out takes no new connection, but may answer on those it has."""
    async with Written(answering).listening() as server, channel() as client:
        for number in range(1, 4):
            await client.post(server.root, "/", b"x")
            await client.get(server.root, "/health")
            await until(lambda number=number: server.gone == number)  # type: ignore[misc]
        assert server.connections == 1 + 3


async def test_no_more_files_may_be_opened() -> None:
    """The fault is here, and passes: the server is not suspected of anything."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Written(answering).listening() as server, channel() as client:
        await client.post(server.root, "/", b"x")
        used: list[io.FileIO] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    used.append(io.FileIO("/dev/null"))
            asking = [asyncio.ensure_future(client.post(server.root, "/", b"x")) for _ in range(3)]
            failures = await asyncio.gather(*asking, return_exceptions=True)
        finally:
            for file in used:
                file.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        failed = [one for one in failures if isinstance(one, RequestFailure)]
        assert failed
        assert {one.kind for one in failed} == {FailureKind.TRANSIENT}
        assert not any(one.maybe_billed for one in failed)
        assert (await client.post(server.root, "/", b"x")).body == b"ok"


# -- certificates, proxies -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def encrypted(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


async def test_who_is_trusted_by_python_is_trusted(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with Written(answering).listening(encrypted(authority, "127.0.0.1")) as server, channel() as client:
        assert (await client.post(server.root, "/", b"x")).body == b"ok"
        assert b"x" in server.requests[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "elsewhere.example"])
async def test_who_is_not_trusted_gets_nothing(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name != "127.0.0.1":  # known, but somebody else
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with Written(answering).listening(encrypted(authority, name)) as server, channel() as client:
        failed = await failure(client.post(server.root, "/", b"x"))
        assert failed.kind is FailureKind.UNREACHABLE
        assert not failed.maybe_billed
        assert "certificate" in str(failed)
        assert not server.requests


async def test_a_proxy_is_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Written(answering).listening() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root)
        monkeypatch.delenv("no_proxy", raising=False)
        async with channel(through_proxy=True) as client:
            assert (await client.post("http://somewhere.example", "/v1", b"x")).body == b"ok"
        assert proxy.requests[0][0][0] == b"POST http://somewhere.example/v1 HTTP/1.1"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for through in (True, False):
            if not through:
                monkeypatch.delenv("no_proxy")
            async with Written(answering).listening() as server, channel(through_proxy=through) as client:
                await client.post(server.root, "/v1", b"x")
                assert server.requests[0][0][0] == b"POST /v1 HTTP/1.1"
        assert len(proxy.requests) == 1


async def test_a_proxy_that_makes_no_way_has_passed_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refusing(connection: Connection) -> None:
        head, _ = await connection.request()
        assert head[0] == b"CONNECT somewhere.example:443 HTTP/1.1"
        await connection.say(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")

    async with Written(refusing).listening() as proxy:
        monkeypatch.setenv("https_proxy", proxy.root)
        monkeypatch.delenv("no_proxy", raising=False)
        async with channel(through_proxy=True) as client:
            failed = await failure(client.post("https://somewhere.example", "/v1", b"x"))
    assert failed.kind is FailureKind.UNREACHABLE
    assert not failed.maybe_billed
    assert "407" in str(failed)


# -- headers -------------------------------------------------------------------------------------------------------

NAMES = st.text("abcXYZ-09", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(str.strip)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), NAMES)
def test_headers_are_those_of_the_standard_library(pairs: list[tuple[str, str]], other: str) -> None:
    lines = [f"{name}: {value}\r\n".encode() for name, value in pairs]
    headers = ResponseHeaders([b"HTTP/1.1 200 OK\r\n", *lines, b"\r\n"])
    known = http.client.parse_headers(io.BytesIO(b"".join(lines) + b"\r\n"))
    for name in [*(name for name, _ in pairs), other]:
        assert headers.get(name.upper()) == known.get(name)
    assert set(headers) == {name.lower() for name, _ in pairs}
    assert len(headers) == len(set(headers))


def test_headers_that_are_no_text() -> None:
    headers = ResponseHeaders([b"HTTP/1.1 200 OK\r\n", b"x-a: \xff\xfe\r\n", b"nonsense\r\n"])
    assert headers["X-A"] == "\udcff\udcfe"
    assert list(headers) == ["x-a"]


@pytest.mark.parametrize("key", ["abcdef\nX-Other: b", "abcdef\r\nb", "abcdef\0b", "abcdef\udcff\udcfe12"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    secrets, config = Secrets({"TEST_KEY": key}), model("vllm-completions", api_key_env="TEST_KEY")
    with pytest.raises(ConfigError, match="TEST_KEY") as caught:
        secrets.api_key(config)
    assert "abcdef" not in str(caught.value)
    assert "abcdef" not in secrets.redactor(config).text(f"it says {key}")
