"""How many files this process may open, and how many connections that leaves.

Where they run out not only requests fail: SQLite can't open what it needs, and answers that came have to wait.
"""

from __future__ import annotations

from typing import Final

__all__ = ["connections", "raise_limit"]

_WANTED: Final = 65_536
"""More than any run needs; some systems name no bound, and mean a smaller one."""
_KEPT: Final = 128
"""For the store, its readers, logs, servers, the event loop, probes."""
_UNKNOWN: Final = 1_000_000


def raise_limit() -> None:
    """Let this process, and those that it starts, open as many files as the system lets it."""
    try:
        import resource
    except ImportError:  # no such limit there
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # then it stays as it is, and fewer connections are made
            return


def connections(lanes: int) -> int:
    """Return how many connections each of so many lanes may have at once, at least one."""
    try:
        import resource
    except ImportError:
        return _UNKNOWN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _UNKNOWN
    return max(1, (soft - _KEPT) // max(1, lanes))
