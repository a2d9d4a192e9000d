"""`vllm run-batch`, the real one, on the CPU: it takes the files that are written, and its output is read."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from batch_desk import Desk
from run_files import hatevolution

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.serving, pytest.mark.timeout(600)]


def test_vllm_answers_a_batch_file(serving_python: str, smollm: Path, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.dataset(count=6, text=lambda n: "word " * 3000 if n == 4 else f"sentence number {n}, \u00e9 \U0001f600")
    desk.model(
        "smol",
        adapter="vllm-chat",
        model="smol",
        prompt="paper-chat",
        decoding={"max_tokens": 5, "temperature": 0.0},
        endpoint={"base_urls": ["http://127.0.0.1:9/v1"]},
        server={
            "weights": str(smollm),
            "max_model_len": 1024,
            "extra_args": ["--enforce-eager", "--max-num-seqs", "8"],
        },
    )
    out = tmp_path / "out"
    environ = {"HATEVOLUTION_VLLM_PYTHON": serving_python, "VLLM_CPU_KVCACHE_SPACE": "1"}
    arguments = ("--store", str(desk.store), "--offline", "--out", str(out))
    done = hatevolution("batch", "submit", str(desk.experiment), *arguments, environ=environ)
    run, collect = (line for line in done.stderr.splitlines() if line.startswith(("env ", "hatevolution")))
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "HF_"))}
    ran = subprocess.run(["sh", "-c", run], env=bare, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert hatevolution(*shlex.split(collect)[1:]).returncode == 0
    assert desk.statuses() == {"answered": 5, "rejected": 1}
    assert desk.rows("SELECT sentence, kind FROM failures") == [("s4", "too_long")]
    ((served, fewest),) = desk.rows("SELECT served_model, min(prompt_tokens) FROM answers WHERE status = 'answered'")
    assert served == "smol"
    assert fewest > 30
