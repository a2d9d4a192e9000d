"""Seeded samples of answers that do not depend on the order in which the answers came."""

from __future__ import annotations

import hashlib
import heapq
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.store.verdicts import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Drawn", "draw"]


class Drawn(NamedTuple):
    """A sample."""

    keys: list[Key]
    """In random order."""
    of: int
    """Answers that it was drawn from."""


def draw(keys: Iterable[tuple[str, str, str]], size: int, seed: int) -> Drawn:
    """Draw a simple random sample without replacement.

    Every key gets a pseudo-random number from a hash of seed and key, and those with the smallest ones are taken
    (bottom-k sampling: E. Cohen and H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007). So a larger
    sample of the same seed begins with the smaller one, and memory is bounded by ``size``.

    >>> few = draw([("m", "d", str(n)) for n in range(100)], 3, seed=1)
    >>> many = draw([("m", "d", str(n)) for n in reversed(range(100))], 10, seed=1)
    >>> few.of, many.keys[:3] == few.keys
    (100, True)
    """
    count = 0

    def ranked() -> Iterable[tuple[bytes, tuple[str, str, str]]]:
        nonlocal count
        for key in keys:
            count += 1
            # NUL can't stand in a name, so different keys are different inputs.
            said = "\0".join((str(seed), *key)).encode("utf-8", "surrogatepass")
            yield hashlib.blake2b(said, digest_size=16).digest(), key

    chosen = heapq.nsmallest(size, ranked())
    return Drawn([Key(*key) for _, key in chosen], count)
