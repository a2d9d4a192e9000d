"""``hatevolution store``: merge, export, import, verify or back up stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hatevolution.cli.options import names, store_option

__all__ = ["command"]

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")


def _document(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


@click.group(name="store", no_args_is_help=True)
def command() -> None:
    """Merge, export, import, verify or back up stores.

    No answer is ever overwritten by any of these: the first answer of a model to a sentence stays, and whatever comes
    besides is kept apart, whole.
    """


@command.command(name="merge")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path(path_type=Path))
@store_option
@_json_option
@click.pass_context
def merge_command(ctx: click.Context, sources: tuple[Path, ...], store: str, as_json: bool) -> None:
    """Bring everything of the stores SRC... into --store, which is made where there is none.

    Models of one name have to be the same model in all of them, data sets the same text; otherwise nothing is merged.
    An answer to a question that has its answer already is kept in the table `second_answers`. Each source goes in whole
    or not at all: start the same command again after an interruption. Sources are only read and may be in use.

    Exit codes: 0 merged, 1 merged and some answers conflict, 2 refused.
    """
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_merge
    from hatevolution.store.exchange.merging import merge_stores

    with progress() as tell:
        report = merge_stores(sources, Path(store), tell=tell)
    code = 1 if report.conflicting else 0
    if as_json:
        _document({**report.as_json(), "exit_code": code})
    else:
        show_merge(report)
    ctx.exit(code)


@command.command(name="export")
@store_option
@click.option("--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="A new or empty folder.")
@click.option("--models", callback=names, metavar="A,B", help="Only these models.")
@click.option("--datasets", callback=names, metavar="A,B", help="Only these data sets.")
@_json_option
def export_command(store: str, out: Path, models: list[str] | None, datasets: list[str] | None, as_json: bool) -> None:
    """Write a store as Parquet files, for other programs and for a way back.

    One folder for each model and data set, with the sentences and the responses as they came; schema and provenance
    stand in each file's metadata, checksums in manifest.json. Hugging Face `datasets` loads the folder as it is.
    """
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_export
    from hatevolution.store.exchange.exporting import export_store

    with progress() as tell:
        result = export_store(Path(store), out, models=models, datasets=datasets, tell=tell)
    if as_json:
        _document({"store": store, "out": str(out), "files": result.files, "bytes": result.bytes, "rows": result.rows})
    else:
        show_export(result)


@command.command(name="import")
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@store_option
@click.option(
    "--format",
    "given",
    type=click.Choice(("export", "csv", "jsonl", "inspect", "lm-eval")),
    help="What FROM is. Default: by its name.",
)
@click.option("--model-config", metavar="MODEL", help="Whose answers they are: a TOML file, or a shipped model's name.")
@click.option("--dataset", metavar="SET", help="What they are about: a set of --store, a shipped one, or a TOML file.")
@click.option("--data", metavar="DIR", help="Folder of the data sets, where --store does not have the set yet.")
@click.option("--id-column", metavar="NAME", help="Where the sentence's id stands. Default: id.")
@click.option("--text-column", metavar="NAME", help="Where its text stands; alone, sentences are found by their text.")
@click.option("--answer-column", metavar="NAME", help="Of csv and jsonl: where the answer stands. Default: results.")
@click.option("--match", type=click.Choice(("id", "text")), help="By what a record's sentence is found.")
@click.option("--role", type=click.Choice(("original", "neologism")), help="Of pairs: which sentence was asked about.")
@click.option(
    "--failure",
    "failures",
    multiple=True,
    metavar="TEXT",
    help="Of csv and jsonl: stands for a failure. Default: Error.",
)
@click.option(
    "--empty-is-answer", is_flag=True, help="Of csv and jsonl: an empty cell is an answer, not a missing one."
)
@_json_option
@click.pass_context
def import_command(
    ctx: click.Context, /, source: Path, store: str, given: str | None, as_json: bool, **options: Any
) -> None:
    """Bring what `store export` wrote, or answers that others made, into --store.

    FROM is the folder of an export, or a file: csv or jsonl with an id and an answer a row (as the study's notebooks
    write them), a log of inspect_ai (.eval or .json), or samples of lm-evaluation-harness (--log_samples). Then
    --model-config and --dataset say whose answers they are, and to what. Names of columns may be paths such as
    `metadata.id`; of lm-evaluation-harness they are fields of `doc`.

    Records that match no sentence, and those that are failures and no answers, are reported with their numbers and left
    out. The import is recorded as a run, with the file's checksum; each record is kept as the response's body.

    Exit codes: 0 all of it is in, 1 something was left out, is missing or conflicts, 2 refused.
    """
    from hatevolution.cli._store_foreign import Asked, format_of

    kind = format_of(source, given)
    code = (
        _import_export(source, Path(store), as_json)
        if kind == "export"
        else _import_foreign(Asked(source=source, store=Path(store), format=kind, **options), as_json)
    )
    ctx.exit(code)


def _import_export(source: Path, store: Path, as_json: bool) -> int:
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_merge
    from hatevolution.store.exchange.importing import import_folder

    with progress() as tell:
        report = import_folder(source, store, tell=tell)
    code = 1 if report.conflicting else 0
    if as_json:
        _document({**report.as_json(), "exit_code": code})
    else:
        show_merge(report)
    return code


def _import_foreign(asked: Any, as_json: bool) -> int:
    from hatevolution.cli._store_foreign import import_foreign
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_foreign

    with progress() as tell:
        report = import_foreign(asked, tell)
    code = 0 if report.complete else 1
    if as_json:
        _document({**report.as_json(), "exit_code": code})
    else:
        show_foreign(report)
    return code


@command.command(name="verify")
@store_option
@_json_option
@click.pass_context
def verify_command(ctx: click.Context, store: str, as_json: bool) -> None:
    """Check that everything in a store is what it says it is.

    The file's integrity, references, schema and triggers, the texts against their checksums, models against their
    fingerprints, answers against their prompts and their places in the responses. Reads only; a run may go on.

    Exit codes: 0 all is well, 1 something is not, 2 it is no store.
    """
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_check
    from hatevolution.store.exchange.verifying import verify_store

    checks = []
    with progress() as tell:
        for check in verify_store(Path(store), tell=tell):
            checks.append(check)
            if not as_json:
                show_check(check)
    code = 0 if all(check.ok for check in checks) else 1
    if as_json:
        _document({"store": store, "ok": not code, "checks": [check.as_json() for check in checks], "exit_code": code})
    ctx.exit(code)


@command.command(name="backup")
@store_option
@click.option("--out", required=True, metavar="FILE", type=click.Path(path_type=Path), help="A file that is not there.")
@_json_option
@click.pass_context
def backup_command(ctx: click.Context, store: str, out: Path, as_json: bool) -> None:
    """Copy a store into one file while a run may be writing to it, and verify the copy.

    The copy is of the moment at which it began; it gets its name once it is complete. Nothing is ever overwritten.

    Exit codes: 0 taken and verified, 1 a true copy of a store that is not well, 2 not taken.
    """
    from hatevolution.cli._store_progress import progress
    from hatevolution.cli._store_views import show_backup
    from hatevolution.store.exchange.backup import backup_store

    with progress() as tell:
        backup = backup_store(Path(store), out, tell=tell)
    code = 0 if all(check.ok for check in backup.checks) else 1
    if as_json:
        checks = [check.as_json() for check in backup.checks]
        fields = {"store": store, "out": str(out), "bytes": backup.bytes, "answers": backup.answers}
        _document({**fields, "checks": checks, "exit_code": code})
    else:
        show_backup(backup)
    ctx.exit(code)
