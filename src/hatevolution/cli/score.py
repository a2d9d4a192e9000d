"""``hatevolution score``: the study's tables from a store, without asking a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hatevolution.cli.options import MOST_RESAMPLES, RESAMPLES, FiniteRange, names, store_option
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from hatevolution.analysis.report import Report

__all__ = ["command"]

_INVALID = ("drop", "wrong", "class", "raw", "worst", "best")  # hatevolution.analysis.metrics.INVALID_POLICIES
_CONSTANTS = ("last", "exclude")  # hatevolution.analysis.rankings.ConstantRule
_FORMATS = ("csv", "parquet", "md", "latex")  # hatevolution.analysis.render.files.FORMATS


@click.command(name="score")
@store_option
@click.option("--models", callback=names, metavar="NAMES", help="Only these models, separated by commas.")
@click.option("--datasets", callback=names, metavar="NAMES", help="Only these data sets, separated by commas.")
@click.option(
    "--parser",
    default="paper",
    show_default=True,
    metavar="POLICY",
    help="How answers are read: paper (each model's own rule), strict, lenient, another policy's name, or a TOML file.",
)
@click.option(
    "--invalid",
    type=click.Choice(_INVALID),
    default="drop",
    show_default=True,
    help="What an invalid answer counts as.",
)
@click.option(
    "--against",
    metavar="POLICY",
    help="Say what this other policy would change: rows, metrics, ranks (beside what --tables names).",
)
@click.option(
    "--drift",
    "drift_of",
    nargs=2,
    metavar="OLD NEW",
    help="What changed between two names of one model (see `run --as-of`): labels, metrics, who answered when.",
)
@click.option(
    "--intervals",
    "resamples",
    type=click.IntRange(min=1, max=MOST_RESAMPLES),
    is_flag=False,
    flag_value=RESAMPLES,
    metavar="[RESAMPLES]",
    help=f"Bootstrap intervals, rank probabilities, paired tests, trends, agreement.  [{RESAMPLES} resamples]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the resamples.")
@click.option(
    "--confidence",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals; those of correlations have the study's 0.90.",
)
@click.option(
    "--constants",
    type=click.Choice(_CONSTANTS),
    default="last",
    show_default=True,
    help="What becomes of models that give one label throughout, in rankings by label flips.",
)
@click.option(
    "--tables",
    "wanted",
    callback=names,
    metavar="KEYS",
    help="Only these tables (3, 4, A7, ...), in every form of output.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write the tables into this folder too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="Of the files in --out (csv by default); without --out, of what is printed: several tables are one CSV, whose "
    "first column has their keys.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one tidy JSON document instead of tables.")
def command(
    store: str,
    models: list[str] | None,
    datasets: list[str] | None,
    parser: str,
    invalid: str,
    against: str | None,
    drift_of: tuple[str, str] | None,
    resamples: int | None,
    seed: int,
    confidence: float,
    constants: Literal["last", "exclude"],
    wanted: list[str] | None,
    out: Path | None,
    form: Literal["csv", "parquet", "md", "latex"] | None,
    as_json: bool,
) -> None:
    """Derive every score and table from a store, asking nobody.

    Tables follow from what a data set has: years give Experiment 1's, pairs Experiment 2's, any other the static ones.
    Scores that a policy changes are derived anew from the raw answers, which stay as they are.
    """
    if form == "parquet" and out is None:
        raise click.UsageError("--format parquet needs --out DIR: Parquet can't be printed.")
    if form is not None and out is None and as_json:
        raise click.UsageError("--json and --format without --out both say what to print; give one of them.")
    if drift_of is not None and models is not None:
        raise click.UsageError("--drift takes its two models itself; leave --models out.")
    from hatevolution.analysis import report

    made = report.make(
        store,
        parser=parser,
        invalid=invalid,
        models=models,
        datasets=datasets,
        tables=wanted,
        against=against,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
        constants=constants,
        drift_of=drift_of,
    )
    for sentence in made.warnings():
        click.echo(f"Warning: {one_line(sentence)}", err=True)
    if out is not None:
        written = report.write(made, out, form or "csv")
        click.echo(f"{len(written)} files written to {out}", err=True)
    if as_json:
        click.echo(json.dumps(report.as_json(made), indent=1, allow_nan=False))
    elif out is None and form is not None:
        _print(made, form)
    else:
        _show(made)


def _print(made: Report, form: Literal["csv", "parquet", "md", "latex"]) -> None:
    from hatevolution.analysis.render.files import as_text

    click.echo(as_text(made.tables, form), nl=False)


def _show(made: Report) -> None:
    from rich.console import Console

    from hatevolution.analysis.render.terminal import print_table, print_text

    # A pipe has no width; 200 columns hold Table 3 in one piece.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
    for line in made.header():
        print_text(console, line)
    for table in made.tables:
        print_table(console, table)
    for line in made.footer():
        print_text(console, line)
    if made.kept.everything:
        print_text(console, f"Keys for --tables: {', '.join(table.key for table in made.tables)}")
