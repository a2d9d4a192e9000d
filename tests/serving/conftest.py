"""Real servers on the CPU, for the tests marked ``serving``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def serving_python() -> str:
    """Python of an environment with vLLM and the seq2seq server; without one, skips (or fails, as in CI)."""
    python = os.environ.get("HATEVOLUTION_VLLM_PYTHON") or str(ROOT / ".venv-vllm" / "bin" / "python")
    if not Path(python).exists():
        reason = f"no environment with vLLM ({python}); `make serving-env` makes one"
        if os.environ.get("HATEVOLUTION_REQUIRE_SERVING"):
            pytest.fail(reason)
        pytest.skip(reason)
    return python


@pytest.fixture(scope="session")
def smollm(serving_python: str) -> Path:
    """Folder of the weights of SmolLM2-135M-Instruct."""
    folder = Path(serving_python).parent.parent / "weights" / "smollm2-135m-instruct-q4_1"
    assert (folder / "config.json").is_file(), "`make serving-env` writes these weights"
    return folder


@pytest.fixture(scope="session")
def tiny(serving_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Kind of model -> folder with a small one of random weights, made on first use."""
    home = tmp_path_factory.mktemp("tiny")

    def made(kind: str) -> Path:
        folder = home / kind
        if not folder.exists():
            script = ROOT / "tests" / "support" / "tiny_models.py"
            command = [serving_python, "-P", str(script), kind, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return folder

    return made
