"""The sockets behind libcurl's connections: whether one still stands, asked just before it is used again.

libcurl looks for itself only once a connection was idle for a second. But a server may close one within it, and then
a request would be lost that the server has never seen; or it may say more than it was asked, and then what it said
would pass for the answer to the next request.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Ends", "Sockets"]


class Ends(NamedTuple):
    """Both ends of a connection, which tell it from all others that stand."""

    peer: str
    own: str
    peer_port: int
    own_port: int


class Sockets:
    """What connections are made of, by their ends."""

    def __init__(self) -> None:
        self._known: dict[Ends, int] = {}
        self._distrusted: set[Ends] = set()

    def add(self, ends: Ends, opened: Iterable[int]) -> None:
        """Take note of a new connection.

        Args:
            ends: Its ends.
            opened: File descriptors that were opened on the way to it; the one with these ends is its.
        """
        self._distrusted.discard(ends)
        for descriptor in opened:
            with suppress(OSError):  # closed again: another address was quicker
                if _own_port(descriptor) == ends.own_port:
                    self._known[ends] = descriptor

    def stands(self, ends: Ends) -> bool:
        """Whether a connection that was used before is open, has nothing to say unasked, and is trusted."""
        if ends in self._distrusted:
            self.forget(ends)
            return False
        descriptor = self._known.get(ends)
        if descriptor is None:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(0):
            return True
        self.forget(ends)
        return False

    def forget(self, ends: Ends) -> None:
        """This connection is closed."""
        self._known.pop(ends, None)
        self._distrusted.discard(ends)

    def distrust(self, ends: Ends) -> None:
        """Let this connection not be used again."""
        self._distrusted.add(ends)


def _own_port(descriptor: int) -> int:
    borrowed = socket.socket(fileno=descriptor)
    try:
        return int(borrowed.getsockname()[1])
    finally:
        borrowed.detach()  # it is libcurl's to close
