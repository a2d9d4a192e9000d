"""One writer per store: an advisory lock that the operating system lets go of when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from hatevolution.errors import StoreError
from hatevolution.store.files import LOCK, beside

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WriterLock", "holder"]


_TRIES, _PAUSE_S = 20, 0.01


def _lock_path(store: Path) -> Path:
    return beside(store.resolve(), LOCK)


class WriterLock:
    """The right to write to one store, held until :meth:`release` or the end of the process."""

    def __init__(self, store: Path) -> None:
        self._path = _lock_path(store)
        self._store = store
        self._descriptor: int | None = None

    def acquire(self, run: str) -> None:
        """Take the lock.

        Raises:
            StoreError: Another process holds it (the text names its pid), or the folder can't be written to.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"The store {self._store} can't be written to: {error.strerror} ({self._path}).") from None
        if not _locked(descriptor):
            os.close(descriptor)
            who = _read(self._path)
            raise StoreError(
                f"The store {self._store} is being written to by another run "
                f"(process {who.get('pid', 'unknown')} on {who.get('host', 'this machine')}); "
                f"wait for it, stop it, or use another --store."
            ) from None
        self._descriptor = descriptor
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "run": run})
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        except OSError as error:
            self.release()
            raise StoreError(f"The store {self._store} can't be written to: {error.strerror} ({self._path}).") from None

    def release(self) -> None:
        """Let go. The file stays: removing it could take it from under a process that is just locking it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _locked(descriptor: int) -> bool:
    """Take the lock, if no other process has it but for a moment: :func:`holder` takes it to see whether it is free."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def holder(store: Path) -> dict[str, Any] | None:
    """Return pid, host and run of the process that writes to a store now; None where nobody does."""
    path = _lock_path(store)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(path)
    finally:
        os.close(descriptor)
    return None
