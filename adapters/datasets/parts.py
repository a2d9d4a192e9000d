"""What has arrived of a download: ``NAME.part``, and in ``NAME.part.json`` which version of the file it is part of."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from hatevolution.adapters.datasets.finding import LocatedFile, describe
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["Part", "open_part"]


class Part:
    """The bytes of a file that are there, its beginning first.

    Args:
        stream: Of the part, open for appending.
        target: Where the whole file will stand.
        address: Where it comes from; only its digest is written down, since it may hold a password.
    """

    def __init__(self, stream: BinaryIO, target: Path, address: str) -> None:
        self._stream, self._target = stream, target
        self._path, self._sidecar = _names(target)
        self._origin = hashlib.sha256(address.encode()).hexdigest()
        self.validator: str | None = self._remembered()
        """What the server calls the version that the bytes are of (ETag or Last-Modified); None: not known."""

    def size(self) -> int:
        """Return how many bytes are there."""
        self._stream.flush()
        return os.fstat(self._stream.fileno()).st_size

    def append(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        self._stream.write(chunk)

    def clear(self) -> None:
        """Throw away what is there."""
        self._stream.flush()
        self._stream.truncate(0)
        self.validator = None

    def remember(self, validator: str | None) -> None:
        """Write down which version the bytes are of."""
        self.validator = validator
        self._sidecar.write_text(json.dumps({"url_sha256": self._origin, "validator": validator}))

    def describe(self) -> LocatedFile:
        """Return checksum and size of what is there, under the whole file's name."""
        self._stream.flush()
        return describe(self._path, self._target.name)

    def finish(self) -> None:
        """Give the part its final name, in one step, once its bytes are safely on the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._path.replace(self._target)
        self._sidecar.unlink(missing_ok=True)

    def _remembered(self) -> str | None:
        try:
            known: Any = json.loads(self._sidecar.read_text())
        except (OSError, ValueError):
            return None
        same = isinstance(known, dict) and known.get("url_sha256") == self._origin
        validator = known.get("validator") if same else None
        return validator if isinstance(validator, str) else None


@contextlib.contextmanager
def open_part(target: Path, address: str) -> Iterator[Part]:
    """Open a part for writing, alone; what has arrived stays for the next time, an empty one does not.

    Raises:
        DataError: Somebody else is writing to it.
    """
    path, sidecar = _names(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{path} is being downloaded by another process; wait for it, or stop it.") from None
        part = Part(stream, target, address)
        try:
            yield part
        finally:
            if part.size() == 0 and path.exists():
                path.unlink()
                sidecar.unlink(missing_ok=True)


def _names(target: Path) -> tuple[Path, Path]:
    return target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")
