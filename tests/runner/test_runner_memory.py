"""Memory does not grow with the number of sentences."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from run_files import Project

if TYPE_CHECKING:
    from pathlib import Path


def peak_mb(folder: Path, count: int) -> float:
    """Run the real command about so many sentences and return its peak memory."""
    folder.mkdir()
    project = Project(folder)
    project.dataset(count=count, text=lambda n: f"sentence number {n}. {'word ' * 20}")
    project.model("m", adapter="scripted", endpoint={"max_concurrency": 64, "batch_size": 32})
    process = project.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert project.count("predictions") == count
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * unit / 1e6


@pytest.mark.slow
def test_a_hundred_times_the_sentences_take_no_more_than_50_mb_more(tmp_path: Path) -> None:
    few, many = peak_mb(tmp_path / "few", 2_000), peak_mb(tmp_path / "many", 200_000)
    print(f"{few:.0f} MB for 2,000 sentences, {many:.0f} MB for 200,000")
    assert many - few <= 50
