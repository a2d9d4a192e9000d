"""``hatevolution data``: which data sets there are, whether their files are as they should be, and getting them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.configs.dataset_schema import DatasetConfig

__all__ = ["command"]

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
_names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group(name="data", no_args_is_help=True)
def command() -> None:
    """List, fetch and check the data sets.

    A NAME is that of a shipped set, or the path of a TOML file that describes a set of your own. The project ships no
    sentences of the study's sets; `fetch` gets their files from the addresses where they were published.
    """


@command.command(name="list")
@_names_argument
@_json_option
def list_command(names: tuple[str, ...], as_json: bool) -> None:
    """List the data sets: licence, source, size as released and as the paper says.

    With NAMEs, everything that is known of those.
    """
    from hatevolution.cli._data_views import described, show_details, show_table
    from hatevolution.configs.dataset_schema import STUDY
    from hatevolution.configs.load import shipped_names

    others = [name for name in shipped_names("datasets") if name not in STUDY]
    sets = [config for config, _ in _load(names or (*STUDY, *others))]
    if as_json:
        click.echo(json.dumps({"datasets": [described(config) for config in sets]}, indent=2))
    elif names:
        show_details(sets)
    else:
        show_table(sets)


@command.command(name="check")
@_names_argument
@click.option("--data", metavar="DIR", help="Folder of the data sets; their files are found by name at any depth.")
@_json_option
@click.pass_context
def check_command(ctx: click.Context, names: tuple[str, ...], data: str | None, as_json: bool) -> None:
    """Read data sets to their last row and say what is in them.

    Without NAMEs the six sets of the study. Exit codes: 0 all are there and readable, 1 a file is missing, 2 a file
    holds what it may not hold. A file other than the released one is a note, not an error.
    """
    from hatevolution.cli._data_views import show_check
    from hatevolution.configs.dataset_schema import STUDY

    checks = []
    for config, path in _load(names or STUDY):
        check = _check(config, path, None if data is None else _folder(data))
        if not as_json:
            show_check(check)
        checks.append(check)
    if as_json:
        click.echo(json.dumps({"datasets": checks}, indent=2))
    states = {check["status"] for check in checks}
    ctx.exit(2 if "bad" in states else 1 if "missing" in states else 0)


@command.command(name="fetch")
@_names_argument
@click.option("--data", metavar="DIR", required=True, help="Folder to put the files into; made if it is not there.")
@click.option("--mirror", metavar="URL", help="Take every file from URL/FILE NAME instead of its own address.")
@click.option("--alternatives", is_flag=True, help="Also the other releases of a set (HateXplain's original files).")
@_json_option
@click.pass_context
def fetch_command(
    ctx: click.Context, names: tuple[str, ...], data: str, mirror: str | None, alternatives: bool, as_json: bool
) -> None:
    """Download the files of data sets that are not below DIR yet, and verify their checksums.

    Without NAMEs the six sets of the study. A download that broke off is resumed; a file with a wrong checksum is
    refused; a file that is there is never overwritten. Exit codes: 0 all are there, 1 one could not be had.
    """
    import asyncio

    from hatevolution.adapters.datasets.fetch import fetch, mirror_url, wishes
    from hatevolution.cli._fetch_progress import reporter
    from hatevolution.configs.dataset_schema import STUDY

    sets = [config for config, _ in _load(names or STUDY)]
    wanted = [wish for config in sets for wish in wishes(config, alternatives=alternatives)]
    base = None if mirror is None else mirror_url(mirror)
    for config in sets:
        if config.licence is None:
            click.echo(f"note: the authors of {config.name} state no licence; see {config.source}", err=True)
    with reporter() as listener:
        results = asyncio.run(fetch(wanted, Path(data), base, listener))
    if as_json:
        click.echo(json.dumps({"files": [_fetched(result) for result in results]}, indent=2))
    ctx.exit(1 if any(result.outcome == "failed" for result in results) else 0)


def _load(names: Sequence[str]) -> list[tuple[DatasetConfig, Path]]:
    from hatevolution.configs.dataset_schema import load_dataset

    return [load_dataset(name) for name in names]


def _folder(data: str) -> Path:
    from hatevolution.runner.plan import no_data_folder

    folder = Path(data)
    if not folder.is_dir():
        raise no_data_folder(folder)
    return folder


def _check(config: DatasetConfig, path: Path, data: Path | None) -> dict[str, Any]:
    """Return what is found in one set, as JSON values; its errors are results here."""
    from hatevolution.adapters.datasets import MissingFileError, locate
    from hatevolution.adapters.datasets.summary import summarise
    from hatevolution.errors import DataError

    check: dict[str, Any] = {"name": config.name, "title": config.label, "status": "ok", "problem": None}
    try:
        located = locate(config, path, data)
        released = {source.name: source.sha256 for source in located.layout.files}
        check["files"] = [
            {
                "name": file.name,
                "path": str(file.path),
                "sha256": file.sha256,
                "bytes": file.bytes,
                "released": None if released.get(file.name) is None else released[file.name] == file.sha256,
            }
            for file in located.files
        ]
        found = summarise(located)
    except DataError as error:
        status = "missing" if isinstance(error, MissingFileError) else "bad"
        return {**check, "status": status, "problem": str(error)}
    agreement = None if found.agreement is None else found.agreement._asdict()
    expected = located.expected_rows
    return {**check, **found._asdict(), "agreement": agreement, "expected": expected, "warnings": located.warnings}


def _fetched(result: Any) -> dict[str, Any]:
    file = result.file
    return {
        "dataset": result.dataset,
        "name": result.name,
        "outcome": result.outcome,
        "path": None if file is None else str(file.path),
        "sha256": None if file is None else file.sha256,
        "bytes": None if file is None else file.bytes,
        "verified": result.verified,
        "problem": result.problem,
    }
