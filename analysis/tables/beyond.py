"""Tables that the study has not got: how sure its numbers, ranks, correlations and trends are."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from hatevolution.analysis.tables.table import Cell, Column, Row, Table, slope_text, text_cell, value_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hatevolution.analysis.correlation import Correlation, Interval
    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.statistics import Statistics
    from hatevolution.analysis.study import Study
    from hatevolution.analysis.tables.table import Format

__all__ = ["beyond_tables"]


def beyond_tables(
    study: Study, rankings: Sequence[Ranking], correlations: Sequence[Correlation], found: Statistics
) -> list[Table]:
    """Return the tables of correlations, ranks, neighbours, trends and agreement."""
    titles = {model.name: model.title for model in study.models}
    tables = [_correlations(correlations, found)] if correlations else []
    for ranking in rankings:
        tables.append(_ranks(ranking, found, titles))
        neighbours = _neighbours(ranking, found, titles)
        tables += [neighbours] if neighbours.rows else []
    tables += [_trend(study, name, found, titles) for name in found.trends["dataset"].unique(maintain_order=True)]
    return [*tables, _agreement(study, found)]


def _column(name: str) -> Column:
    return Column(name=name)


def _settings(found: Statistics) -> str:
    return f"{found.samples.resamples} resamples, seed {found.samples.seed}."


def _bounds(interval: Interval | tuple[Any, Any] | None, form: str = "{:.3f}") -> Cell:
    if interval is None or interval[0] is None:
        return text_cell("-")
    return text_cell(f"({form.format(interval[0])}, {form.format(interval[1])})")


def _slopes(low: float | None, high: float | None) -> Cell:
    return text_cell("-" if low is None or high is None else f"({slope_text(low)}, {slope_text(high)})")


def _correlations(correlations: Sequence[Correlation], found: Statistics) -> Table:
    rows = []
    for item, more in zip(correlations, found.robust, strict=True):
        rows.append(
            Row(
                name=f"{item.x} / {item.y}",
                cells=(
                    value_cell(float(item.n), "number"),
                    value_cell(item.spearman, "coefficient", reason=item.reason),
                    _bounds(item.fisher),
                    _bounds(item.bonett_wright),
                    _bounds(more.over_models),
                    _bounds(more.over_sentences),
                    value_cell(item.kendall, "coefficient", reason=item.reason),
                    *(
                        value_cell(p, "p_value", reason=item.reason)
                        for p in (item.p_value, more.p_permutation, more.p_holm, more.q_benjamini_hochberg)
                    ),
                ),
            )
        )
    names = (
        "n", "rho", "Fisher", "Bonett-Wright", "over models", "over sentences", "tau-b", "p (t)", "p (perm.)",
        "p (Holm)", "q (B-H)",
    )  # fmt: skip
    return Table(
        key="correlations",
        title="Rank correlations: Spearman's rho with four intervals, Kendall's tau-b, p-values",
        corner="Rankings",
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(rows),
        notes=(
            f"Intervals at {100 * correlations[0].confidence:.0f} %. {_settings(found)} Over models: other models. "
            "Over sentences: the rankings' own noise. Holm and B-H adjust the permutation p-values for their number.",
        ),
    )


def _ranks(ranking: Ranking, found: Statistics, titles: Mapping[str, str]) -> Table:
    summary = found.rank_summaries[ranking.name]
    return Table(
        key=f"ranks:{ranking.dataset}",
        title=f"{ranking.name}: how sure each rank is",
        corner="Model",
        columns=tuple(Column(name=name) for name in ("Rank", "Interval", "Mean rank", "P(first)")),
        rows=tuple(
            Row(
                name=titles[row["model"]],
                cells=(
                    value_cell(row["rank"], "number"),
                    _bounds((row["low"], row["high"]), "{:.0f}"),
                    text_cell(f"{row['mean']:.1f}"),
                    text_cell(f"{row['first']:.3f}"),
                ),
            )
            for row in summary.iter_rows(named=True)
        ),
        notes=(f"Intervals at {100 * found.confidence:.0f} %. {_settings(found)}",),
    )


def _neighbours(ranking: Ranking, found: Statistics, titles: Mapping[str, str]) -> Table:
    """Compare each model with the next one of the ranking; all pairs are in the frame ``differences``."""
    order = ranking.order
    own = found.differences.filter(
        (found.differences["dataset"] == ranking.dataset) & (found.differences["metric"] == ranking.measure)
    )
    known = {frozenset((row["a"], row["b"])): row for row in own.iter_rows(named=True)}
    form: Format = "percent" if ranking.measure == "label_flip" else "f1"
    rows = []
    for better, worse in pairwise(order):
        row = known.get(frozenset((better, worse)))
        if row is None:
            continue
        sign = 1 if row["a"] == better else -1
        bounds = sorted((sign * row["low"], sign * row["high"])) if row["low"] is not None else (None, None)
        rows.append(
            Row(
                name=f"{titles[better]} - {titles[worse]}",
                cells=(
                    value_cell(sign * row["difference"], form, interval=(bounds[0], bounds[1])),
                    value_cell(row["p_bootstrap"], "p_value"),
                    text_cell(
                        f"{row['only_a']} : {row['only_b']}" if sign == 1 else f"{row['only_b']} : {row['only_a']}"
                    ),
                    value_cell(row["p_mcnemar"], "p_value"),
                    value_cell(row["p_mcnemar_holm"], "p_value"),
                ),
            )
        )
    what = "pairs that flip in one alone" if form == "percent" else "sentences that one alone gets right"
    return Table(
        key=f"differences:{ranking.dataset}",
        title=f"{ranking.name}: neighbours in the ranking, by {ranking.measure.replace('_', ' ')}",
        corner="Models",
        columns=tuple(
            Column(name=name) for name in ("Difference", "p (bootstrap)", "Only one", "p (McNemar)", "p (Holm)")
        ),
        rows=tuple(rows),
        notes=(
            f"Only one: {what}. Intervals at {100 * found.confidence:.0f} %. {_settings(found)} "
            "Holm's adjustment is for all pairs of models of this ranking.",
        ),
    )


def _trend(study: Study, dataset: str, found: Statistics, titles: Mapping[str, str]) -> Table:
    own = found.trends.filter(found.trends["dataset"] == dataset)
    members = {model.name for model in study.models if model.composite}
    rows: dict[str, list[Cell]] = {}
    for row in own.iter_rows(named=True):
        if row["metric"] in ("macro_f1", "balanced_accuracy") and row["model"] not in members:
            rows.setdefault(row["model"], []).extend(
                (
                    value_cell(row["slope"], "slope", reason="fewer than 3 years with a value"),
                    _slopes(row["low"], row["high"]),
                    _slopes(row["bootstrap_low"], row["bootstrap_high"]),
                    value_cell(row["p_value"], "p_value", reason="fewer than 3 years with a value"),
                )
            )
    rates = found.base_rates.filter(found.base_rates["dataset"] == dataset)
    shares = ", ".join(f"{row['year']}: {100 * row['share']:.1f} %" for row in rates.iter_rows(named=True))
    slope = own["base_rate_slope"][0]
    names = ("slope", "interval (t)", "interval (bootstrap)", "p")
    return Table(
        key=f"trend:{dataset}",
        title=f"{study.dataset(dataset).title}: change per year",
        corner="Model",
        columns=tuple(Column(name=name, over=over) for over in ("Macro F1", "Balanced accuracy") for name in names),
        rows=tuple(Row(name=titles.get(name, name), cells=tuple(cells)) for name, cells in rows.items()),
        notes=(
            f"Share of hateful texts: {shares}"
            + ("." if slope is None else f"; it changes by {slope:.4f} per year.")
            + " F1 moves with that share, balanced accuracy does not.",
            f"Intervals at {100 * found.confidence:.0f} %. {_settings(found)}",
        ),
    )


def _agreement(study: Study, found: Statistics) -> Table:
    means = found.kappas.group_by("dataset").agg(pl.col("kappa").mean())
    kappa = dict(zip(means["dataset"], means["kappa"], strict=True))
    return Table(
        key="agreement",
        title="Agreement of the models with each other",
        corner="Data set",
        columns=tuple(Column(name=name) for name in ("Krippendorff's alpha", "Mean Cohen's kappa", "Sentences")),
        rows=tuple(
            Row(
                name=study.dataset(row["dataset"]).title,
                cells=(
                    value_cell(row["alpha"], "coefficient", reason="no two answers, or but one label"),
                    value_cell(kappa.get(row["dataset"]), "coefficient", reason="no two models with a defined kappa"),
                    value_cell(float(row["sentences"]), "number"),
                ),
            )
            for row in found.alphas.iter_rows(named=True)
        ),
        notes=(
            "Sentences: those with two valid answers or more. "
            "With --out, every two models' kappa is in the file kappas.",
        ),
    )
