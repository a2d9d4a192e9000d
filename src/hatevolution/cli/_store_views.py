"""What people see of work on stores; on standard output, one line a fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.store.exchange.backup import Backup
    from hatevolution.store.exchange.exporting import Exported
    from hatevolution.store.exchange.foreign_report import ForeignReport, Left
    from hatevolution.store.exchange.merging import Conflict, MergeReport
    from hatevolution.store.exchange.verifying import Check

__all__ = ["show_backup", "show_check", "show_export", "show_foreign", "show_merge"]

_SHOWN: Final = 20


def _say(text: str) -> None:
    click.echo(one_line(text))


def show_merge(report: MergeReport) -> None:
    """Say what came of each source that brought something, and of all of them."""
    for source in report.sources if len(report.sources) <= _SHOWN else []:
        parts = [
            (source.answers, "new answers"),
            (source.responses, "responses"),
            (source.failures, "failures"),
            (source.sentences, "sentences"),
            (source.verdicts, "verdicts"),
            (source.agreeing, "answers that are there already and agree"),
            (source.conflicts, "that conflict"),
        ]
        told = ", ".join(f"{number:,} {what}" for number, what in parts if number)
        _say(f"{source.source}: {told or 'nothing new'}")
    for source in report.sources:
        if source.open_batches:
            _say(
                f"{source.source}: {source.open_batches:,} batches are not collected yet and stay there; collect them "
                f"there and merge again before {report.store} is asked the same."
            )
    new = sum(source.answers for source in report.sources)
    apart = sum(source.kept_apart for source in report.sources)
    sources = "1 source" if len(report.sources) == 1 else f"{len(report.sources)} sources"
    _say(f"{report.store}: {new:,} new answers from {sources}, {apart:,} second answers kept apart.")
    _show_conflicts(report.conflicts, report.conflicting, report.store)


def _show_conflicts(conflicts: Sequence[Conflict], number: int, store: str) -> None:
    if not number:
        return
    _say(f"{number:,} answers say something else than the first one, which stays:")
    for conflict in conflicts[:_SHOWN]:
        _say(
            f"  {one_line(conflict.model, 60)}  {one_line(conflict.dataset, 60)}  {one_line(conflict.sentence, 60)}  "
            f"{one_line(conflict.kept, 60)}  but {one_line(conflict.other, 60)}"
        )
    if number > _SHOWN:
        _say(f"  ... and {number - min(_SHOWN, len(conflicts)):,} more")
    _say(f"All of them: the view `conflicts` of {store}.")


def show_export(result: Exported) -> None:
    """Say what was written."""
    _say(
        f"{result.folder}: {result.rows['predictions']:,} answers, {result.rows['sentences']:,} sentences, "
        f"{result.rows['responses']:,} responses in {result.files} files, {result.bytes:,} bytes."
    )


def show_check(check: Check) -> None:
    """Say how a check ended, and what it found."""
    verdict = "ok" if check.ok else f"{check.problems:,} PROBLEMS"
    _say(f"{check.name:<13} {verdict:<12} {check.what} ({check.checked:,} looked at)")
    for text in check.shown:
        _say(f"    {text}")
    if check.problems > len(check.shown):
        _say(f"    ... and {check.problems - len(check.shown):,} more")
    for note in check.notes:
        _say(f"    note: {note}")


def show_backup(backup: Backup) -> None:
    """Say what was taken, and how its verification ended."""
    bad = [check for check in backup.checks if not check.ok]
    for check in bad:
        show_check(check)
    state = "verified" if not bad else "a true copy of a store that is not well"
    _say(f"{backup.file}: {backup.answers:,} answers, {backup.bytes:,} bytes, {state}.")


def show_foreign(report: ForeignReport) -> None:
    """Say what came of a file of answers, record by record where one was left out."""
    _show_left("not matched", report.unmatched)
    _show_left("no answer", report.failures)
    if report.other_prompts:
        _say(
            f"note: {report.other_prompts:,} records tell of another prompt than the model's configuration has; their "
            f"prompts are in the responses' bodies only."
        )
    _say(
        f"{report.file}: {report.rows:,} records, {report.matched:,} sentences of {report.dataset} answered, "
        f"{report.missing:,} without an answer."
    )
    _say(f"{report.store}: {report.answers:,} new answers of {report.model}, run {report.run}.")
    _show_conflicts(report.conflicts, report.conflicting, report.store)


def _show_left(what: str, left: Sequence[Left]) -> None:
    for item in left[:_SHOWN]:
        _say(f"record {item.row}: {what}: {one_line(item.why, 200)}")
    if len(left) > _SHOWN:
        _say(f"... and {len(left) - _SHOWN:,} more records {what} (--json lists all)")
