"""Imports point one way, and the package loads only what it needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("adapters", "analysis", "configs", "runner", "store", "src")

HEAVY = ("aiohttp", "googleapiclient", "numpy", "openai", "polars", "pycurl", "rich", "scipy", "sqlite_utils")
NETWORK = ("aiohttp", "googleapiclient", "httplib2", "httpx", "openai", "pycurl", "ray", "requests", "vllm")


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{n.partition('.')[0] for n in sys.modules}})))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def loaded_with_submodules(packages: tuple[str, ...]) -> set[str]:
    """What importing every module of some packages loads."""
    return loaded_after(
        "import importlib, pkgutil\n"
        f"for name in {packages!r}:\n"
        "    package = importlib.import_module(name)\n"
        "    for found in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        importlib.import_module(found.name)\n"
    )


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy of the project."""
    script = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-P", "-c", script, "--config", "pyproject.toml", "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("package", ["hatevolution", "hatevolution.cli", "hatevolution.errors", "hatevolution.domain"])
def test_importing_the_package_loads_nothing_heavy(package: str) -> None:
    loaded = loaded_after(f"import {package}")
    assert "hatevolution" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["no-such-command"]])
def test_the_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = loaded_after(
        "from hatevolution.cli import main\n"
        "import contextlib\n"
        f"with contextlib.suppress(SystemExit): main({arguments!r})\n"
        "import sys\n"
        "commands = [name for name in sys.modules if name.startswith('hatevolution.cli.') and '._' not in name]\n"
        "assert not commands, commands"
    )
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_store_and_the_analysis_load_no_network_library() -> None:
    loaded = loaded_with_submodules(("hatevolution.store", "hatevolution.analysis"))
    assert "hatevolution" in loaded
    assert loaded.isdisjoint(NETWORK)


def test_the_imports_of_the_project_keep_the_layers() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


VIOLATIONS = {
    "a layer above": ({"store/planted.py": "from hatevolution import runner\n"}, "Imports point one way"),
    "a sibling": ({"analysis/planted.py": "import hatevolution.runner\n"}, "Imports point one way"),
    "a library, by way of another module": (
        {
            "configs/planted.py": "import aiohttp\n",
            "analysis/planted.py": "def later() -> None:\n    import hatevolution.configs.planted\n",
        },
        "The analysis and the store never touch the network",
    ),
}


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_a_planted_violation_is_found(kind: str, tmp_path: Path) -> None:
    files, contract = VIOLATIONS[kind]
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.db*")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout
    assert ".planted" in done.stdout
