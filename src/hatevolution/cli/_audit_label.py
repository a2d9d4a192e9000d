"""``hatevolution audit label``: a person judges a sample of answers, and every parse policy is compared with them."""

from __future__ import annotations

import getpass
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hatevolution.cli._audit_options import filters, selection_of
from hatevolution.cli.options import names

if TYPE_CHECKING:
    from hatevolution.analysis.audit.agreement import Agreement
    from hatevolution.analysis.audit.selection import Selection
    from hatevolution.store.verdicts import SampleRecord

__all__ = ["label"]


@click.command(name="label")
@filters
@click.option("--sample", "size", type=click.IntRange(min=1), required=True, help="How many answers to judge.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides which; the same seed, the same answers.")
@click.option("--as", "who", metavar="NAME", help="Who judges; default: the user's name.")
@click.option("--compare", callback=names, metavar="A,B", help="Compare these parse policies (TOML files) as well.")
@click.option("--results", is_flag=True, help="Judge nothing, only print how the policies compare.")
@click.option("--cut", type=click.IntRange(min=10), default=2000, show_default=True, help="Characters shown of a text.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON document.")
def label(
    size: int,
    seed: int,
    who: str | None,
    compare: list[str] | None,
    results: bool,
    cut: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge a seeded sample of answers by keys, and see how often each parse policy agrees.

    The question is what the answer says, not whether it is right: t toxic, r respectful, i neither (invalid),
    u undecided, b back to the one before, q quit. Each judgement is stored at once, beside the raw answer, and the
    newest one of a person counts. The same command goes on where it was left; a larger --sample of the same seed
    keeps what was judged.

    Without --parsed answers of every outcome are drawn, valid ones too: a policy errs in both directions.
    """
    if options["store"] is None:
        raise click.UsageError("Missing option '--store'.")
    store, who = Path(options["store"]), who or _user()
    if not who.isprintable():
        raise click.UsageError("--as takes a name of printable characters.")
    selection = replace(selection_of(options, parsed="any"), statuses=("answered",))
    sample = _sample(store, selection, size, seed, who, make=not results)
    if sample is None:
        raise click.UsageError("this sample was not drawn yet; leave out --results to draw and judge it.")
    if not results:
        _judge(store, sample, who, cut)
    _compare(store, sample, who, compare or [], as_json=as_json)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise click.UsageError("the user has no name here; give one with --as NAME.") from None


def _sample(store: Path, selection: Selection, size: int, seed: int, who: str, *, make: bool) -> SampleRecord | None:
    """Return the sample, drawn now if it was not yet."""
    from hatevolution.analysis.audit.sampling import draw
    from hatevolution.analysis.audit.store_view import StoreView
    from hatevolution.store.verdicts import add_sample, find_sample

    described = selection.as_json()
    with StoreView(store, selection) as view:
        found = find_sample(view.connection, seed=seed, size=size, filters=described)
        if found is not None or not make:
            return found
        drawn = draw(view.keys(with_text=True), size, seed)
    if not drawn.keys:
        raise click.UsageError("no answer with a text meets these filters, so there is nothing to judge.")
    return add_sample(store, seed=seed, size=size, filters=described, of=drawn.of, who=who, keys=drawn.keys)


def _judge(store: Path, sample: SampleRecord, who: str, cut: int) -> None:
    from hatevolution.cli._audit_keys import Keys, Labeller

    with Keys(sys.stdin) as keys:
        Labeller(store, sample, who, cut, keys).run()


def _compare(store: Path, sample: SampleRecord, who: str, more: list[str], *, as_json: bool) -> None:
    from hatevolution.analysis.audit.agreement import agreements
    from hatevolution.analysis.audit.selection import Selection
    from hatevolution.analysis.audit.store_view import StoreView
    from hatevolution.store.verdicts import counting, sampled

    with StoreView(store, Selection(parsed="any")) as view:
        said = counting(view.connection, sample.sample, who)
        rows = view.rows_by_key(key for key, _ in said)
        judged = [(rows[key], judgement) for (key, _), judgement in said.items()]
        found = agreements(view.connection, judged, more)
        drawn = len(sampled(view.connection, sample.sample))
    undecided = sum(judgement == "undecided" for judgement in said.values())
    if as_json:
        document = {
            "store": str(store),
            "sample": sample._asdict(),
            "who": who,
            "drawn": drawn,
            "judged": len(judged),
            "undecided": undecided,
            "policies": [agreement.as_json() for agreement in found],
        }
        click.echo(json.dumps(document, indent=1, allow_nan=False))
        return
    _print(found, sample, who, drawn, len(judged), undecided)


def _print(found: list[Agreement], sample: SampleRecord, who: str, drawn: int, judged: int, undecided: int) -> None:
    from rich.console import Console

    from hatevolution.analysis.audit.terminal import agreement_table
    from hatevolution.inert import one_line

    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    console.print(
        f"Judged by {one_line(who, 80)}: {judged} of {drawn} answers, {undecided} of them undecided "
        f"(sample of {sample.of} answers, seed {sample.seed})."
    )
    if judged == undecided:
        console.print("Nothing to compare yet.")
        return
    console.print(agreement_table(found, console))
    filters = {key: value for key, value in sample.filters.items() if key not in ("parser", "statuses")}
    if filters != {"parsed": "any"}:
        console.print(f"These shares are of the answers with {one_line(json.dumps(filters))} alone.")
