"""How the Makefile makes .venv: which Python, uv or pip, and what an interruption leaves.

The tools are stand-ins that note how they were called; `.ci/run` makes a real environment with the real ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# A Python of some version: tells whether it is new enough, makes environments that hold itself, and plays pip.
PYTHON = """#!/bin/sh
echo "$NAME $*" >>"$LOG"
case "$*" in
    --version) echo "Python $VERSION" ;;
    *version_info*) [ $NEW = yes ] ;;
    *"import ensurepip, venv"*) [ $VENV = yes ] ;;
    "-m venv .venv") mkdir -p .venv/bin && touch .venv/pyvenv.cfg && cp "$0" .venv/bin/python ;;
    *"pip install"*) [ -z "${BREAK_INSTALL-}" ] ;;
esac
"""

UV = """#!/bin/sh
echo "uv $*" >>"$LOG"
case "$*" in
    venv*) mkdir -p .venv/bin && touch .venv/pyvenv.cfg && cp "$FAKE_PYTHON" .venv/bin/python ;;
    "pip install"*) [ -z "${BREAK_INSTALL-}" ] ;;
    "python find"*) [ -n "${UV_PYTHON-}" ] && echo "$UV_PYTHON" ;;
esac
"""


class Machine:
    """A project in a folder with blanks, and a PATH that holds only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "my projects" / "hate volution"
        self.tools = folder / "bin"
        self.log = folder / "log"
        (self.project / "tools").mkdir(parents=True)
        self.tools.mkdir()
        for name in ("Makefile", "pyproject.toml", "tools/environment.sh"):
            shutil.copy(ROOT / name, self.project / name)
        for name in ("sh", "make", "cat", "rm", "rmdir", "mkdir", "touch", "cp", "dirname", "sed", "awk"):
            (self.tools / name).symlink_to(shutil.which(name) or pytest.skip(f"{name} is not installed"))
        self.environment = {"PATH": str(self.tools), "LOG": str(self.log)}

    def add(self, name: str, text: str) -> Path:
        path = self.tools / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def add_python(self, name: str, version: str, *, new: bool = True, venv: bool = True) -> Path:
        text = PYTHON.replace("$NAME", name).replace("$VERSION", version)
        return self.add(name, text.replace("$NEW", "yes" if new else "no").replace("$VENV", "yes" if venv else "no"))

    def make(self, *targets: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.tools / "make"), *targets],
            cwd=self.project,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        """What the tools were asked to do since the last look, the questions left out."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in lines if " -c " not in line and "--version" not in line and "find" not in line]

    def ready(self) -> set[str]:
        return {path.name for path in (self.project / ".venv").glob(".ready-*")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


PIP_RUN = "-m pip install --quiet --editable .[embedded]"
PIP_DEV = "-m pip install --quiet --editable .[dev]"


def test_pip_where_there_is_no_uv_and_the_first_python_that_is_one(machine: Machine) -> None:
    machine.add("python3.13", "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2; exit 127\n")
    machine.add_python("python3.12", "3.12.1", venv=False)
    machine.add_python("python3.11", "3.11.7")
    machine.add_python("python3", "3.9.18", new=False)
    done = machine.make(".venv/.ready-run")
    assert done.returncode == 0, done.stderr
    assert "Making .venv with Python 3.11.7" in done.stdout
    assert machine.calls() == ["python3.11 -m venv .venv", f"python3.11 {PIP_RUN}"]
    assert machine.ready() == {".ready-run"}


def test_uv_where_it_is_there(machine: Machine) -> None:
    python = machine.add_python("python3.12", "3.12.1", venv=False)
    machine.add("uv", UV)
    done = machine.make("setup", FAKE_PYTHON=str(python))
    assert done.returncode == 0, done.stderr
    assert machine.calls() == [
        f"uv venv --quiet --no-project --python {python} .venv",
        "uv pip install --quiet --python .venv/bin/python --editable .[dev]",
    ]
    assert machine.ready() == {".ready-dev", ".ready-run"}


def test_a_python_that_only_uv_knows(machine: Machine) -> None:
    python = machine.add_python("hidden", "3.12.1")
    machine.add("uv", UV)
    done = machine.make("setup", FAKE_PYTHON=str(python), UV_PYTHON=str(python))
    assert done.returncode == 0, done.stderr
    assert machine.calls()[0] == f"uv venv --quiet --no-project --python {python} .venv"


@pytest.mark.parametrize("with_old", [True, False])
def test_no_python_is_one_sentence(machine: Machine, with_old: bool) -> None:
    if with_old:
        machine.add_python("python3", "3.9.18", new=False)
    done = machine.make("setup")
    assert done.returncode != 0
    (sentence,) = (line for line in done.stderr.splitlines() if not line.startswith("make"))
    assert sentence.startswith("hatevolution: no Python 3.11 or newer")
    assert not (machine.project / ".venv").exists()


def test_again_is_quick_and_a_changed_project_file_installs_again(machine: Machine) -> None:
    machine.add_python("python3.11", "3.11.7")
    assert machine.make("setup").returncode == 0
    assert machine.calls() == ["python3.11 -m venv .venv", f"python3.11 {PIP_DEV}"]
    assert machine.make("setup", ".venv/.ready-run").returncode == 0
    assert machine.calls() == []
    now = (machine.project / ".venv" / ".ready-dev").stat().st_mtime
    os.utime(machine.project / "pyproject.toml", (now + 1, now + 1))
    assert machine.make(".venv/.ready-run").returncode == 0
    assert machine.calls() == [f"python3.11 {PIP_RUN}"]
    assert machine.ready() == {".ready-run"}, "what was added for development may be outdated now"


def test_an_installation_that_breaks_off_leaves_no_stamp_and_starts_again(machine: Machine) -> None:
    machine.add_python("python3.11", "3.11.7")
    done = machine.make("setup", BREAK_INSTALL="yes")
    assert done.returncode != 0
    assert "the installation into .venv failed" in done.stderr
    assert machine.ready() == set()
    machine.calls()
    assert machine.make("setup").returncode == 0
    assert machine.calls() == [f"python3.11 {PIP_DEV}"]
    assert machine.ready() == {".ready-dev", ".ready-run"}


def test_a_moved_project_gets_a_new_environment(machine: Machine) -> None:
    machine.add_python("python3.11", "3.11.7")
    assert machine.make("setup").returncode == 0
    machine.calls()
    machine.project = machine.project.rename(machine.project.with_name("else where"))
    assert machine.make("setup").returncode == 0
    assert machine.calls() == ["python3.11 -m venv .venv", f"python3.11 {PIP_DEV}"]


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    machine.add_python("python3.11", "3.11.7")
    assert machine.make("setup").returncode == 0
    machine.calls()
    (machine.project / ".venv" / "bin" / "python").unlink()
    assert machine.make("setup").returncode == 0
    assert machine.calls() == ["python3.11 -m venv .venv", f"python3.11 {PIP_DEV}"]


def test_a_folder_that_is_no_environment_is_not_deleted(machine: Machine) -> None:
    machine.add_python("python3.11", "3.11.7")
    (machine.project / ".venv").mkdir()
    (machine.project / ".venv" / "notes.txt").write_text("mine", encoding="utf-8")
    done = machine.make("setup")
    assert done.returncode != 0
    assert "is in the way and is not a Python environment" in done.stderr
    assert (machine.project / ".venv" / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_make_alone_lists_the_targets_and_makes_nothing(machine: Machine) -> None:
    done = machine.make()
    assert done.returncode == 0, done.stderr
    for target in ("run", "test", "test-slow", "check", "benchmarks", "clean"):
        assert f"make {target} " in done.stdout
    assert not (machine.project / ".venv").exists()


COMMAND = """#!/bin/sh
[ "$1" = run ] && echo "run in $PWD" >>"$LOG"
for argument in "$@"; do echo "[$argument]" >>"$LOG"; done
if [ "$1" = run ]; then touch "$4"; exit ${RUN_CODE-0}; fi
"""


def command_calls(machine: Machine, *arguments: str, **environment: str) -> tuple[int, list[str], str]:
    machine.add_python("python3.11", "3.11.7")
    (machine.tools / "realpath").symlink_to(shutil.which("realpath") or pytest.skip("realpath is not installed"))
    assert machine.make(".venv/.ready-run").returncode == 0
    command = machine.project / ".venv" / "bin" / "hatevolution"
    command.write_text(COMMAND, encoding="utf-8")
    command.chmod(0o755)
    machine.calls()
    done = machine.make("run", *arguments, **environment)
    return done.returncode, machine.calls()[1:], done.stdout


def test_the_main_job_runs_then_scores_and_names_the_store(machine: Machine) -> None:
    code, calls, out = command_calls(machine)
    assert code == 0
    experiment = "[configs/experiments/quickstart.toml]"
    assert calls == ["[run]", experiment, "[--store]", "[quickstart.db]", "[score]", "[--store]", "[quickstart.db]"]
    assert out.rstrip().endswith(f"The store: {machine.project}/quickstart.db")


def test_the_main_job_on_real_data_passes_on_what_it_is_given(machine: Machine) -> None:
    code, calls, _ = command_calls(machine, "DATA=../my data's", "DATASETS=hatecheck,neobench")
    assert code == 0
    assert calls == [
        *("[run]", "[configs/experiments/embedded.toml]", "[--store]", "[embedded.db]"),
        *("[--data]", "[../my data's]", "[--datasets]", "[hatecheck,neobench]"),
        *("[score]", "[--store]", "[embedded.db]"),
    ]


@pytest.mark.parametrize(("run_code", "scored"), [("1", True), ("2", False), ("130", False)])
def test_a_main_job_that_is_not_complete_does_not_end_well(machine: Machine, run_code: str, scored: bool) -> None:
    code, calls, _ = command_calls(machine, RUN_CODE=run_code)
    assert code != 0
    assert ("[score]" in calls) is scored
