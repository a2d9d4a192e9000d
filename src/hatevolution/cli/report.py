"""``hatevolution report``: one page about a store, complete in itself."""

from __future__ import annotations

from pathlib import Path

import click

from hatevolution.cli.options import MOST_RESAMPLES, RESAMPLES, names, store_option

__all__ = ["command"]

_INVALID = ("drop", "wrong", "class", "raw", "worst", "best")  # hatevolution.analysis.metrics.INVALID_POLICIES


@click.command(name="report")
@store_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="The page; an older one there is replaced.",
)
@click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write every plot as SVG and PNG, and its data as CSV, into this folder too.",
)
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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of intervals and samples.")
@click.option(
    "--resamples",
    type=click.IntRange(min=0, max=MOST_RESAMPLES),
    default=RESAMPLES,
    show_default=True,
    help="Of the bootstrap behind the intervals; 0 for no intervals.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0, max=50),
    default=3,
    show_default=True,
    help="Broken answers to show of each model and kind, behind a content warning; 0 for none.",
)
def command(
    store: str,
    out: Path,
    plots: Path | None,
    models: list[str] | None,
    datasets: list[str] | None,
    parser: str,
    invalid: str,
    seed: int,
    resamples: int,
    samples: int,
) -> None:
    """Write one page of tables and plots about a store.

    The page is one HTML file that loads nothing from anywhere, so that it can be sent as an attachment: what ran,
    coverage, every table, scores over the years, ranks and their correlations, broken answers, and where it all comes
    from. With the same options, the same store gives the same page, apart from the time in its head.
    """
    from hatevolution.analysis import report_page

    options = report_page.Options(
        parser=parser,
        invalid=invalid,
        seed=seed,
        resamples=resamples,
        samples=samples,
        models=None if models is None else tuple(models),
        datasets=None if datasets is None else tuple(datasets),
    )
    report_page.check(out)
    content = report_page.gather(store, options)
    size = report_page.write(content, out)
    click.echo(f"{out}, {size / 2**20:.1f} MiB", err=True)
    if plots is not None:
        written = report_page.write_figures(content.figures, plots)
        click.echo(f"{len(written)} files written to {plots}", err=True)
