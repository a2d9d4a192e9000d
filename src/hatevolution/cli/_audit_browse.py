"""``hatevolution audit --serve``: Datasette over a store, for reading alone."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hatevolution.errors import ConfigError, not_installed

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["serve"]

_SETTINGS: Final = {
    "default_page_size": 50,
    "max_returned_rows": 2_000,
    # A store of some hundred thousand answers is counted and grouped within these, on a slow machine too.
    "sql_time_limit_ms": 15_000,
    "facet_time_limit_ms": 4_000,
    "suggest_facets": False,
    "allow_download": False,
    "allow_csv_stream": False,
    "default_cache_ttl": 0,  # the store may be growing
}
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def serve(store: Path, *, parser: str | None, host: str, port: int) -> None:
    """Serve a store until Ctrl-C.

    Args:
        store: Opened with mode=ro, so a run that writes to it goes on undisturbed and is seen.
        parser: Parse policy for the table of broken answers; None: each model's own.
        host: Address to listen on.
        port: 0 takes a free one, which is told.

    Raises:
        ConfigError: Datasette is not installed, the address can't be listened on, or there is no such policy.
        StoreError: The store can't be read.
    """
    if find_spec("datasette") is None:
        raise not_installed("The browser view", "Datasette", "browse")
    from hatevolution.analysis.audit.broken import write_broken
    from hatevolution.analysis.parsers import PAPER

    listener = _listen(host, port)
    try:
        with tempfile.TemporaryDirectory(prefix="hatevolution-browse-") as folder:
            signal.signal(signal.SIGTERM, _end)  # so that the folder is taken away then too
            broken = Path(folder) / "broken.db"
            count = write_broken(store, parser or PAPER, broken)
            click.echo(f"{count} broken answers by the policy {parser or PAPER}", err=True)
            _run(_application(store, broken, parser or PAPER, host), listener, host)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    finally:
        listener.close()


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"{host}, port {port}, can't be listened on: {error.strerror}; choose another --host or --port (0: any)."
        ) from None
    return listener


def _application(store: Path, broken: Path, parser: str, host: str) -> Any:
    from datasette.app import Datasette
    from datasette.plugins import DEFAULT_PLUGINS, pm

    from hatevolution.analysis.audit.browse import BROKEN_DATABASE, STORE_DATABASE, metadata
    from hatevolution.cli._audit_plugin import Guard, Plugin, ReadOnlyDatabase
    from hatevolution.inert import one_line
    from hatevolution.store.reader import connect

    # Whatever plugins are installed on this machine, they are not part of this view.
    for plugin in pm.get_plugins():
        if getattr(plugin, "__name__", "") not in DEFAULT_PLUGINS:
            pm.unregister(plugin)
    pm.register(Plugin(), Plugin.__name__)
    # Where rich is installed, a mistyped query would fill the terminal with every local variable. Not imported sooner:
    # before its package's plugins it would be registered empty.
    import_module("datasette.handle_exception").rich = None  # type: ignore[attr-defined]
    connection = connect(store)
    try:
        objects = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            if not name.startswith("sqlite_")
        }
    finally:
        connection.close()
    server = Datasette([], settings=_SETTINGS, metadata=metadata(f"Store {one_line(store.name, 100)}", parser, objects))
    for name, path in ((STORE_DATABASE, store), (BROKEN_DATABASE, broken)):
        server.add_database(ReadOnlyDatabase(server, path.resolve()), name=name)
    return Guard(server.app(), _own_names(host))


def _own_names(host: str) -> frozenset[str] | None:
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return _LOOPBACK_NAMES | {host, f"[{host}]"} if loopback else None


def _run(application: Any, listener: socket.socket, host: str) -> None:
    import uvicorn

    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Open http://{shown}:{port}/ in a browser; Ctrl-C ends it.", err=True)
    config = uvicorn.Config(application, log_level="warning", lifespan="on", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
