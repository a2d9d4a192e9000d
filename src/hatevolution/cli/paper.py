"""``hatevolution paper``: what the published tables say, and what they should say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatevolution.cli.options import store_option
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]


@click.group(name="paper", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Show the figures that agree as well.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.pass_context
def command(context: click.Context, every: bool, as_json: bool) -> None:
    """Check every published figure that can be derived from others.

    Nothing is needed but this program: it carries the study's published tables and released rankings. Shown are the
    figures that differ from what they should be, and the published correlations beside the ones that the rankings and
    the scores give.
    """
    if context.invoked_subcommand is not None:
        if every or as_json:
            raise click.UsageError(f"Options of `{context.invoked_subcommand}` stand after its name.")
        return
    from hatevolution.analysis.paper import findings

    if as_json:
        click.echo(json.dumps(findings.as_json(), indent=1, allow_nan=False))
        return
    from hatevolution.analysis.paper.coefficients import coefficients
    from hatevolution.analysis.render.terminal import print_table, print_text

    console, checks = _console(), findings.every_check()
    print_text(console, findings.summary(checks))
    print_table(console, findings.summary_table(checks))
    print_table(console, findings.check_table(checks, every=every))
    print_table(console, findings.coefficient_table(coefficients()))


@command.command(name="compare")
@store_option
@click.option("--parser", default="paper", show_default=True, metavar="POLICY", help="How answers are read.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write the tables into this folder too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def compare_command(store: str, parser: str, out: Path | None, as_json: bool) -> None:
    """Set a store's own figures beside the published ones, difference by difference.

    Models are matched by the names in the study's tables (a model's title), data sets by their names in the study.
    """
    from hatevolution.analysis import report
    from hatevolution.analysis.paper.comparison import compare
    from hatevolution.analysis.render.files import write_table
    from hatevolution.analysis.render.terminal import print_table, print_text

    found = compare(report.make(store, parser=parser))
    if not found.differences:
        raise ConfigError(
            f"Nothing in {store} can be compared: it has to hold a model that the study has "
            f"(this one's are: {', '.join(found.other_models) or 'none'}) and a data set of the study."
        )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for table in found.tables():
            write_table(table, out, "csv")
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=1, allow_nan=False))
        return
    console = _console()
    for table in found.tables():
        print_table(console, table)
    print_text(console, f"Compared: {', '.join(found.models) or 'no model, correlations alone'}.")
    if found.other_models:
        print_text(console, f"Not in the study: {', '.join(found.other_models)}.")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
