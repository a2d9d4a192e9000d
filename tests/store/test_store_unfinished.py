"""What backup, export and import make beside their final place, and what a killed one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hatevolution.store.exchange import unfinished
from hatevolution.store.exchange.unfinished import unfinished_file, unfinished_folder

HOLD = """
import pathlib, sys
from hatevolution.store.exchange import unfinished
with getattr(unfinished, sys.argv[1])(pathlib.Path(sys.argv[2]), ".x.", ".partial") as path:
    print(path.name, flush=True)
    sys.stdin.read()
"""
MAKERS = {"unfinished_file": unfinished_file, "unfinished_folder": unfinished_folder}


def holder(kind: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, kind, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("kind", MAKERS)
def test_what_a_killed_process_left_goes_and_what_a_living_one_makes_stays(tmp_path: Path, kind: str) -> None:
    killed, left = holder(kind, tmp_path)
    living, kept = holder(kind, tmp_path)
    assert names(tmp_path) == {left, kept}
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    if kind == "unfinished_file":
        (tmp_path / f"{left}-journal").touch()
    with MAKERS[kind](tmp_path, ".x.", ".partial") as path:
        assert names(tmp_path) == {kept, path.name}
    assert names(tmp_path) == {kept}
    living.communicate(timeout=30)
    assert names(tmp_path) == set()


def test_nothing_else_goes(tmp_path: Path) -> None:
    """Other targets, other kinds, links, and names of people."""
    others = {
        ".xy.abcdefgh.partial",
        ".x.y.abcdefgh.partial",
        ".x.mine.partial",
        ".x.abcdefgh",
        "x",
        ".x.ABCDEFGH.partial",
    }
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".x.folder00.partial").mkdir()
    (tmp_path / ".x.link0000.partial").symlink_to("x")
    os.mkfifo(tmp_path / ".x.pipe0000.partial")
    before = names(tmp_path)
    with unfinished_file(tmp_path, ".x.", ".partial"):
        pass
    assert names(tmp_path) == before
    with unfinished_folder(tmp_path, ".x.", ".partial"):
        pass
    assert names(tmp_path) == before - {".x.folder00.partial"}


def test_one_that_is_taken_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    usual = unfinished._made_file

    def taken_once(*where: object) -> Path:
        made.append(usual(*where))  # type: ignore[arg-type]
        if len(made) == 1:
            made[0].unlink()
        return made[-1]

    monkeypatch.setattr(unfinished, "_made_file", taken_once)
    with unfinished_file(tmp_path, ".x.", ".partial") as path:
        assert path == made[1]
        assert path.exists()


def test_a_finished_one_keeps_its_new_name(tmp_path: Path) -> None:
    with unfinished_folder(tmp_path, ".x.", ".partial") as path:
        (path / "a").touch()
        path.rename(tmp_path / "x")
    assert names(tmp_path / "x") == {"a"}
    with unfinished_file(tmp_path, ".y.", ".partial") as path:
        os.link(path, tmp_path / "y")
    assert names(tmp_path) == {"x", "y"}
