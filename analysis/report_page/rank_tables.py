"""Tables about rankings that the study has not got: ranks with their intervals, correlations with all of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.analysis.report_page.intervals import CONFIDENCE
from hatevolution.analysis.report_page.tables import Heading, PageCell, PageTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.analysis.correlation import Correlation, Interval
    from hatevolution.analysis.report_page.content import Content
    from hatevolution.analysis.robust import Robust

__all__ = ["correlation_table", "rank_table"]


def rank_table(content: Content) -> PageTable | None:
    """Return each model's rank in each ranking with its interval; None without a bootstrap."""
    found = [
        {row["model"]: row for row in frame.iter_rows(named=True)} for frame in content.uncertainty.ranks
    ]  # fmt: skip
    models = [model for model in content.report.study.single_models if any(model.name in ranks for ranks in found)]
    if not models:
        return None
    rows = []
    for model in models:
        cells = []
        for ranks in found:
            row = ranks.get(model.name)
            if row is None:
                cells.append(PageCell("–"))
            else:
                cells.append(PageCell(f"{row['rank']:.0f}", row["rank"], f"{row['low']:.0f} to {row['high']:.0f}"))
        rows.append((model.title, tuple(cells)))
    return PageTable(
        id="table-ranks",
        caption=f"Ranks, and their {100 * CONFIDENCE:.0f} % intervals",
        corner="Model",
        over=(),
        headings=tuple(
            Heading(ranking.name, len(ranks) or None, number=True)
            for ranking, ranks in zip(content.report.rankings, found, strict=True)
        ),
        rows=tuple(rows),
        notes=(
            "1 is the best; equal models share the better rank. Intervals: sentences (pairs) drawn anew "
            f"{content.options.resamples:,} times, all models on the same ones. n is the number of ranked models.",
        ),
    )


def correlation_table(content: Content) -> PageTable | None:
    """Return every correlation with every interval and p-value there is; None where there is no correlation."""
    items = content.report.correlations
    if not items:
        return None
    known = {(item.x, item.y): item for item in content.uncertainty.correlations}
    names = ("n", "Spearman", "Kendall", "Fisher", "Bonett and Wright")
    drawn = ("Sentences drawn anew", "Models drawn anew", "p, permuted", "p, Holm", "q, Benjamini and Hochberg")
    rows = [
        (f"{item.x} and {item.y}", (*_computed(item), *(_drawn(known[item.x, item.y]) if known else ())))
        for item in items
    ]  # fmt: skip
    return PageTable(
        id="table-correlations",
        caption="Every two rankings",
        corner="Rankings",
        over=(),
        headings=tuple(Heading(name, None, number=True) for name in (*names, *(drawn if known else ()))),
        rows=tuple(rows),
        notes=(
            f"Intervals at {100 * items[0].confidence:.0f} %. Drawing sentences anew tells how much of a coefficient "
            "is noise of the rankings, drawing models anew whether other models would agree as much.",
        ),
    )


def _computed(item: Correlation) -> Sequence[PageCell]:
    return (
        PageCell(str(item.n), float(item.n)),
        _number(item.spearman),
        _number(item.kendall),
        _interval(item.fisher),
        _interval(item.bonett_wright),
    )


def _drawn(item: Robust) -> Sequence[PageCell]:
    return (
        _interval(item.over_sentences),
        _interval(item.over_models),
        *(_number(value) for value in (item.p_permutation, item.p_holm, item.q_benjamini_hochberg)),
    )


def _number(value: float | None) -> PageCell:
    return PageCell("–") if value is None else PageCell(f"{value:.4f}", value)


def _interval(value: Interval | None) -> PageCell:
    return PageCell("–") if value is None else PageCell(f"{value.low:.3f} to {value.high:.3f}", value.low)
