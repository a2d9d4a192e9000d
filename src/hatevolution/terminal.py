"""How much room a terminal has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["NO_TERMINAL", "room"]

NO_TERMINAL: Final = 100_000
"""Columns of what is no terminal: more than anything has, so that nothing is folded."""


def room(console: Console, table: Table) -> int:
    """Return the columns of a console that a table leaves free; below 0 where it would be folded or cut."""
    from rich.measure import Measurement

    unbounded = console.options.update(max_width=NO_TERMINAL)
    return console.width - Measurement.get(console, unbounded, table).maximum
