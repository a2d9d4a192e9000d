"""The filters that ``audit`` and ``audit label`` share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from hatevolution.cli.options import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.analysis.audit.selection import Parsed, Selection

__all__ = ["filters", "selection_of"]

_PARSED: Final = ("toxic", "respectful", "invalid", "ambiguous", "broken", "valid", "any")  # audit.selection.PARSED
_MOST_YEARS: Final = 10_000


def _chosen(*known: str) -> Callable[[click.Context, click.Parameter, str | None], list[str] | None]:
    def callback(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
        found = names(context, parameter, value)
        for name in found or ():
            if name not in known:
                raise click.BadParameter(f"{name!r} is none of {', '.join(known)}.")
        return found

    return callback


def _years(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[int] | None:
    """Read years and ranges of years, such as ``2017,2019-2021``."""
    if value is None:
        return None
    found: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:\s*-\s*(\d{1,4}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter(f"{part.strip()!r} is no year and no range of years such as 2017-2019.")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found[:_MOST_YEARS]


_OPTIONS: Final = (
    click.option(
        "--store",
        envvar="HATEVOLUTION_STORE",
        metavar="FILE",
        help="The store (a SQLite file); also taken from HATEVOLUTION_STORE.",
    ),
    click.option("--model", "--models", "model", callback=names, metavar="A,B", help="Only these models."),
    click.option("--dataset", "--datasets", "dataset", callback=names, metavar="A,B", help="Only these data sets."),
    click.option(
        "--status",
        callback=_chosen("answered", "refused", "rejected"),
        metavar="NAMES",
        help="Only answered, refused (by the provider) or rejected (can't be sent).",
    ),
    click.option("--kind", callback=names, metavar="NAMES", help="Only these kinds of broken answers (see --kinds)."),
    click.option("--year", callback=_years, metavar="YEARS", help="Only these years, such as 2017,2019-2021."),
    click.option("--role", callback=_chosen("original", "neologism"), metavar="NAMES", help="original or neologism."),
    click.option("--label", callback=_chosen("toxic", "respectful"), metavar="NAMES", help="The gold label."),
    click.option(
        "--parsed",
        type=click.Choice(_PARSED),
        help="What the parse policy makes of the answer; broken is invalid or ambiguous.",
    ),
    click.option("--search", metavar="TEXT", help="Stands in the sentence or the answer; case does not matter."),
    click.option(
        "--parser",
        metavar="POLICY",
        help="How answers are read: paper (each model's own rule; the default), strict, lenient, another policy's "
        "name, or a TOML file.",
    ),
)


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def selection_of(options: dict[str, Any], parsed: Parsed | None = None) -> Selection:
    """Return the selection that options describe.

    Args:
        options: Of :func:`filters`.
        parsed: What to take where ``--parsed`` is not given; None takes broken answers, and everything where
            ``--status`` asks for rows that are no answers.
    """
    from hatevolution.analysis.audit.selection import Selection
    from hatevolution.analysis.parsers import PAPER

    if options["parsed"] is not None:
        parsed = options["parsed"]
    elif parsed is None:
        parsed = "any" if set(options["status"] or ()) - {"answered"} else "broken"
    return Selection(
        models=_tuple(options["model"]),
        datasets=_tuple(options["dataset"]),
        statuses=_tuple(options["status"]),
        kinds=_tuple(options["kind"]),
        years=_tuple(options["year"]),
        roles=_tuple(options["role"]),
        labels=_tuple(options["label"]),
        parsed=parsed,
        search=options["search"] or None,
        parser=options["parser"] or PAPER,
    )
