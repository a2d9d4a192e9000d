"""One published figure, what it should be by others, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hatevolution.analysis.paper.published import decimals, number

__all__ = ["AGREES", "DIFFERS", "NOT_DERIVABLE", "Check", "Verdict", "compared", "judged", "share_of"]

AGREES: Final = "agrees"
DIFFERS: Final = "differs"
NOT_DERIVABLE: Final = "not derivable"
Verdict = Literal["agrees", "differs", "not derivable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check of one figure."""

    table: str
    row: str
    column: str
    published: float | str
    recomputed: float | str | None
    verdict: Verdict
    note: str = ""


def compared(table: str, row: str, column: str, text: str, recomputed: float, note: str = "") -> Check:
    """Check a figure that is recomputed from other rounded figures: it may differ by one in its last place.

    Args:
        table: Number of the published table.
        row: Its row.
        column: Its column.
        text: The figure as published.
        recomputed: In full precision.
        note: What the recomputation stands on.
    """
    published = number(text)
    if published is None:
        raise ValueError(f"{text!r} is no figure")
    places = decimals(text)
    close = abs(round(recomputed, places) - published) <= 1.000001 * 10.0**-places
    return Check(
        table=table,
        row=row,
        column=column,
        published=published,
        recomputed=recomputed,
        verdict=AGREES if close else DIFFERS,
        note=note,
    )


def judged(table: str, row: str, column: str, published: float, recomputed: float, note: str = "") -> Check:
    """Check a figure that has to be equal."""
    return Check(
        table=table,
        row=row,
        column=column,
        published=published,
        recomputed=recomputed,
        verdict=AGREES if published == recomputed else DIFFERS,
        note=note,
    )


def share_of(table: str, row: str, column: str, text: str, whole: int, unit: str) -> Check:
    """Check that a percentage is a whole number of ``whole`` (Brown and Heathers 2017, the GRIM test).

    ``recomputed`` is the nearest percentage that is one; the note says of how many.
    """
    published = number(text)
    if published is None:
        raise ValueError(f"{text!r} is no figure")
    places = decimals(text)
    near = round(published * whole / 100)
    parts = [part for part in (near - 1, near, near + 1) if 0 <= part <= whole]
    best = min(parts, key=lambda part: abs(100 * part / whole - published))
    hit = any(round(100 * part / whole, places) == published for part in parts)
    return Check(
        table=table,
        row=row,
        column=column,
        published=published,
        recomputed=100 * best / whole,
        verdict=AGREES if hit else DIFFERS,
        note=f"{best} of {whole} {unit}" if hit else f"no whole number of {whole} {unit}; the nearest is {best}",
    )
