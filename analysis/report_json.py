"""The JSON document of ``hatevolution score --json``: full precision, rates as fractions, null with a reason."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from hatevolution.analysis.against import Changes
    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.drift import Drift
    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.report import Report
    from hatevolution.analysis.robust import Robust
    from hatevolution.analysis.statistics import Statistics
    from hatevolution.analysis.study import ModelInfo
    from hatevolution.analysis.tables import Table

__all__ = ["as_json"]


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values."""
    asked, kept = report.study.parser, report.kept
    intervals = report.statistics is not None
    found: dict[str, Any] = {
        "store": report.study.source,
        "parser": report.study.parser_name,
        "parser_version": None if asked is None else asked.version,
        "invalid": report.invalid,
        "models": [_model(model) for model in report.study.models],
        "scores": [_score(row, intervals) for row in kept.scores(report.scores).iter_rows(named=True)],
        "rankings": [_ranking(ranking) for ranking in kept.rankings(report.rankings)],
    }
    if not kept.everything:
        found["tables"] = [_table(table) for table in report.tables]
    found["correlations"] = _correlations(report)
    frames = report.frames
    if report.statistics is not None:
        found |= _statistics(report.statistics, frames)
    if report.drift is not None:
        found["drift"] = _drift(report.drift)
    if report.changes is not None:
        found["against"] = _against(report.changes, frames)
    return found


def _model(model: ModelInfo) -> dict[str, Any]:
    return {
        "model": model.name,
        "title": model.title,
        "parser": model.policy.name,
        "parser_version": model.policy.version,
        "composite": model.composite,
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "name": ranking.name,
        "dataset": ranking.dataset,
        "measure": ranking.measure,
        "order": list(ranking.order),
        "constant": list(ranking.constant),
        "unranked": dict(ranking.unranked or {}),
    }


def _correlations(report: Report) -> list[dict[str, Any]]:
    if not report.kept.correlations:
        return []
    more = report.statistics
    robust: tuple[Robust | None, ...] = (None,) * len(report.correlations) if more is None else more.robust
    return [_correlation(*pair) for pair in zip(report.correlations, robust, strict=True)]


def _statistics(more: Statistics, frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
    bootstrap = {
        "seed": more.samples.seed,
        "resamples": more.samples.resamples,
        "confidence": more.confidence,
        "method": "percentile",
    }
    names = [name for name in more.frames if name != "intervals" and name in frames]  # intervals stand with the scores
    return {"bootstrap": bootstrap, **{name.replace("-", "_"): frames[name].to_dicts() for name in names}}


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "old": drift.old.name,
        "new": drift.new.name,
        "seed": drift.seed,
        "resamples": drift.resamples,
        "confidence": drift.confidence,
        "notes": drift.notes(),
        "asked_differently": list(drift.asked_differently),
        "labels": drift.labels.to_dicts(),
        "metrics": [_moved(row) for row in drift.metrics.iter_rows(named=True)],
        "served": drift.served.to_dicts(),
    }


def _against(changes: Changes, frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
    found: dict[str, Any] = {"parser": changes.after}
    if "changed-rows" in frames:
        found["rows"] = frames["changed-rows"].to_dicts()
    if "changed-metrics" in frames:
        found["metrics"] = [_changed(row) for row in frames["changed-metrics"].iter_rows(named=True)]
    if "changed-ranks" in frames:
        found["ranks"] = frames["changed-ranks"].to_dicts()
    return found


def _table(table: Table) -> dict[str, Any]:
    cells = table.frame().drop("table").to_dicts()
    return {"table": table.key, "title": table.title, "notes": list(table.notes), "cells": cells}


def _group(row: dict[str, Any]) -> dict[str, Any] | None:
    key, group = row.pop("group_key"), row.pop("group")
    return None if key is None else {key: int(group) if key == "year" else group}


def _score(row: dict[str, Any], with_interval: bool) -> dict[str, Any]:
    group = _group(row)
    found = {name: row[name] for name in ("model", "dataset", "metric")} | {"group": group, "value": row["value"]}
    if row["reason"] is not None:
        found["reason"] = row["reason"]
    if with_interval:
        found |= {"low": row["low"], "high": row["high"]}
    return found | {name: row[name] for name in ("n", "scored", "invalid", "refused", "rejected", "missing")}


def _changed(row: dict[str, Any]) -> dict[str, Any]:
    group = _group(row)
    return {name: row[name] for name in ("model", "dataset", "metric")} | {
        "group": group,
        "before": row["before"],
        "after": row["after"],
    }


def _moved(row: dict[str, Any]) -> dict[str, Any]:
    group = _group(row)
    return {"dataset": row.pop("dataset"), "metric": row.pop("metric"), "group": group, **row}


def _correlation(item: Correlation, more: Robust | None) -> dict[str, Any]:
    found = asdict(item)
    if found["reason"] is None:
        del found["reason"]
    return found if more is None else found | asdict(more)
