"""A structured log: one JSON object a line, for machines and for the morning after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hatevolution.errors import ConfigError
from hatevolution.runner.provenance import utc_now

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["JsonLog"]


class JsonLog:
    """Listener that appends every event to a file.

    Args:
        path: The file; it is made if it is not there, and added to if it is.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("a", encoding="ascii")
        except OSError as error:
            raise ConfigError(f"The log {path} can't be written to: {error.strerror}.") from None
        self._broken = False

    def __call__(self, event: str, **fields: Any) -> None:
        """Write an event. A log that can't be written (disk full) is given up: the run matters more."""
        if self._broken:
            return
        try:
            self._file.write(json.dumps({"at": utc_now(), "event": event, **fields}) + "\n")
            self._file.flush()
        except OSError:
            self._broken = True

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError:
            self._broken = True
