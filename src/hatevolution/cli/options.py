"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["names", "store_option"]

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
