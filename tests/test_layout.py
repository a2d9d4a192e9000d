"""The tree is the architecture: what lies where, and what each package says it holds."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import hatevolution

ROOT = Path(__file__).resolve().parent.parent
IMPORT_ROOT = ROOT / "src" / "hatevolution"
LINKED = ("adapters", "analysis", "configs", "runner", "store")


def package_files() -> list[Path]:
    """Every Python file of the package, by its place on disk."""
    folders = [ROOT / name for name in LINKED] + [IMPORT_ROOT]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def module_name(path: Path) -> str:
    """The name under which a file of the package is imported."""
    inside = path.relative_to(IMPORT_ROOT if path.is_relative_to(IMPORT_ROOT) else ROOT).with_suffix("")
    parts = [part for part in inside.parts if part != "__init__"]
    return ".".join(["hatevolution", *parts])


INITS = {module_name(path): path for path in package_files() if path.name == "__init__.py"}


@pytest.mark.parametrize("name", LINKED)
def test_each_package_is_a_relative_link_to_its_top_level_folder(name: str) -> None:
    link = IMPORT_ROOT / name
    assert link.is_symlink(), f"{link} is no link: was the clone made without symbolic links (core.symlinks=false)?"
    assert link.readlink() == Path("../..") / name
    assert link.resolve() == ROOT / name
    assert (link / "__init__.py").is_file()


def test_the_import_root_holds_the_links_and_the_command_line_and_no_other_folder() -> None:
    folders = {path.name for path in IMPORT_ROOT.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == {*LINKED, "cli"}


def test_every_folder_with_code_is_a_package() -> None:
    # setuptools leaves a folder without __init__.py out of the wheel, silently.
    folders = {path.parent for path in package_files()}
    for folder in folders:
        assert (folder / "__init__.py").is_file(), f"{folder.relative_to(ROOT)} has no __init__.py"


def test_tests_are_no_packages_and_their_names_differ() -> None:
    # With --import-mode=importlib a second test_writer.py would hide behind the first one's module name for mypy.
    names = [path.name for path in (ROOT / "tests").rglob("*.py")]
    assert "__init__.py" not in names
    twice = {name for name in names if names.count(name) > 1 and name != "conftest.py"}
    assert not twice


def isort_style(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """The order that ruff's RUF022 keeps: CONSTANTS, Classes, the rest; digits by value within each."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return group, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


@pytest.mark.parametrize("package", sorted(INITS))
def test_a_package_that_offers_names_lists_them_sorted(package: str) -> None:
    tree = ast.parse(INITS[package].read_text(encoding="utf-8"))
    offered = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith(package + "."))
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", None)
    if listed is None:
        assert not offered, f"{package} takes up {sorted(offered)} and has no __all__"
        return
    # Whether the list is complete is ruff's F401: a name taken up, not used and not listed.
    assert list(listed) == sorted(set(listed), key=isort_style)
    assert all(hasattr(module, name) for name in listed)


def test_the_version_is_told_in_two_places_alike() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == hatevolution.__version__


def test_the_bare_names_of_all_packages_are_banned() -> None:
    # From the repository root `import store` works by accident and makes a second copy of each class.
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert set(ruff["flake8-tidy-imports"]["banned-api"]) == set(LINKED)
    assert "TID251" in ruff["select"]
