"""What this project adds to Datasette: cells that hide nothing, and nothing but reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from datasette import hookimpl
from datasette.database import Database
from datasette.utils.sqlite import sqlite3

from hatevolution.store.reader import BUSY_S, uri

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

__all__ = ["Guard", "Plugin", "ReadOnlyDatabase", "visible"]

_CUT: Final = 20_000
_KEPT: Final = "\n\t"


def visible(text: str) -> str:
    """Return a text in which everything unprintable but line ends and tabs is an escape; cut where it is huge."""
    shown = "".join(
        char if char.isprintable() or char in _KEPT else char.encode("unicode_escape").decode() for char in text[:_CUT]
    )
    left = len(text) - _CUT
    return f"{shown} ... ({left} more characters; the row as .json has all)" if left > 0 else shown


class ReadOnlyDatabase(Database):  # type: ignore[misc]
    """A file that is opened for reading alone, whatever characters its path has."""

    def __init__(self, datasette: Any, path: Path) -> None:
        super().__init__(datasette, path=str(path), is_mutable=True)
        self._file = path

    def connect(self, write: bool = False) -> Any:
        """Return a connection; Datasette's own one puts the path into a URI as it is."""
        if write:
            raise PermissionError("this server only reads")
        connection = sqlite3.connect(uri(self._file, "ro"), uri=True, timeout=BUSY_S, check_same_thread=False)
        connection.execute("PRAGMA query_only = 1")
        self._all_file_connections.append(connection)
        return connection


class Plugin:
    """Registered with Datasette under this name."""

    __name__ = "hatevolution"

    @hookimpl  # type: ignore[untyped-decorator]
    def render_cell(self, value: object) -> str | None:
        """Show what is unprintable, unpaired surrogates too, as escapes; Datasette escapes HTML itself."""
        if isinstance(value, bytes):
            try:
                text = value.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                return None  # a body that is no text: Datasette offers it as a file
            return visible(text)
        if isinstance(value, str) and not value.isprintable():
            return visible(value)
        return None


Scope = dict[str, Any]


class Guard:
    """Lets through what reads, for those who asked this server by its own name.

    A page on the web that resolves its own name to 127.0.0.1 (DNS rebinding) could otherwise read the store through a
    person's browser.

    Args:
        app: The application behind.
        hosts: Values of the header Host that are this server's own; None lets every one in.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").rpartition(":")
        name = host[0] if host[1] and not host[2].endswith("]") else host[2]
        if self._hosts is not None and name not in self._hosts:
            await _refuse(send, 421, "This server answers to its own address alone.")
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "This server only reads.")
        elif scope["path"].endswith(".csv") or b"_format=csv" in scope.get("query_string", b""):
            # Datasette's CSV is not neutralised against formulas.
            await _refuse(
                send, 403, "For CSV that no spreadsheet runs as a formula: hatevolution audit --export FILE.csv"
            )
        else:
            await self._app(scope, receive, _with_headers(send))


_HEADERS: Final = [
    # Datasette's pages have scripts and styles of their own in them; nothing may come from, or go, elsewhere.
    (
        b"content-security-policy",
        b"default-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; "
        b"base-uri 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def _with_headers(send: Any) -> Any:
    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return sending


async def _refuse(send: Any, status: int, reason: str) -> None:
    body = json.dumps({"ok": False, "error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
