"""Into a Ray cluster and out again, without a word of Ray's on the terminal and without leaving anything behind."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatevolution.errors import ConfigError
from hatevolution.inert import one_line
from hatevolution.runner.ray_cluster.options import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatevolution.runner.ray_cluster.options import RayOptions

__all__ = ["connected", "nodes"]

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Else each start prints a warning about a change to come in how Ray hides GPUs; this is the way to come.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_STORE_BYTES = 96 * 1024 * 1024
"""Ray's object store of a cluster of our own: only batches of a few hundred answers pass through it."""

_KNOCK_S = 10.0
_PREFIX = "hate-ray-"
_ROOT_MOST = 16
"""A longer path of the temporary folder leaves too little for the names of Ray's sockets, which may have 103 bytes."""


@contextmanager
def connected(options: RayOptions) -> Iterator[None]:
    """Be a driver of the cluster while inside.

    Raises:
        ConfigError: There is no such cluster, or this machine is not one of it.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    _hush()
    with contextlib.ExitStack() as stack:
        more: dict[str, Any] = {"address": options.address}
        if options.address == LOCAL:
            cpus = os.cpu_count() or 1
            more |= {
                "include_dashboard": False,
                "object_store_memory": _STORE_BYTES,
                # Workers mostly wait for answers: as many as were asked for fit, whatever the machine has.
                "num_cpus": max(cpus, (options.workers or 1) + cpus),
                "_temp_dir": str(stack.enter_context(_folder())),
            }
        elif options.address != "auto":
            _knock(options)
        stack.callback(ray.shutdown)
        with _terminal_kept():
            try:
                ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **more)
            except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise ConfigError(f"{_where(options)}: {one_line(str(error), 300)}") from None
        yield


def _knock(options: RayOptions) -> None:
    """See whether anybody listens there; Ray itself would try for minutes."""
    host, _, port = options.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{_where(options)}: {error}") from None


def _where(options: RayOptions) -> str:
    if options.address == LOCAL:
        return "Ray can't be started on this machine"
    return (
        f"There is no Ray cluster to join at {options.address} (this machine has to be a node of it: ray start "
        f"--address=HOST:6379)"
    )


def nodes() -> list[dict[str, float]]:
    """Return the resources of each node of the cluster that is alive."""
    import ray

    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [dict(node["Resources"]) for node in known if node["Alive"]]


def _hush() -> None:
    """Keep Ray's own words off the terminal.

    There is no setting for one of them: a thread of the driver prints what the cluster says about dead workers to
    standard output, where ``--json`` has its document. What matters of it is told by the run itself.
    """
    from ray._private import worker

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_arguments, **_options: None


@contextmanager
def _terminal_kept() -> Iterator[None]:
    """Let no closing terminal (SIGHUP) end the processes that Ray starts: the run drains before it ends them.

    Children inherit the mask; Ray itself does so with SIGINT. SIGTERM, which Ray takes for itself, is given back.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread: then Ray took nothing
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _folder() -> Iterator[Path]:
    """Give Ray's session a folder, removed afterwards.

    Folders of runs that were killed are removed by the next one: a lock, which the kernel lets go of with its holder,
    says which those are.
    """
    root, mine = Path(tempfile.gettempdir()), f"{_PREFIX}{os.getuid()}-"
    if len(os.fsencode(root)) > _ROOT_MOST:
        root = Path("/tmp")  # noqa: S108 - short, and what is made in it is for this user alone
    for left in root.glob(f"{mine}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    folder = Path(tempfile.mkdtemp(prefix=mine, dir=root))
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
