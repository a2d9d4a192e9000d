"""Data sets on a terminal and as JSON values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.configs.dataset_schema import DatasetConfig, Size

__all__ = ["described", "show_check", "show_details", "show_table"]

_NO_LICENCE = "none stated"
_WIDE: Final = 150
"""Columns of a terminal from which on all that is listed fits without breaking names and addresses."""
_PADDING: Final = 4 * 3 + 2
"""Columns of a terminal between and around the four columns of the narrow list."""
_RELEASED = {True: " (as released)", False: " (another than the released one)", None: ""}


def described(config: DatasetConfig) -> dict[str, Any]:
    """Return what is known of a set, as JSON values."""
    import msgspec

    layouts = (config, *config.alternatives)
    return {
        "name": config.name,
        "title": config.label,
        "licence": config.licence,
        "source": config.source,
        "citation": config.citation,
        "note": config.note,
        "expected": msgspec.to_builtins(config.expected),
        "published": msgspec.to_builtins(config.published),
        "files": [msgspec.to_builtins(source) for layout in layouts for source in layout.files],
    }


def show_table(sets: Sequence[DatasetConfig]) -> None:
    """Print one line for each set; on a narrow terminal without what the set's name or ``data list NAME`` says too."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width; lines that are folded at 80 characters can't be searched.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 240)
    narrow = console.width < _WIDE
    table = Table(box=box.SIMPLE)
    table.add_column("Name", overflow="fold", no_wrap=narrow)
    for name in ("Sentences", "In the paper"):
        table.add_column(name, justify="right", no_wrap=True)
    if narrow:
        # Left to itself, rich would take the room for long licences from the names.
        taken = max(len(config.name) for config in sets) + len("SentencesIn the paper") + _PADDING
        room = max(len("Licence"), console.width - taken)
        table.add_column("Licence", overflow="ellipsis", no_wrap=True, max_width=room)
    else:
        for name in ("Title", "Licence", "Source"):
            table.add_column(name, overflow="fold")
    for config in sets:
        words = (config.label, config.licence or _NO_LICENCE, config.source or "")
        shown = [Text(one_line(cell)) for cell in (words[1:2] if narrow else words)]
        sizes = [_size(size, with_pairs=not narrow) for size in (config.expected, config.published)]
        table.add_row(Text(one_line(config.name)), *sizes, *shown)
    console.print(table)
    if narrow:
        click.echo("Title, whole licence, source, citation and files: hatevolution data list NAME")


def show_details(sets: Sequence[DatasetConfig]) -> None:
    """Print everything that is known of some sets."""
    for config in sets:
        lines = [
            ("title", config.label),
            ("licence", config.licence or _NO_LICENCE),
            ("source", config.source),
            ("citation", config.citation),
            ("size", f"{_size(config.expected) or 'not counted'} as released"),
            ("in paper", _size(config.published)),
            ("note", config.note),
            ("file", config.path),
        ]
        for layout in (config, *config.alternatives):
            lines += [("file", f"{source.name}  {source.url or 'no address'}") for source in layout.files]
        _block(config.name, lines)


def show_check(check: dict[str, Any]) -> None:
    """Print what was found in one set."""
    if check["status"] != "ok":
        _block(f"{check['name']}  {check['status'].upper()}", [("problem", check["problem"])])
        return
    counts = [f"{check[name]:,} {name}" for name in ("toxic", "respectful", "unlabelled", "pairs") if check[name]]
    if check["functionalities"]:
        counts.append(f"{check['functionalities']} functionalities")
    years = ", ".join(f"{year}: {count:,}" for year, count in check["years"].items())
    if check["without_year"]:
        years += f", none: {check['without_year']:,}"
    lines = [("file", file["path"]) for file in check["files"]]
    lines += [("sha256", file["sha256"] + _RELEASED[file["released"]]) for file in check["files"]]
    lines += [("years", years), ("annotators", _agreement(check["agreement"]))]
    lines += [("note", warning) for warning in check["warnings"]]
    if check["empty"]:
        lines.append(("note", _without_text(check["empty"], check["first_empty"])))
    _block(f"{check['name']}  {check['sentences']:,} sentences ({', '.join(counts)})", lines)


def _without_text(count: int, first: str) -> str:
    if count == 1:
        return f"one sentence has no text: {first}"
    return f"{count:,} sentences have no text, the first of them: {first}"


def _agreement(found: dict[str, Any] | None) -> str | None:
    if found is None:
        return None
    names = {"mean_cohen_kappa": "mean Cohen kappa", "fleiss_kappa": "Fleiss kappa"}
    said = [
        f"{title} {found[name]:.3f}" if found[name] is not None else f"{title} undefined"
        for name, title in names.items()
    ]
    return ", ".join(said)


def _block(head: str, lines: Sequence[tuple[str, str | None]]) -> None:
    click.echo(one_line(head))
    for name, text in lines:
        if text:
            click.echo(f"  {name:<10} {one_line(text)}")


def _size(size: Size, *, with_pairs: bool = True) -> str:
    if size.sentences is None:
        return ""
    return f"{size.sentences:,}" + (f" ({size.pairs:,} pairs)" if size.pairs and with_pairs else "")
