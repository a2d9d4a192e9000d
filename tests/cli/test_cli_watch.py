"""``hatevolution status --watch`` and what a run says at its end."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_maker import spoken_store
from store_maker import RUN, MadeSentence

from hatevolution.cli import main
from hatevolution.cli._audit_options import selection_of
from hatevolution.cli.run import _next_steps
from hatevolution.store.lock import WriterLock
from hatevolution.store.verdicts import LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence


def store_with(tmp_path: Path, said: Sequence[str | None]) -> Path:
    sentences = [MadeSentence(id=str(number)) for number in range(len(said))]
    return spoken_store(tmp_path / "s.db", {"m": said}, sentences=sentences).path


def fill(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(
            "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
            "SELECT 'm', dataset, sentence, 'answered', 'toxic', 1, ? FROM sentences "
            "WHERE sentence NOT IN (SELECT sentence FROM predictions)",
            [RUN],
        )
    connection.close()


def watch(store: Path, *more: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "hatevolution", "status", "--store", str(store), "--watch", "0.2", *more]
    return subprocess.Popen(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def test_what_is_done_ends_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_with(tmp_path, ["toxic", "toxic"])
    with pytest.raises(SystemExit) as leave:
        main(["status", "--store", str(store), "--watch"])
    out = capsys.readouterr().out
    assert not leave.value.code
    assert re.fullmatch(r"\d\d:\d\d:\d\d  2 of 2 sentences recorded, 0 pending; nobody is writing\n", out)


def test_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    store = store_with(tmp_path, ["toxic", None, None])
    lock = WriterLock(store)
    lock.acquire(RUN)
    process = watch(store)
    assert process.stdout is not None
    assert f"1 of 3 sentences recorded, 2 pending; process {os.getpid()} is writing" in process.stdout.readline()
    fill(store)
    assert "3 of 3 sentences recorded, 0 pending; process" in process.stdout.readline()
    assert process.poll() is None  # the run may have more to do while it writes
    lock.release()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "nobody is writing" in out


def test_a_run_that_dies_ends_it_with_what_is_missing(tmp_path: Path) -> None:
    store = store_with(tmp_path, ["toxic", None])
    lock = WriterLock(store)
    lock.acquire(RUN)
    process = watch(store)
    assert process.stdout is not None
    process.stdout.readline()
    lock.release()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.endswith("The run has ended with 1 sentences pending; start it again to ask for them.\n")


def test_it_ends_when_nobody_reads_it(tmp_path: Path) -> None:
    store = store_with(tmp_path, ["toxic", None])
    process = watch(store)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 1  # something is pending
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""


def test_it_waits_for_a_run_to_begin_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    store = store_with(tmp_path, ["toxic", None])
    lock = WriterLock(store)
    lock.acquire(LOCK_NAME)  # a person's judgement being stored is no run
    process = watch(store)
    assert process.stdout is not None
    assert process.stdout.readline().endswith("1 pending; nobody is writing\n")
    lock.release()
    time.sleep(0.6)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "hatevolution: interrupted\n")


def test_on_a_terminal_the_table_is_drawn_anew(tmp_path: Path) -> None:
    store = store_with(tmp_path, ["toxic", None])
    lock = WriterLock(store)
    lock.acquire(RUN)
    control, terminal = pty.openpty()
    process = watch(store, stdin=terminal, stdout=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"})
    os.close(terminal)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(control, 4096):
                seen.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while b"1 of 2 sentences" not in b"".join(seen) and time.monotonic() < deadline:
        time.sleep(0.05)
    fill(store)
    lock.release()
    assert process.wait(60) == 0
    reader.join(10)
    os.close(control)
    screen = b"".join(seen).decode()
    assert "2 of 2 sentences recorded, 0 pending; nobody is writing" in screen
    assert "Answered" in screen
    assert "\x1b[1A" in screen  # it moves up to draw over what stands
    assert process.stderr is not None
    process.stderr.close()


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_with(tmp_path, ["toxic"])
    for arguments, message in (
        (["--watch", "--json"], "--watch and --json don't go together"),
        (["--watch", "0"], "0.0 is not in the range"),
    ):
        with pytest.raises(SystemExit) as leave:
            main(["status", "--store", str(store), *arguments])
        assert leave.value.code == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["status", "--store", str(tmp_path / "none.db"), "--watch"])
    assert "There is no store" in capsys.readouterr().err


def test_the_next_steps_of_a_run_are_commands_that_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_with(tmp_path, ["toxic", "hm"])
    odd = store.rename(tmp_path / "my store's.db")
    steps = _next_steps(odd)
    assert [step.partition(":")[0] for step in steps][:2] == ["Tables", "Answers that broke the instruction"]
    for step in steps[:2]:
        program, *arguments = shlex.split(step.partition(": ")[2])
        assert program == "hatevolution"
        with pytest.raises(SystemExit) as leave:
            main([*arguments, "--json"])
        assert not leave.value.code
        json.loads(capsys.readouterr().out)


def test_the_options_and_the_selection_name_the_same_things() -> None:
    from hatevolution.analysis.audit.pairs import CHANGES
    from hatevolution.analysis.audit.selection import PARSED
    from hatevolution.cli import _audit_options, audit

    assert _audit_options._PARSED == PARSED
    assert audit._CHANGES == CHANGES
    nothing = dict.fromkeys(
        ("model", "dataset", "status", "kind", "year", "role", "label", "parsed", "search", "parser"), None
    )
    assert selection_of(nothing).parsed == "broken"
    assert selection_of({**nothing, "status": ["refused"]}).parsed == "any"
    assert selection_of({**nothing, "status": ["answered"]}).parsed == "broken"
    assert selection_of({**nothing, "status": ["refused"], "parsed": "toxic"}).parsed == "toxic"
