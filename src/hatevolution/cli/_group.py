"""The group of commands: listed from a table, imported one at a time and only when used."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.util import find_spec
from typing import Final

import click

from hatevolution import __version__

__all__ = ["SHORT_HELP", "LazyGroup", "commands"]

SHORT_HELP: Final = {
    "run": "Ask models about every sentence that has no answer yet.",
    "batch": "Ask models through their provider's batch interface.",
    "status": "Show what is answered, pending and failed.",
    "score": "Print the study's tables from a store, asking nobody.",
    "audit": "Show raw outputs that broke the instruction.",
    "report": "Write one page of tables and plots about a store.",
    "data": "List, fetch and check the data sets.",
    "serve": "Start a model's server as `run` would.",
    "paper": "Compare the published tables with what they should say.",
    "store": "Merge, export, import, verify or back up stores.",
}
"""Name of each command -> its line in ``hatevolution --help``; the order is that of the work."""


class LazyGroup(click.Group):
    """A group whose command NAME is the attribute ``command`` of the module ``hatevolution.cli.NAME``.

    Listing the commands imports none of those modules, so the help stays fast whatever they need. A name of
    :data:`SHORT_HELP` whose module is not there is not a command: nothing is advertised that can't be used.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that exist, in the order of the table."""
        return [name for name in SHORT_HELP if find_spec(f"{__package__}.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None where there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{__package__}.{cmd_name}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"{__package__}.{cmd_name}.command is a {type(command).__name__}, not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; an unknown one is answered with the nearest known ones."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"the commands are {', '.join(known)}"
            ctx.fail(f"There is no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, importing nothing."""
        rows = [(name, SHORT_HELP[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def commands() -> None:
    """Measure how well language models detect hate speech while language changes.

    A run asks models about the sentences of data sets and keeps every raw answer in a store; scores, tables and
    reports are derived from that store alone. `hatevolution COMMAND --help` explains a command.
    """
