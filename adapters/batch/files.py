"""Input files of batches: one request a line, as many lines as a provider takes."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = ["OPENAI_LIMITS", "InputFile", "Limits", "custom_id", "new_name", "read_custom_id", "split"]

T = TypeVar("T")

_CUSTOM_ID: Final = re.compile(r"(hb[0-9a-f]{12})-(0|[1-9][0-9]{0,8})")


class Limits(NamedTuple):
    """The most that one input file may hold."""

    requests: int
    bytes: int


OPENAI_LIMITS: Final = Limits(50_000, 200_000_000)
"""Source: OpenAI's API reference, "Create batch" ("up to 50,000 requests, and can be up to 200 MB in size")."""


def new_name() -> str:
    """Return a name for a batch that no other one has: ``hb`` and twelve hexadecimal digits."""
    return f"hb{secrets.token_hex(6)}"


def custom_id(name: str, line: int) -> str:
    """Return what a request is called in its file: nothing of the sentence, found again through the store."""
    return f"{name}-{line}"


def read_custom_id(text: str) -> tuple[str, int] | None:
    """Return the batch's name and the line that a custom id stands for; None where it is none of ours."""
    found = _CUSTOM_ID.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


class InputFile:
    """An input file that is being written. Use as a context manager.

    Args:
        path: Where it is written.
        name: The batch's name.
        url: The route of its requests.
        limits: The most that it may hold.
    """

    def __init__(self, path: Path, name: str, url: str, limits: Limits) -> None:
        self.path = path
        self.name = name
        self.requests = 0
        self.bytes = 0
        self._limits = limits
        self._middle = f'","method":"POST","url":{json.dumps(url)},"body":'
        self._digest = hashlib.sha256()
        self._file = path.open("wb")

    @property
    def sha256(self) -> str:
        """Hex digest of what is written so far."""
        return self._digest.hexdigest()

    def add(self, body: str) -> bool:
        """Write a request; False where the file has no room for it.

        Args:
            body: The request's body, JSON in ASCII.
        """
        line = f'{{"custom_id":"{custom_id(self.name, self.requests)}{self._middle}{body}}}\n'.encode("ascii")
        if self.requests >= self._limits.requests or self.bytes + len(line) > self._limits.bytes:
            return False
        self._file.write(line)
        self._digest.update(line)
        self.requests += 1
        self.bytes += len(line)
        return True

    def close(self) -> None:
        """Finish it; safe to call twice."""
        self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def split(
    requests: Iterable[tuple[T, str]], begin: Callable[[], InputFile], too_large: Callable[[T], None]
) -> Iterator[tuple[InputFile, list[T]]]:
    """Fill one file after the other, and yield each when it is full (the last one when there is nothing more).

    Args:
        requests: What each request is about, and its body. Read only as far as the file that is yielded needs.
        begin: Makes the next file.
        too_large: Takes what does not even fit into a file of its own.
    """
    file, keys = None, list[T]()
    try:
        for key, body in requests:
            if file is None:
                file = begin()
            fits = file.add(body)
            if not fits and keys:
                file.close()
                yield file, keys
                file, keys = begin(), []
                fits = file.add(body)
            if fits:
                keys.append(key)
            else:
                too_large(key)
    finally:
        if file is not None:
            file.close()
    if file is not None and keys:
        yield file, keys
