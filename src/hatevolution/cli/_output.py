"""Standard output and standard error, whoever reads them or does not.

**A reader that goes away changes no result.** ``status | head -1`` has what it wanted, and whether all was written by
then is a matter of microseconds: an exit code that told of it would be 0 one time and something else the next. It would
also hide what the code is for (nothing is missing, the store is well). So what nobody reads goes nowhere, the work is
done to its end, and the exit code is that of the work.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any

__all__ = ["discard", "nobody_reads", "prepare_outputs"]


def prepare_outputs() -> None:
    """Make standard output and standard error take any text, and lose it silently once nobody reads them."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            stream = _opened_into_nothing(number)
            setattr(sys, name, stream)
        elif stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            stream.flush()
            stream = _patient(number, stream)
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            # Answers may hold unpaired surrogates, terminals may lack characters: show an escape, never crash.
            stream.reconfigure(errors="backslashreplace")


def nobody_reads() -> bool:
    """Return whether the reader of standard output has gone away."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Patient) and raw.unread:
        return True
    output = select.poll()
    output.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in output.poll(0))


def discard(number: int) -> None:
    """Let whatever is still written to a file descriptor succeed, into nothing."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)


class _Patient(io.FileIO):
    """An output that goes on into nothing when its reader goes away."""

    unread = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self.unread = True
            discard(self.fileno())
            return super().write(data)


def _patient(number: int, stream: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = _Patient(number, "wb", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _opened_into_nothing(number: int) -> io.TextIOWrapper:
    """Return an output for a process that was started with it closed; else a store might get its number."""
    discard(number)
    return os.fdopen(number, "w", encoding="utf-8", closefd=False)
