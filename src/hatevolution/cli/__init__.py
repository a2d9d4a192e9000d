"""The command ``hatevolution``: what it runs, how errors look, and what its exit codes say.

===  =================================================
0    complete
1    ended with something missing, or with a bug's traceback
2    wrong usage, configuration, data or store
130  interrupted; also by a Ctrl-C while modules are imported
===  =================================================

Each command is a module of this package with an attribute ``command``. A command ends normally for 0, or with
``ctx.exit(code)``; what a person can put right it raises as :class:`hatevolution.errors.UserError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import click

from hatevolution.cli._group import commands
from hatevolution.cli._output import discard, prepare_outputs
from hatevolution.errors import UserError
from hatevolution.inert import one_line
from hatevolution.interrupts import INTERRUPTED, caused, leave_at_once, raise_interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_PROGRAM: Final = "hatevolution"
_OUTPUT_LOST: Final = 1
_WRONG_USAGE: Final = 2
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the interpreter with its exit code.

    Args:
        args: The arguments after the program's name; those of the process by default.
    """
    if f"_{_PROGRAM.upper()}_COMPLETE" in os.environ:
        commands.main(prog_name=_PROGRAM)  # click answers the shell's completion and exits
    prepare_outputs()
    try:
        code = _exit_code(sys.argv[1:] if args is None else list(args))
    except KeyboardInterrupt:  # while the error before it was being told
        code = INTERRUPTED
    sys.exit(_flushed(code))


def _exit_code(args: list[str]) -> int:
    # Not click's own main(): it reports an EOFError (a cut gzip file, a broken HTTP body) as "Aborted!", and any
    # broken pipe, a lost server's included, as a silent exit. Both would hide bugs.
    try:
        raise_interrupts()
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
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            _say(f"can't write {error.filename or 'the output'}: {error.strerror}")
            discard(1)
            return _OUTPUT_LOST
        if not caused(error):
            raise
        _say("interrupted")
        return INTERRUPTED
    finally:
        leave_at_once()
    return 0


def _flushed(code: int) -> int:
    """Write out what is buffered and return the exit code; left to the interpreter's end, an error there is noise."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _say(f"can't write to standard output: {error.strerror}")
        discard(1)
        return code or _OUTPUT_LOST
    return code


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be gone too; the exit code still tells
        click.echo(f"{_PROGRAM}: {one_line(sentence)}", err=True)
