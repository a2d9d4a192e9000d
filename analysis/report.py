"""What ``hatevolution score`` shows, writes and prints as JSON, in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hatevolution.analysis.choose import chosen
from hatevolution.analysis.correlation import Correlation, every_pair
from hatevolution.analysis.frames import load
from hatevolution.analysis.metrics import INVALID_POLICIES, InvalidPolicy
from hatevolution.analysis.rankings import Ranking, rankings
from hatevolution.analysis.render.files import FileFormat, write_frame, write_table
from hatevolution.analysis.scores import scores
from hatevolution.analysis.tables import Table, study_tables
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from hatevolution.analysis.study import Study

__all__ = ["Report", "as_json", "make", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A store, scored."""

    study: Study
    invalid: InvalidPolicy
    scores: pl.DataFrame
    rankings: tuple[Ranking, ...]
    correlations: tuple[Correlation, ...]
    tables: tuple[Table, ...]

    def footer(self) -> list[str]:
        """Return the lines that say how answers were read and counted."""
        lines = [f"Answers read by {self.study.parser_name}:"]
        by_rule: dict[str, list[str]] = {}
        for model in self.study.models:
            by_rule.setdefault(f"{model.policy.identity}, {model.policy.summary}", []).append(model.name)
        lines += [f"  {rule}: {', '.join(found)}" for rule, found in by_rule.items()]
        asked = self.study.parser
        kept = [] if asked is None else [model.name for model in self.study.models if model.policy != asked]
        if asked is not None and kept:
            lines.append(f"  {asked.name} reads {_what(asked.reads)}, so that {', '.join(kept)} kept their own rule.")
        lines.append(f"An invalid answer counts as ({self.invalid}): {INVALID_POLICIES[self.invalid]}.")
        return lines


def _what(reads: str) -> str:
    return "answers in free text" if reads == "text" else "scores"


def make(
    store: Path | str,
    *,
    parser: str = "paper",
    invalid: str = "drop",
    models: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tables: Sequence[str] | None = None,
) -> Report:
    """Score a store.

    Args:
        store: Its path.
        parser: Name or TOML path of a parse policy.
        invalid: What an invalid answer counts as (``INVALID_POLICIES``).
        models: Only these; None for all.
        datasets: Only these; None for all.
        tables: Keys of the tables to keep (``3`` keeps ``3:mine`` as well); None for all.

    Raises:
        StoreError: The store can't be read.
        ConfigError: A name is not known.
    """
    if invalid not in INVALID_POLICIES:
        raise ConfigError(f"There is no policy {invalid!r} for invalid answers; known: {', '.join(INVALID_POLICIES)}.")
    policy = cast("InvalidPolicy", invalid)
    study = load(store, parser=parser, models=models, datasets=datasets)
    found = scores(study, policy)
    ranked = rankings(study, found)
    return Report(
        study=study,
        invalid=policy,
        scores=found,
        rankings=tuple(ranked),
        correlations=tuple(every_pair(ranked)),
        tables=tuple(_kept(study_tables(study, found, policy), tables)),
    )


def _kept(tables: list[Table], wanted: Sequence[str] | None) -> list[Table]:
    if wanted is None:
        return tables
    keys = [table.key for table in tables]
    bases = {key.partition(":")[0] for key in keys}
    names = chosen(wanted, sorted({*keys, *bases}), "table")
    return [table for table in tables if {table.key, table.key.partition(":")[0]} & names]


def write(report: Report, folder: Path, form: str) -> list[Path]:
    """Write all tables, and the tidy scores, into a folder (made if need be) and return the files.

    Raises:
        ConfigError: The folder can't be written to.
    """
    kind = cast("FileFormat", form)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [path for table in report.tables for path in write_table(table, folder, kind)]
        ending = "parquet" if form == "parquet" else "csv"
        written.append(write_frame(report.scores, folder / f"scores.{ending}"))
    except OSError as error:
        raise ConfigError(f"The tables can't be written to {folder}: {error.strerror}.") from None
    return written


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain JSON values; numbers in full precision, rates as fractions."""
    asked = report.study.parser
    return {
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
        "scores": [_score(row) for row in report.scores.iter_rows(named=True)],
        "rankings": [
            {
                "name": ranking.name,
                "dataset": ranking.dataset,
                "measure": ranking.measure,
                "order": sorted(ranking.goodness, key=lambda name: -ranking.goodness[name]),
                "constant": list(ranking.constant),
                "unranked": dict(ranking.unranked or {}),
            }
            for ranking in report.rankings
        ],
        "correlations": [_correlation(item) for item in report.correlations],
    }


def _score(row: dict[str, Any]) -> dict[str, Any]:
    key, group = row.pop("group_key"), row.pop("group")
    shown = None if key is None else {key: int(group) if key == "year" else group}
    reason = row.pop("reason")
    found = {name: row[name] for name in ("model", "dataset", "metric")} | {"group": shown, "value": row["value"]}
    if reason is not None:
        found["reason"] = reason
    return found | {name: row[name] for name in ("n", "scored", "invalid", "refused", "rejected", "missing")}


def _correlation(item: Correlation) -> dict[str, Any]:
    found = {
        "x": item.x,
        "y": item.y,
        "n": item.n,
        "spearman": item.spearman,
        "kendall": item.kendall,
        "p_value": item.p_value,
        "confidence": item.confidence,
        "fisher": item.fisher,
        "bonett_wright": item.bonett_wright,
    }
    return found if item.reason is None else found | {"reason": item.reason}
