"""One server process and its guard: nothing of it is left, whatever ends first."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from hatevolution.adapters.serving.process import Command, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, stray.pid, flush=True)
time.sleep(600)
"""


def process(code: str, tmp_path: Path, grace_s: float = 5.0) -> ServerProcess:
    command = Command((sys.executable, "-c", code), dict(os.environ))
    return ServerProcess(command, tmp_path / "server.log", stop_timeout_s=grace_s)


async def said(server: ServerProcess) -> str:
    for _ in range(400):
        if server.log.exists() and (text := server.log.read_text(encoding="utf-8")).endswith("\n"):
            return text
        await asyncio.sleep(0.025)
    raise AssertionError("the command said nothing")


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


async def test_it_ends_by_itself(tmp_path: Path) -> None:
    server = process("print('hello'); raise SystemExit(7)", tmp_path)
    await server.start()
    await server.ended()
    assert (server.alive, server.exit_code, server.log.read_text(encoding="utf-8")) == (False, 7, "hello\n")


async def test_a_second_start_adds_to_the_log(tmp_path: Path) -> None:
    server = process("print('hello')", tmp_path)
    for _ in range(2):
        await server.start()
        await server.ended()
    assert server.log.read_text(encoding="utf-8") == "hello\nhello\n"


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    server = ServerProcess(Command(("/no/such/python",), {}), tmp_path / "server.log", stop_timeout_s=1)
    await server.start()
    await server.ended()
    assert server.problem == "/no/such/python: No such file or directory"
    assert not server.alive


async def test_stop_asks_first(tmp_path: Path) -> None:
    server = process(SLEEPER, tmp_path)
    await server.start()
    await said(server)
    await server.stop()
    assert server.exit_code == -signal.SIGTERM


async def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    server = process(STUBBORN, tmp_path, grace_s=0.5)
    await server.start()
    await said(server)
    began = time.monotonic()
    await server.stop()
    assert server.exit_code == -signal.SIGKILL
    assert 0.4 < time.monotonic() - began < 5


async def test_kill_does_not_ask(tmp_path: Path) -> None:
    server = process(STUBBORN, tmp_path, grace_s=60)
    await server.start()
    await said(server)
    began = time.monotonic()
    await server.kill()
    assert server.exit_code == -signal.SIGKILL
    assert time.monotonic() - began < 5


async def test_stopping_twice_and_before_the_start_does_no_harm(tmp_path: Path) -> None:
    server = process(SLEEPER, tmp_path)
    await server.stop()
    await server.kill()
    await server.start()
    await server.stop()
    await server.stop()
    await server.kill()
    assert not server.alive


@pytest.mark.parametrize("how", ["stop", "kill", "leader", "guard"])
async def test_the_whole_family_goes(tmp_path: Path, how: str) -> None:
    server = process(FAMILY, tmp_path)
    await server.start()
    child, stray = map(int, (await said(server)).split())
    leader = server.pid
    assert leader is not None
    assert server._guard is not None
    if how == "leader":
        os.kill(leader, signal.SIGKILL)
        await server.ended()
    elif how == "guard":
        os.kill(server._guard.pid, signal.SIGKILL)
        await server.ended()
    else:
        await getattr(server, how)()
    assert gone(leader)
    assert gone(child)
    if how == "guard":
        os.kill(stray, signal.SIGKILL)  # it left the group, and the guard that would have found it was shot
    elif sys.platform == "linux":
        assert gone(stray)


OWNER = """
import asyncio, os, sys
from pathlib import Path
from hatevolution.adapters.serving.process import Command, ServerProcess

async def main():
    command = Command((sys.executable, "-c", sys.argv[1]), dict(os.environ))
    server = ServerProcess(command, Path(sys.argv[2]), stop_timeout_s=1)
    await server.start()
    while server.pid is None:
        await asyncio.sleep(0.02)
    print(server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("code", [FAMILY, STUBBORN])
def test_nothing_is_left_of_it_when_its_owner_is_killed(tmp_path: Path, code: str) -> None:
    log = tmp_path / "server.log"
    owner = subprocess.Popen([sys.executable, "-P", "-c", OWNER, code, str(log)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner, owner.stdout:
        leader = int(owner.stdout.readline())
        deadline = time.monotonic() + 10
        while not log.read_text(encoding="utf-8") and time.monotonic() < deadline:
            time.sleep(0.02)
        guard = psutil.Process(leader).parent()
        assert guard is not None
        family = [leader, guard.pid, *(child.pid for child in psutil.Process(leader).children(recursive=True))]
        assert len(family) == (4 if code is FAMILY else 2)
        owner.kill()
    for pid in family:
        assert gone(pid, 10), pid
