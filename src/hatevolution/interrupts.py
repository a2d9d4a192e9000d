"""Ctrl-C before, during and after the work of a command; nothing slow is imported here, since all of it is waited for.

Python raises KeyboardInterrupt wherever it happens to be. In the middle of the work that is right: files are taken away
and stores closed on its way out. While the program's own modules are imported nobody is there yet to catch it, after
the work nobody any more, and an import in the middle of the work can swallow it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the module signal imports enum: milliseconds
import _thread
import os
import sys
import time

TYPE_CHECKING = False  # the module typing takes longer than all of this
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["INTERRUPTED", "begin", "caused", "leave_at_once", "raise_interrupts"]

INTERRUPTED = 130
"""Exit code: 128 + SIGINT, as a shell reports it."""

_MOMENT_S = 0.01


def begin() -> None:
    """Take over what Ctrl-C does; only for a process that is this program, before anything else is imported.

    Where whoever started the process has it ignore the signal (nohup, a shell's background job), that stays.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _raise_again


def leave_at_once() -> None:
    """From now on Ctrl-C ends the process with one sentence; for the time when nothing is open."""
    if sys.unraisablehook is _raise_again:
        signal.signal(signal.SIGINT, _leave)


def raise_interrupts() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as it does in any Python program."""
    if sys.unraisablehook is _raise_again:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def caused(error: BaseException) -> bool:
    """Return whether an error is what somebody made of a KeyboardInterrupt."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _leave(_number: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"hatevolution: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _raise_again(what: sys.UnraisableHookArgs) -> None:
    """Raise a KeyboardInterrupt anew that Python could only print (in a callback of the import system, a finalizer)."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        # From another thread and a moment later: raised within this function it would be lost in the same way.
        _thread.start_new_thread(_signal_soon, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(what)


def _signal_soon(thread: int) -> None:
    time.sleep(_MOMENT_S)
    signal.pthread_kill(thread, signal.SIGINT)
