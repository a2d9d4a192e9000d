"""The command ``hatevolution``: what it runs, how errors look, and what its exit codes say.

===  =================================================
0    complete
1    ended with something missing, or with a bug's traceback
2    wrong usage, configuration, data or store
130  interrupted
===  =================================================

Each command is a module of this package with an attribute ``command``. A command ends normally for 0, or with
``ctx.exit(code)``; what a person can put right it raises as :class:`hatevolution.errors.UserError`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import click

from hatevolution.cli._group import commands
from hatevolution.errors import UserError
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_PROGRAM: Final = "hatevolution"
_OUTPUT_LOST: Final = 1
_WRONG_USAGE: Final = 2
_INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell reports it
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the interpreter with its exit code.

    Args:
        args: The arguments after the program's name; those of the process by default.
    """
    if f"_{_PROGRAM.upper()}_COMPLETE" in os.environ:
        commands.main(prog_name=_PROGRAM)  # click answers the shell's completion and exits
    _open_closed_outputs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Answers may hold unpaired surrogates, terminals may lack characters: show an escape, never crash.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_flushed(_exit_code(sys.argv[1:] if args is None else list(args))))


def _open_closed_outputs() -> None:
    """Give a process that was started with an output closed one into nothing; else a store might get its number."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_WRONLY)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _exit_code(args: list[str]) -> int:
    # Not click's own main(): it reports an EOFError (a cut gzip file, a broken HTTP body) as "Aborted!", and any
    # broken pipe, a lost server's included, as a silent exit. Both would hide bugs.
    try:
        with commands.make_context(_PROGRAM, args) as context:
            commands.invoke(context)
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.ClickException as error:
        error.show()
        return _WRONG_USAGE
    except UserError as error:
        _say(str(error))
        return _WRONG_USAGE
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        _discard_output()
        return _OUTPUT_LOST
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        _say(f"can't write {error.filename or 'the output'}: {error.strerror}")
        _discard_output()
        return _OUTPUT_LOST
    return 0


def _flushed(code: int) -> int:
    """Write out what is buffered and return the exit code; left to the interpreter's end, an error there is noise."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return code or _OUTPUT_LOST
    except OSError as error:
        _say(f"can't write to standard output: {error.strerror}")
        _discard_output()
        return code or _OUTPUT_LOST
    return code


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be gone too; the exit code still tells
        click.echo(f"{_PROGRAM}: {one_line(sentence)}", err=True)


def _reader_is_gone() -> bool:
    """Return whether nobody reads this process' standard output or standard error any more."""
    outputs = select.poll()
    outputs.register(1, 0)
    outputs.register(2, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in outputs.poll(0))


def _discard_output() -> None:
    """Let the interpreter's last flush succeed, into nothing."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
