"""``hatevolution audit``: raw outputs, which of them broke the instruction, and what people say about them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hatevolution.cli._audit_options import filters, selection_of
from hatevolution.cli.options import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatevolution.analysis.audit.selection import Selection
    from hatevolution.analysis.audit.views import Page, View, ViewName

__all__ = ["command"]

_CHANGES = ("flip", "hallucination", "recovery", "both-broken", "same", "incomplete")  # analysis.audit.pairs.CHANGES
_NOTHING = {"kinds": "broken answers", "pairs": "pairs"}


@click.group(name="audit", invoke_without_command=True)
@filters
@click.option("--kinds", "show_kinds", is_flag=True, help="Count the kinds of broken answers, with examples.")
@click.option("--pairs", "show_pairs", is_flag=True, help="Original beside neologism, differing words marked.")
@click.option("--change", callback=names, metavar="NAMES", help=f"With --pairs: only these of {', '.join(_CHANGES)}.")
@click.option("--disagreements", "show_disagreements", is_flag=True, help="Sentences that models label differently.")
@click.option("--differ", callback=names, metavar="A,B", help="Answers that two parse policies read differently.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="Which page.")
@click.option("--page-size", type=click.IntRange(1, 10_000), help="Rows of a page; default 20, of --kinds 1000.")
@click.option("--cut", type=click.IntRange(min=10), default=400, show_default=True, help="Characters shown of a text.")
@click.option("--json", "as_json", is_flag=True, help="Print the page as one JSON document.")
@click.option(
    "--export", "export_to", metavar="FILE", help="Write all rows to a new FILE: .csv, .jsonl, .parquet, .xlsx."
)
@click.option("--serve", is_flag=True, help="Explore the store in a browser (Datasette), read-only.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --serve: address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="With --serve; 0: any.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Show raw outputs: which broke the instruction, and how.

    Without options for a view, the answers of a selection are listed: those that the parse policy can't read, unless
    --parsed or --status says otherwise. --kinds, --pairs, --disagreements and --differ show them in other ways.

    Texts are shown on one line with everything unprintable as an escape; the files of --export hold all of them,
    whole. In CSV and Excel a backslash stands doubled and what can't be printed as its escape; in CSV a text that a
    spreadsheet could run as a formula has an apostrophe in front.
    """
    if ctx.invoked_subcommand is not None:
        given = [name for name in options if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"options of `audit {ctx.invoked_subcommand}` stand behind its name.")
        return
    store = options["store"]
    if store is None:
        raise click.UsageError("Missing option '--store'.")
    if options["serve"]:
        from hatevolution.cli._audit_browse import serve

        serve(Path(store), parser=options["parser"], host=options["host"], port=options["port"])
        return
    _show(Path(store), _view_name(options), options)


def _view_name(options: dict[str, Any]) -> ViewName:
    """Return the view that was asked for, and refuse options that do not go with it."""
    flags: dict[ViewName, str] = {
        "kinds": "show_kinds",
        "pairs": "show_pairs",
        "disagreements": "show_disagreements",
        "differ": "differ",
    }
    asked: list[ViewName] = [name for name, flag in flags.items() if options[flag]]
    if len(asked) > 1:
        raise click.UsageError(f"--{asked[0]} and --{asked[1]} are two views; ask for one at a time.")
    view: ViewName = asked[0] if asked else "answers"
    takes_not = {
        "kinds": ("status", "parsed"),
        "disagreements": ("status", "parsed", "kind", "role"),
        "differ": ("status", "parsed", "kind", "parser"),
        "pairs": ("role",),
        "answers": (),
    }[view]
    wrong = [name for name in takes_not if options[name] is not None]
    if wrong:
        raise click.UsageError(f"--{wrong[0]} does not go with --{view}.")
    if options["change"] is not None and view != "pairs":
        raise click.UsageError("--change goes with --pairs.")
    for change in options["change"] or ():
        if change not in _CHANGES:
            raise click.UsageError(f"there is no change {change!r}; the changes are {', '.join(_CHANGES)}.")
    if view == "differ" and len(options["differ"]) != 2:
        raise click.UsageError("--differ takes two parse policies, such as paper,lenient.")
    return view


def _show(store: Path, name: ViewName, options: dict[str, Any]) -> None:
    from hatevolution.analysis.audit.export import check_target, export
    from hatevolution.analysis.audit.store_view import StoreView
    from hatevolution.analysis.audit.views import document, open_view

    target = None if options["export_to"] is None else Path(options["export_to"])
    if target is not None:
        check_target(target)
    selection = selection_of(options, parsed="any" if name in ("pairs", "disagreements") else None)
    second = None
    if name == "differ":
        from dataclasses import replace

        first, second = options["differ"]
        selection = replace(selection, parser=first, parsed="any")
    with StoreView(store, selection) as shown:
        view = open_view(shown, name, changes=options["change"], second=second)
        if target is not None:
            count = export(view.flat_rows(), view.columns, target)
            click.echo(f"{count} rows written to {target}", err=True)
            if not options["as_json"]:
                return
        page = view.page(options["page"], options["page_size"] or (1000 if name == "kinds" else 20))
        if not page.rows and page.number > 1:
            pages = -(-page.total // page.size)
            last = f"the last one is {pages}" if pages else "there is nothing to show"
            raise click.UsageError(f"There is no page {page.number}: {last} (--page-size {page.size}).")
        if options["as_json"]:
            click.echo(json.dumps(document(view, page, shown), indent=1, allow_nan=False))
        else:
            _print(view, page, selection, options["cut"])


def _print(view: View, page: Page, selection: Selection, cut: int) -> None:
    import io

    from rich.console import Console

    from hatevolution.analysis.audit.terminal import render

    terminal = sys.stdout.isatty()
    real = Console(highlight=False, markup=False)
    # A pipe has no width: nothing is broken there, so that every line can be searched.
    console = Console(
        file=io.StringIO(),
        highlight=False,
        markup=False,
        force_terminal=terminal,
        color_system="auto" if terminal and not real.no_color else None,
        width=real.width if terminal else 200,
    )
    for renderable in render(view.name, page, cut, console):
        console.print(renderable, soft_wrap=not terminal and view.name != "kinds")
    text = console.file.getvalue()  # type: ignore[attr-defined]

    def parts() -> Iterator[str]:
        yield text
        yield _footer(view, page, selection) + "\n"  # last: the total may take longer than the page

    if terminal and sys.stdin.isatty() and text.count("\n") >= real.height - 1:
        click.echo_via_pager(parts(), color=True)
        return
    for part in parts():
        click.echo(part, nl=False)
        sys.stdout.flush()


def _footer(view: View, page: Page, selection: Selection) -> str:
    one = bool(page.rows) and page.total == 1
    what = {
        "answers": f"{'answer' if one else 'answers'}, read by the policy {selection.parser}",
        "kinds": "row, of a kind" if one else "rows, one for each model, data set and kind",
        "pairs": "row, of a pair and a model" if one else "rows, one for each pair and model",
        "disagreements": f"{'sentence' if one else 'sentences'} that models label differently",
        "differ": f"{'answer' if one else 'answers'} that the two policies read differently",
    }[view.name]
    if view.name == "answers" and selection.outcomes is not None:
        what = f"{selection.parsed} {what}" if selection.kinds is None else f"broken {what}"
    if not page.rows:
        return f"No {_NOTHING.get(view.name, what)}."
    last = page.first + len(page.rows) - 1
    rows = "1" if one else f"{page.first} to {last}"
    more = f" Next: --page {page.number + 1}" if page.more else ""
    return f"{rows} of {page.total} {what}.{more}"


from hatevolution.cli._audit_label import label  # noqa: E402 - a subcommand of this very group

command.add_command(label)
