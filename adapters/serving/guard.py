"""Runs one command and sees to it that nothing of it is left, however this program ends. Standard library only.

    python guard.py LOG MODE GRACE_S COMMAND [ARGUMENT ...]

The guard leads a session of its own and has a pipe as its standard input. While the other end of the pipe is open, the
command lives; when it closes (the runner closed it, crashed, or was killed with SIGKILL), the command gets SIGTERM, and
its whole process group SIGKILL after the grace, or as soon as its leader is gone. SIGTERM to the guard means the same
as a closed pipe, SIGUSR1 means at once. On Linux, descendants that left the group are found as well: orphans come to
the guard, a "subreaper", and are killed; and if the guard itself is killed, so is the command (PR_SET_PDEATHSIG).

Says on standard output, one JSON object a line: ``{"pid": N}``, then ``{"exited": CODE}`` (negative: the signal), or
``{"failed": TEXT}`` where the command can't be started. The command's output goes to LOG, opened with MODE (ab or wb).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LEFT_S = 5.0
"""How long killed descendants may take to be gone; one that waits for a device can take a moment."""


def _prctl() -> Callable[[int, int], object] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda option, argument: libc.prctl(option, argument, 0, 0, 0)


def _say(**what: object) -> None:
    with contextlib.suppress(OSError):  # nobody may be listening any more
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def _leader_is_gone(pid: int) -> bool:
    """Return whether the command ended; it stays a zombie, so that its group's number is not given to another."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_all(child: subprocess.Popen[bytes]) -> int:
    """Kill what is left of the command, wait until it is gone, and return the command's exit code."""
    _kill_group(child.pid)
    deadline = time.monotonic() + _LEFT_S
    while not _leader_is_gone(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    _kill_group(child.pid)
    while time.monotonic() < deadline:
        strays = [pid for pid in _children() if pid != child.pid]
        if not strays:
            break
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    return child.wait()


def _guard(child: subprocess.Popen[bytes], wake: int, grace_s: float) -> int:
    """Wait for the command's end or for the order to end it; return its exit code."""
    ordered = False
    deadline = float("inf")
    while not _leader_is_gone(child.pid):
        left = min(1.0, max(0.0, deadline - time.monotonic()))
        ready, _, _ = select.select([wake] if ordered else [0, wake], [], [], left)
        signals = os.read(wake, 64) if wake in ready else b""
        if signal.SIGUSR1 in signals:
            break
        if not ordered and (0 in ready or any(number in signals for number in _SIGNALS)):
            ordered = True
            deadline = time.monotonic() + grace_s
            child.send_signal(signal.SIGTERM)
        if time.monotonic() >= deadline:
            break
    return _kill_all(child)


def main(arguments: list[str]) -> int:
    """Run the command line; see the module's text."""
    log, mode, grace_s, *command = arguments
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end)
    for number in (*_SIGNALS, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        with Path(log).open(mode) as output:
            child = subprocess.Popen(  # noqa: S603 - the command is the configuration's
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=None if prctl is None else lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
            )
    except OSError as error:
        _say(failed=f"{error.filename or command[0]}: {error.strerror}")
        return 1
    _say(pid=child.pid)
    _say(exited=_guard(child, wake, float(grace_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
