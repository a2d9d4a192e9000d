"""A real HTTP server on this machine that serves files, and misbehaves as it is told."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Behaviour:
    """What happens to one request; by default it is answered as it should be."""

    status: int | None = None
    """Answer with this status and no file."""
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    body: bytes | None = None
    """Send these bytes instead of the file."""


@dataclass
class FileServer:
    """Files by name, and how the next requests are treated."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    script: list[Behaviour] = field(default_factory=list)
    """Behaviour of the next requests, first one first; then all is as it should be."""
    ranges: bool = True
    """Whether the server understands Range."""
    validators: str = "strong"
    """`strong` or `weak` entity tags, `date` for Last-Modified, or `none`."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range of each request."""

    def sent(self) -> list[str | None]:
        """The Range header of each request."""
        return [requested for _, requested in self.requests]

    def validator(self, body: bytes) -> dict[str, str]:
        """The header that names this version of a file."""
        digest = hashlib.sha256(body).hexdigest()[:16]
        known = {
            "strong": {"ETag": f'"{digest}"'},
            "weak": {"ETag": f'W/"{digest}"'},
            "date": {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"},
        }
        return known.get(self.validators, {})


@contextmanager
def serving() -> Iterator[FileServer]:
    """Run a file server on a free port."""
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self.close_connection = True
            answer(state, self)

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that go away in the middle are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # joined below, so that no socket outlives the test
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(state: FileServer, handler: BaseHTTPRequestHandler) -> None:
    name = unquote(urlsplit(handler.path).path).rsplit("/", 1)[-1]
    state.requests.append((handler.path, handler.headers.get("Range")))
    behaviour = state.script.pop(0) if state.script else Behaviour()
    status, headers, body = respond(
        state, behaviour, name, handler.headers.get("Range"), handler.headers.get("If-Range")
    )
    handler.send_response(status)
    for key, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
        handler.send_header(key, value)
    handler.end_headers()
    handler.wfile.write(body if behaviour.cut_after is None else body[: behaviour.cut_after])


def respond(
    state: FileServer, behaviour: Behaviour, name: str, ranged: str | None, if_range: str | None
) -> tuple[int, dict[str, str], bytes]:
    if behaviour.status is not None:
        return behaviour.status, behaviour.headers, b"<html>an error page</html>"
    if name not in state.files:
        return 404, {}, b"<html>not found</html>"
    body = state.files[name] if behaviour.body is None else behaviour.body
    headers = {**state.validator(body), **behaviour.headers}
    unchanged = if_range is None or if_range in headers.values()
    if not (state.ranges and ranged and unchanged):
        return 200, headers, body
    start = int(ranged.removeprefix("bytes=").removesuffix("-"))
    if start >= len(body):
        return 416, {**headers, "Content-Range": f"bytes */{len(body)}"}, b""
    return 206, {**headers, "Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}, body[start:]
