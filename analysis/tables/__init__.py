"""The study's tables, from any store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.analysis.correlation import every_pair
from hatevolution.analysis.rankings import rankings
from hatevolution.analysis.tables.context import context
from hatevolution.analysis.tables.correlations import correlation_tables
from hatevolution.analysis.tables.experiments import pair_tables, year_tables
from hatevolution.analysis.tables.static import dataset_table, group_tables, static_key, static_table
from hatevolution.analysis.tables.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.study import Study

__all__ = ["Cell", "Column", "Row", "Table", "study_tables"]

_FIRST: Final = ("3", "4", "A7", "A8", "A9", "A10", "static")
"""What a reader wants to see first; the others follow in the study's order."""
_THEN: Final = ("2", "5", "A1", "A2", "A3", "A4", "A5", "A6", "A11", "A12", "A13")


def study_tables(
    study: Study,
    scores: pl.DataFrame,
    invalid: InvalidPolicy = "drop",
    *,
    ranked: Sequence[Ranking] | None = None,
    correlations: Sequence[Correlation] | None = None,
) -> list[Table]:
    """Return every table that the sets of a study allow.

    The first set with years gives Tables 3 and A1, the first one of pairs 4 and A2 to A6; a further set's tables carry
    its name (``3:mine``). Static sets that the study has not got give ``static:NAME``.

    Args:
        study: The answers.
        scores: Tidy, of :func:`hatevolution.analysis.scores.scores`.
        invalid: The policy that they were made with.
        ranked: The rankings, where they are at hand.
        correlations: Of the rankings, where they are at hand.
    """
    view = context(study, scores, invalid)
    found = [dataset_table(view)]
    seen: set[str] = set()
    for item in study.datasets:
        suffix = f":{item.name}" if item.kind in seen else ""
        seen.add(item.kind)
        if item.kind == "years":
            found += year_tables(view, item, suffix)
        elif item.kind == "pairs":
            found += pair_tables(view, item, suffix)
        else:
            found.append(static_table(view, item, static_key(item, {table.key for table in found})))
        found += group_tables(view, item)
    ranked = rankings(study, scores) if ranked is None else ranked
    titles = {model.name: model.title for model in study.models}
    found += correlation_tables(ranked, every_pair(ranked) if correlations is None else correlations, titles)
    return sorted(found, key=_place)


def _place(table: Table) -> tuple[int, int]:
    base = table.key.partition(":")[0]
    for part, keys in enumerate((_FIRST, _THEN)):
        if base in keys:
            return part, keys.index(base)
    return 2, 0
