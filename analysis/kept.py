"""What remains of a report where only some tables were asked for: those, and the tidy data that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.choose import chosen
from hatevolution.analysis.tables.table import ScoreKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.tables import Table

__all__ = ["Kept", "keep"]

_CORRELATIONS: Final = ("5", "A11", "A12", "A13", "correlations")
_BEHIND: Final = {
    "rank-probabilities": "ranks",
    "differences": "differences",
    "trends": "trend",
    "base-rates": "trend",
    "kappas": "agreement",
    "alphas": "agreement",
    "changed-rows": "against:rows",
    "changed-metrics": "against:metrics",
    "changed-ranks": "against:ranks",
    "drift-labels": "drift:labels",
    "drift-metrics": "drift",
    "drift-served": "drift:served",
}
"""Tidy frame -> key, or beginning of the keys, of the tables that show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The tables that were asked for."""

    tables: tuple[Table, ...]
    everything: bool
    """Whether that is all of them, so that nothing is left out of the tidy data either."""

    @property
    def correlations(self) -> bool:
        """Whether a table of correlations is among them."""
        return self.everything or any(_base(table.key) in _CORRELATIONS for table in self.tables)

    def scores(self, found: pl.DataFrame) -> pl.DataFrame:
        """Return those rows of tidy scores, or of their intervals, that the tables show."""
        if self.everything:
            return found
        shown = {cell.score for table in self.tables for row in table.rows for cell in row.cells if cell.score}
        keys = pl.DataFrame(sorted(shown, key=repr), schema=dict.fromkeys(ScoreKey._fields, pl.String), orient="row")
        return found.join(keys, on=list(ScoreKey._fields), how="semi", nulls_equal=True, maintain_order="left")

    def rankings(self, found: Sequence[Ranking]) -> list[Ranking]:
        """Return the rankings that the tables are of."""
        keys = {table.key for table in self.tables}
        return [
            ranking
            for ranking in found
            if self.correlations or {f"ranks:{ranking.dataset}", f"differences:{ranking.dataset}"} & keys
        ]

    def frames(self, found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tidy frames, by name, that the tables show; of some, the rows of their data sets."""
        if self.everything:
            return found
        kept = {}
        for name, frame in found.items():
            keys = [table.key for table in self.tables if _BEHIND.get(name) in (table.key, _base(table.key))]
            if name in ("scores", "intervals"):
                kept[name] = self.scores(frame)
            elif keys:
                datasets = [key.partition(":")[2] for key in keys]
                by_set = _BEHIND[name] in ("differences", "trend")
                kept[name] = frame.filter(pl.col("dataset").is_in(datasets)) if by_set else frame
        return kept


def keep(tables: Sequence[Table], wanted: Sequence[str] | None) -> Kept:
    """Keep some tables.

    Args:
        tables: All.
        wanted: Keys (``3`` keeps ``3:mine`` as well), in upper or lower case; None for all.

    Raises:
        ConfigError: There is no such table.
    """
    if wanted is None:
        return Kept(tables=tuple(tables), everything=True)
    keys = {table.key.casefold(): table.key for table in tables}
    keys |= {_base(table.key).casefold(): _base(table.key) for table in tables}
    names = chosen([keys.get(name.casefold(), name) for name in wanted], sorted(set(keys.values())), "table")
    return Kept(tables=tuple(table for table in tables if {table.key, _base(table.key)} & names), everything=False)


def _base(key: str) -> str:
    return key.partition(":")[0]
