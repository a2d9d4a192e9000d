"""Stands in for the Python of an environment with vLLM: takes the same command lines and serves :class:`FakeVllm`.

``fake_python(folder)`` writes an executable that a model's ``server.python`` can name. What the fake does instead of
serving well is said by the environment variable FAKE_SERVING, words with blanks between:

``die``       end at once with an error in the log; ``die=N``: only the first N starts
``gated``     end as vLLM does where the weights are gated
``slow=S``    answer after S seconds
``latency=S`` each answer takes S seconds
``stray``     leave the process group with a child, as badly behaved workers do
``deaf``      on SIGTERM close the port and stay, with every connection open and silent, as vLLM does
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STARTS = "FAKE_SERVING_STARTS"
"""Names a file that gets one line per start: when, process id, arguments (JSON)."""


def fake_python(folder: Path, *, without: str = "") -> Path:
    """Write the executable and return its path.

    Args:
        folder: Where.
        without: A package that it has not got: ``vllm`` or ``seq2seq``.
    """
    path = folder / f"python-with-fakes{'-without-' + without if without else ''}"
    has = {"vllm": without != "vllm", "cli": True, "seq2seq": without != "seq2seq"}
    path.write_text(
        "#!/bin/sh\n"
        f"[ \"$2\" != -c ] || {{ echo '{json.dumps(has)}'; exit 0; }}\n"
        f'exec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def starts(file: Path) -> list[list[str]]:
    """Return the arguments of each start."""
    if not file.exists():
        return []
    return [json.loads(line)["arguments"] for line in file.read_text(encoding="utf-8").splitlines()]


def value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


class Behaviour:
    def __init__(self, words: str) -> None:
        pairs = [word.partition("=") for word in words.split()]
        self._words = {name: text for name, _, text in pairs}

    def __contains__(self, name: str) -> bool:
        return name in self._words

    def number(self, name: str) -> float:
        return float(self._words.get(name) or 0)


def note_start(arguments: list[str]) -> int:
    """Write the start down and return which one it is, from 1."""
    file = os.environ.get(STARTS)
    if not file:
        return 1
    with Path(file).open("a", encoding="utf-8") as out:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        out.write(json.dumps({"at": time.time(), "pid": os.getpid(), "arguments": arguments, "gpus": gpus}) + "\n")
    return len(starts(Path(file)))


async def serve(arguments: list[str], behaviour: Behaviour) -> None:
    from fake_vllm import FakeVllm

    runner = value(arguments, "--runner") if "--runner" in arguments else "generate"
    server = FakeVllm(
        model=value(arguments, "--served-model-name"), runner=runner, latency_s=behaviour.number("latency")
    )
    await asyncio.sleep(behaviour.number("slow"))
    await server.start(int(value(arguments, "--port")))
    print("Application startup complete.", flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []

    def deaf() -> None:
        server.latency_s = 3600.0
        assert server._runner is not None
        closing.extend(loop.create_task(site.stop()) for site in list(server._runner.sites))
        for connection in list(getattr(server._runner.server, "connections", [])):
            connection.transport.pause_reading()

    def lose_engine() -> None:
        """As vLLM does when its engine process dies: 500 to everybody, unhealthy, and soon gone."""
        from fake_base import Fault

        error = {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}
        server.fail_when(lambda _texts: True, Fault(status=500, body={"error": error}))
        server.healthy = False
        loop.call_later(0.7, ended.set)

    loop.add_signal_handler(signal.SIGUSR1, lose_engine)
    loop.add_signal_handler(signal.SIGTERM, deaf if "deaf" in behaviour else ended.set)
    await ended.wait()
    with contextlib.suppress(Exception):
        await server.stop()


def main(arguments: list[str]) -> int:
    behaviour = Behaviour(os.environ.get("FAKE_SERVING", ""))
    number = note_start(arguments)
    print(f"INFO starting: {' '.join(arguments)}", flush=True)
    if "gated" in behaviour:
        print("OSError: You are trying to access a gated repo.", file=sys.stderr)
        return 1
    if "die" in behaviour and (not behaviour.number("die") or number <= behaviour.number("die")):
        print(
            "Traceback (most recent call last):\nValueError: these weights are \x1b[31mnonsense\x1b[0m", file=sys.stderr
        )
        return 3
    if "stray" in behaviour:
        stray: Any = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        Path(os.environ["FAKE_SERVING_STRAY"]).write_text(str(stray.pid), encoding="utf-8")
    asyncio.run(serve(arguments, behaviour))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
