"""The JSON document of ``hatevolution score --json``: full precision, rates as fractions, null with a reason."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatevolution.analysis.correlation import Correlation
    from hatevolution.analysis.report import Report
    from hatevolution.analysis.robust import Robust
    from hatevolution.analysis.tables import Table

__all__ = ["as_json"]


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values."""
    asked = report.study.parser
    found: dict[str, Any] = {
        "store": report.study.source,
        "parser": report.study.parser_name,
        "parser_version": None if asked is None else asked.version,
        "invalid": report.invalid,
        "models": [
            {
                "model": model.name,
                "title": model.title,
                "parser": model.policy.name,
                "parser_version": model.policy.version,
                "composite": model.composite,
            }
            for model in report.study.models
        ],
        "scores": [
            _score(row, report.statistics is not None)
            for row in report.kept.scores(report.scores).iter_rows(named=True)
        ],
        "rankings": [
            {
                "name": ranking.name,
                "dataset": ranking.dataset,
                "measure": ranking.measure,
                "order": list(ranking.order),
                "constant": list(ranking.constant),
                "unranked": dict(ranking.unranked or {}),
            }
            for ranking in report.kept.rankings(report.rankings)
        ],
    }
    if not report.kept.everything:
        found["tables"] = [_table(table) for table in report.tables]
    more, frames = report.statistics, report.frames
    robust: tuple[Robust | None, ...] = (None,) * len(report.correlations) if more is None else more.robust
    pairs = zip(report.correlations, robust, strict=True) if report.kept.correlations else ()
    found["correlations"] = [_correlation(*pair) for pair in pairs]
    if more is not None:
        found["bootstrap"] = {
            "seed": more.samples.seed,
            "resamples": more.samples.resamples,
            "confidence": more.confidence,
            "method": "percentile",
        }
        found |= {
            name.replace("-", "_"): frames[name].to_dicts()
            for name in more.frames
            if name != "intervals" and name in frames
        }
    if report.drift is not None:
        found["drift"] = report.drift.as_json()
    if report.changes is not None:
        found["against"] = {"parser": report.changes.after}
        if "changed-rows" in frames:
            found["against"]["rows"] = frames["changed-rows"].to_dicts()
        if "changed-metrics" in frames:
            found["against"]["metrics"] = [_changed(row) for row in frames["changed-metrics"].iter_rows(named=True)]
        if "changed-ranks" in frames:
            found["against"]["ranks"] = frames["changed-ranks"].to_dicts()
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


def _correlation(item: Correlation, more: Robust | None) -> dict[str, Any]:
    found = asdict(item)
    if found["reason"] is None:
        del found["reason"]
    return found if more is None else found | asdict(more)
