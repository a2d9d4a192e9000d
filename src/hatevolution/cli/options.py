"""Options that several commands share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["MOST_RESAMPLES", "RESAMPLES", "FiniteRange", "names", "plan_options", "store_option"]


RESAMPLES: Final = 2_000
"""Where nobody says otherwise: `score` and `report` then show the same intervals of one store."""
MOST_RESAMPLES: Final = 100_000
"""Of a bootstrap: beyond, intervals no longer change in a digit that is shown, and memory and hours go."""


class FiniteRange(click.FloatRange):
    """A number within bounds; what is no number lies within all of click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; `nan` and `inf` are refused."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


store_option: Callable[..., Callable[..., None]] = click.option(
    "--store",
    required=True,
    envvar="HATEVOLUTION_STORE",
    metavar="FILE",
    help="The store (a SQLite file); also taken from HATEVOLUTION_STORE.",
)


def names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split an option's value at its commas."""
    if value is None:
        return None
    found = [part.strip() for part in value.split(",") if part.strip()]
    if not found:
        raise click.BadParameter("names separated by commas are needed.")
    return found


def plan_options(store_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator with what says which sentences of which experiment are meant, and where the answers go."""
    declared = [
        click.argument("config", default="quickstart", metavar="[CONFIG]"),
        click.option(
            "--store",
            envvar="HATEVOLUTION_STORE",
            metavar="FILE",
            help=f"{store_help} Default: the experiment's store, or NAME.db.",
        ),
        click.option(
            "--data", metavar="DIR", help="Folder of the data sets; their files are found by name at any depth."
        ),
        click.option("--models", callback=names, metavar="A,B", help="Only these of the experiment's models."),
        click.option("--datasets", callback=names, metavar="A,B", help="Only these of the experiment's data sets."),
        click.option(
            "--except",
            "without",
            callback=names,
            metavar="A,B",
            help="All but these models or data sets of the experiment.",
        ),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(declared):
            command = option(command)
        return command

    return decorate
