"""What the error tree says by itself."""

from __future__ import annotations

from pathlib import Path

from hatevolution.errors import not_installed, pip_install

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_not_installed_is_one_sentence_with_the_way_out() -> None:
    assert str(not_installed("--ray", "the package 'ray'", "ray")) == (
        "--ray needs the package 'ray', which is not installed; pip install 'hatevolution[ray]' brings it."
    )
    assert str(not_installed("It", "vLLM", "vllm", where="there is none of", more=", or another does")) == (
        "It needs vLLM, which there is none of; pip install 'hatevolution[vllm]' brings it, or another does."
    )
    assert pip_install("a", "--force-reinstall") == "pip install --force-reinstall 'hatevolution[a]'"


def test_the_command_that_installs_an_extra_is_spelled_in_one_place() -> None:
    folders = ("runner", "adapters", "store", "analysis", "configs", "src/hatevolution")
    files = sorted({path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")})
    assert [path.relative_to(ROOT).as_posix() for path in files if "'hatevolution[" in path.read_text()] == [
        "src/hatevolution/errors.py"
    ]
