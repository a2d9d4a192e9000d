"""What leaves the project is whole: the wheel by way of the source distribution, as an index would get it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from wheel_contents import differences, tree_files

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("adapters", "analysis", "configs", "runner", "store", "src")
FILES = ("pyproject.toml", "LICENSE", "README.md")


def copy_project(target: Path) -> None:
    """Copy what a build needs; in the tree itself it would leave files, and pick up those of an earlier one."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.db*")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, target / folder, symlinks=True, ignore=ignored)
    for name in FILES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, target)


def build(root: Path) -> Path:
    """Build the source distribution and from it the wheel, with the setuptools that is installed."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(root / "dist"), str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    copy_project(root)
    return build(root)  # below root/dist


def test_the_wheel_holds_the_files_of_the_tree_and_no_others(wheel: Path) -> None:
    copied = wheel.parent.parent
    assert differences(copied, wheel) == []


def test_the_list_of_the_tree_knows_code_and_data_of_all_packages() -> None:
    # Guards the guard: an empty list would equal an empty wheel.
    files = tree_files(ROOT)
    for name in (
        "store/schema.py",
        "adapters/base.py",
        "configs/prompts/paper-open.toml",
        "py.typed",
        "cli/__init__.py",
    ):
        assert f"hatevolution/{name}" in files
    assert not any("__pycache__" in name for name in files)


def test_the_wheel_carries_licence_entry_point_and_no_bare_packages(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
        (top_level,) = (archive.read(name).decode() for name in names if name.endswith("top_level.txt"))
    assert "hatevolution = hatevolution.__main__:main" in entry_points
    assert top_level.split() == ["hatevolution"]
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_works_away_from_the_tree(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert str(tmp_path) in python(str(ROOT / "tests" / "support" / "import_all.py"))
    assert "Usage: hatevolution" in python("-m", "hatevolution", "--help")


def test_a_checkout_without_links_is_found_out(tmp_path: Path) -> None:
    # Git writes a link as a small file where the file system has none; the build then succeeds without the packages.
    copy_project(tmp_path)
    link = tmp_path / "src" / "hatevolution" / "store"
    target = link.readlink()
    link.unlink()
    link.write_text(str(target), encoding="utf-8")
    found = differences(ROOT, build(tmp_path))
    assert "missing from the wheel: hatevolution/store/schema.py" in found
