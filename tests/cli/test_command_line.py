"""What every command gets from the command line around it: errors, exit codes, output, help."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hatevolution
from hatevolution.cli import main
from hatevolution.cli._group import SHORT_HELP, commands
from hatevolution.inert import one_line

RUN_WITH_PLANTED = """
import sys
import hatevolution.cli
from hatevolution.cli._group import SHORT_HELP
hatevolution.cli.__path__.append(sys.argv.pop(1))
SHORT_HELP["planted"] = "The planted command."
hatevolution.cli.main()
"""

PLANTED = """
import errno, os, signal, sys, time
import click
from hatevolution.errors import ConfigError
print("imported", file=sys.stderr)

@click.command("planted")
@click.pass_context
def command(ctx):
    {body}
"""


class Planted:
    """A command of the test's making, run as `hatevolution planted` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, body: str, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
        (self.folder / "planted.py").write_text(PLANTED.format(body=body), encoding="utf-8")
        command = [sys.executable, "-P", "-c", RUN_WITH_PLANTED, str(self.folder), *(arguments or ("planted",))]
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, encoding="utf-8")

    def run(self, body: str, *arguments: str, stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
        process = self.start(body, *arguments, stdout=stdout)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err.removeprefix("imported\n")


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("pass", 0, ""),
        ("ctx.exit(1)", 1, ""),
        ("sys.exit(1)", 1, ""),
        ("return 7", 0, ""),
        ("raise ConfigError('a.toml: key x is unknown')", 2, "hatevolution: a.toml: key x is unknown\n"),
        (r"raise ConfigError('a\nb\x1b[2J\0\ud800é')", 2, "hatevolution: a\\nb\\x1b[2J\\x00\\ud800é\n"),
        ("raise click.FileError('a.toml', 'gone')", 2, "Error: Could not open file 'a.toml': gone\n"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", 130, "hatevolution: interrupted\n"),
        ("raise click.Abort", 130, "hatevolution: interrupted\n"),
        (
            "raise OSError(errno.ENOSPC, 'No space left on device', 's.db')",
            1,
            "hatevolution: can't write s.db: No space left on device\n",
        ),
    ],
)
def test_exit_codes_and_the_one_sentence(planted: Planted, body: str, code: int, message: str) -> None:
    assert planted.run(body) == (code, "", message)


@pytest.mark.parametrize(
    "error", ["RuntimeError('bug')", "EOFError('a cut file')", "BrokenPipeError(32, 'a lost server')"]
)
def test_a_bug_is_seen(planted: Planted, error: str) -> None:
    code, out, err = planted.run(f"raise {error}")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback")
    assert error.partition("(")[0] in err.splitlines()[-1]


@pytest.mark.parametrize(
    "body",
    [
        "sys.stdin.readline()\n    for _ in range(9999): print('x' * 999)",
        "sys.stdin.readline()\n    print('left in the buffer')",
    ],
)
def test_a_reader_that_goes_away_is_no_noise(planted: Planted, body: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED.format(body=body), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", RUN_WITH_PLANTED, str(tmp_path), "planted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate("go\n", timeout=60)
    assert process.returncode == 0  # that of the work, however much of it was read
    assert err == "imported\n"


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize(("end", "code"), [("return", 0), ("ctx.exit(1)", 1), ("raise ConfigError('no')", 2)])
def test_the_exit_code_is_that_of_the_work_whoever_reads(planted: Planted, lost: int, end: str, code: int) -> None:
    lines = ["for _ in range(2000): click.echo('x' * 99); click.echo('y' * 99, err=True)"]
    lines += ["print('z', flush=True)", "import rich; rich.print('w')", end]
    (planted.folder / "planted.py").write_text(PLANTED.format(body="\n    ".join(lines)), encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN_WITH_PLANTED, str(planted.folder), "planted"],
        check=False,
        text=True,
        stdout=writing if lost == 1 else subprocess.PIPE,
        stderr=writing if lost == 2 else subprocess.PIPE,
    )
    os.close(writing)
    assert done.returncode == code
    whole = done.stdout if lost == 2 else done.stderr
    assert whole.count("\n") >= 2000
    assert "Traceback" not in whole


@pytest.mark.parametrize("arguments", [["--help"], ["data", "list"], ["paper"], ["status", "--help"]])
def test_commands_whose_reader_has_gone_end_as_ever(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-P", "-m", "hatevolution", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


AT_AN_IMPORT = """
import builtins, os, signal, sys
usual, wanted = builtins.__import__, sys.argv.pop(1)
def interrupted(name, *more, **named):
    if name == wanted and sys._getframe(1).f_globals["__name__"].startswith("hatevolution"):
        builtins.__import__ = usual
        os.kill(os.getpid(), signal.SIGINT)
    return usual(name, *more, **named)
builtins.__import__ = interrupted
sys.argv[0] = "hatevolution"
from hatevolution.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "module", ["hatevolution.cli", "click", "hatevolution.errors", "hatevolution.cli._group", "hatevolution.analysis"]
)
def test_ctrl_c_during_an_import_is_one_sentence(module: str) -> None:
    command = [sys.executable, "-P", "-c", AT_AN_IMPORT, module, "score", "--store", "nowhere.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hatevolution: interrupted\n")


INTERRUPTED_WORK = {
    "in a finalizer": (
        "class Closed:",
        "    def __del__(self): signal.raise_signal(signal.SIGINT)",
        "x = Closed(); del x; time.sleep(30)",
    ),
    "made something else": (
        "try: signal.raise_signal(signal.SIGINT)",
        "except BaseException as error: raise ImportError('no numpy') from error",
    ),
    "after the work": ("import atexit; atexit.register(lambda: signal.raise_signal(signal.SIGINT))",),
}


def as_program(planted: Planted, *body: str) -> list[str]:
    """Return the command line of a planted command that starts as the program does."""
    (planted.folder / "planted.py").write_text(PLANTED.format(body="\n    ".join(body)), encoding="utf-8")
    script = f"from hatevolution.__main__ import main{RUN_WITH_PLANTED}".replace("hatevolution.cli.main()", "main()")
    return [sys.executable, "-P", "-c", script, str(planted.folder), "planted"]


@pytest.mark.parametrize("body", INTERRUPTED_WORK.values(), ids=INTERRUPTED_WORK.keys())
def test_ctrl_c_where_python_would_lose_it_is_one_sentence(planted: Planted, body: tuple[str, ...]) -> None:
    done = subprocess.run(as_program(planted, *body), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "imported\nhatevolution: interrupted\n")


def test_a_process_that_is_to_ignore_ctrl_c_does(planted: Planted) -> None:
    command = as_program(planted, "signal.raise_signal(signal.SIGINT); print('done')")
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(ignoring, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("body", ["print('left in the buffer')", "click.echo('written at once')"])
def test_a_full_disk_is_one_sentence(planted: Planted, body: str) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        code, _, err = planted.run(body, stdout=full.fileno())
    assert code == 1
    assert err.startswith("hatevolution: can't write")
    assert err.endswith("No space left on device\n")
    assert err.count("\n") == 1


def test_output_that_can_not_be_encoded_is_escaped(planted: Planted) -> None:
    assert planted.run(r"print('a\ud800b')") == (0, "a\\ud800b\n", "")


def test_a_command_is_listed_without_being_imported(planted: Planted) -> None:
    process = planted.start("pass", "--help")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "The planted command." in out
    assert err == ""


def test_the_help_lists_the_commands_that_exist_in_the_order_of_work(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        main(["--help"])
    assert leave.value.code == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    modules = {path.stem for path in (Path(hatevolution.__file__).parent / "cli").glob("[!_]*.py")}
    assert [line.split()[0] for line in listed if line.strip()] == [name for name in SHORT_HELP if name in modules]
    for line in filter(str.strip, listed):
        name, text = line.split(maxsplit=1)
        assert text == SHORT_HELP[name]


def test_every_command_is_listed_and_bears_its_module_s_name() -> None:
    context = click.Context(commands)
    folder = Path(hatevolution.__file__).parent / "cli"
    modules = {path.stem: importlib.import_module(f"hatevolution.cli.{path.stem}") for path in folder.glob("[!_]*.py")}
    assert {name for name, module in modules.items() if hasattr(module, "command")} == {*SHORT_HELP} & {*modules}
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_a_command_without_module_does_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHORT_HELP, "someday", "Not written yet.")
    assert commands.get_command(click.Context(commands), "someday") is None
    with pytest.raises(SystemExit) as leave:
        main(["someday"])
    assert leave.value.code == 2
    assert "no command 'someday'" in capsys.readouterr().err


def test_wrong_usage_keeps_the_form_of_click(planted: Planted) -> None:
    code, out, err = planted.run("raise click.UsageError('not so')")
    assert (code, out) == (2, "")
    assert err.startswith("Usage: hatevolution planted [OPTIONS]\n")
    assert err.endswith("Error: not so\n")


def test_an_unknown_command_is_answered_with_the_nearest(planted: Planted) -> None:
    code, out, err = planted.run("pass", "plantde")
    assert (code, out) == (2, "")
    assert "There is no command 'plantde'; did you mean planted?" in err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        main(["--version"])
    assert leave.value.code == 0
    assert capsys.readouterr().out == f"hatevolution {hatevolution.__version__}\n"


def test_no_arguments_show_the_help() -> None:
    done = subprocess.run([sys.executable, "-P", "-m", "hatevolution"], capture_output=True, text=True, check=False)
    assert "Usage: hatevolution [OPTIONS] COMMAND" in done.stdout + done.stderr


@given(st.text())
@example("\u202eabc\u2028\x85\ud800\x1b]0;title\x07")
def test_one_line_hides_nothing_and_stays_one_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    if text.isprintable():
        assert shown == text


def test_one_line_shortens_and_says_so() -> None:
    assert one_line("x" * 12, limit=10) == "xxxxxxxxxx ... (2 more characters)"
    assert len(one_line("\0" * 10**6)) < 20_000
