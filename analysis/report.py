"""What ``hatevolution score`` shows, writes and prints as JSON, in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hatevolution.analysis.against import Changes, changes
from hatevolution.analysis.correlation import Correlation, every_pair
from hatevolution.analysis.drift import Drift, drift
from hatevolution.analysis.frames import load
from hatevolution.analysis.intervals import DEFAULT_CONFIDENCE, with_intervals
from hatevolution.analysis.kept import Kept, keep
from hatevolution.analysis.metrics import INVALID_POLICIES, InvalidPolicy
from hatevolution.analysis.rankings import ConstantRule, Ranking, rankings
from hatevolution.analysis.render.files import FileFormat, write_frame, write_table
from hatevolution.analysis.report_json import as_json
from hatevolution.analysis.resample import DEFAULT_RESAMPLES
from hatevolution.analysis.scores import scores
from hatevolution.analysis.statistics import Statistics, statistics
from hatevolution.analysis.tables import Table, study_tables
from hatevolution.analysis.tables.beyond import beyond_tables
from hatevolution.analysis.tables.drift import drift_tables
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
    """Tidy; with ``low`` and ``high`` where intervals were asked for."""
    rankings: tuple[Ranking, ...]
    correlations: tuple[Correlation, ...]
    kept: Kept
    """The tables, all or those that were asked for."""
    statistics: Statistics | None = None
    """None where no intervals were asked for."""
    changes: Changes | None = None
    """None where no second policy was asked for."""
    drift: Drift | None = None
    """None where no two names were to be compared."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, all or those that were asked for."""
        return self.kept.tables

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """Name -> tidy frame, of everything that there is, or of what the tables show that were asked for."""
        found = {"scores": self.scores}
        if self.statistics is not None:
            found |= self.statistics.frames
        if self.changes is not None:
            found |= {"changed-rows": self.changes.rows, "changed-metrics": self.changes.metrics}
            found["changed-ranks"] = self.changes.ranks
        if self.drift is not None:
            found |= self.drift.frames
        return self.kept.frames(found)

    def warnings(self) -> list[str]:
        """Return what speaks against what was asked for, one sentence each."""
        return [] if self.drift is None else self.drift.warnings()

    def header(self) -> list[str]:
        """Return the lines that a reader wants to know before all tables."""
        verdict = None if self.drift is None else self.drift.verdict()
        return [] if verdict is None else [verdict]

    def footer(self) -> list[str]:
        """Return the lines that say how answers were read and counted."""
        lines = [f"Answers read by {self.study.parser_name}:"]
        by_rule: dict[str, list[str]] = {}
        for model in self.study.models:
            by_rule.setdefault(f"{model.policy.identity}, {model.policy.summary}", []).append(model.title)
        lines += [f"  {rule}: {', '.join(found)}" for rule, found in by_rule.items()]
        asked = self.study.parser
        kept = [] if asked is None else [model.title for model in self.study.models if model.policy != asked]
        if asked is not None and kept:
            lines.append(f"  {asked.name} reads {_what(asked.reads)}, so that {', '.join(kept)} kept their own rule.")
        lines.append(f"An invalid answer counts as ({self.invalid}): {INVALID_POLICIES[self.invalid]}.")
        if self.statistics is not None:
            samples = self.statistics.samples
            lines.append(
                "[low, high]: percentile bootstrap over sentences (over pairs in a paired set, within years where "
                f"there are some), {100 * self.statistics.confidence:g} %, {samples.resamples} resamples, "
                f"seed {samples.seed}."
            )
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
    against: str | None = None,
    resamples: int | None = None,
    seed: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    constants: ConstantRule = "last",
    drift_of: tuple[str, str] | None = None,
) -> Report:
    """Score a store.

    Args:
        store: Its path.
        parser: Name or TOML path of a parse policy.
        invalid: What an invalid answer counts as (``INVALID_POLICIES``).
        models: Only these; None for all.
        datasets: Only these; None for all.
        tables: Keys of the tables to keep (``3`` keeps ``3:mine`` as well), and with them the data that they show;
            None for all.
        against: A second parse policy, to say what it changes; its tables are kept whatever ``tables`` says, unless
            that names some of them.
        resamples: For intervals, ranks, tests and trends; None for scores alone.
        seed: Of the resamples.
        confidence: Of the intervals of scores, between 0 and 1.
        constants: What becomes of constant predictors in rankings by flips.
        drift_of: Names of the older and the newer model whose drift is asked for: everything is of these two then,
            and the tables of the drift are kept where ``tables`` says nothing else.

    Raises:
        StoreError: The store can't be read.
        ConfigError: A name is not known, or there are no intervals for what was asked.
    """
    policy = _invalid_policy(invalid, resampled=resamples is not None or drift_of is not None)
    if drift_of is not None:
        if drift_of[0] == drift_of[1]:
            raise ConfigError(f"The drift is asked for between {drift_of[0]} and itself; give two names.")
        models, tables = drift_of, tables or ("drift",)
    study = load(store, parser=parser, models=models, datasets=datasets)
    found = scores(study, policy)
    ranked = rankings(study, found, constants)
    correlations = every_pair(ranked)
    more = other = moved = None
    if resamples is not None:
        more = statistics(
            study, found, ranked, correlations, seed=seed, resamples=resamples, confidence=confidence, invalid=policy
        )
        found = with_intervals(found, more.intervals)
    if against is not None:
        other = changes(study, load(store, parser=against, models=models, datasets=datasets), policy)
        if tables is not None and not any(key.casefold().partition(":")[0] == "against" for key in tables):
            tables = (*tables, "against")
    if drift_of is not None:
        drawn = resamples or DEFAULT_RESAMPLES
        moved = drift(study, *drift_of, invalid=policy, seed=seed, resamples=drawn, confidence=confidence)
    made = [
        *(drift_tables(moved) if moved is not None else ()),
        *study_tables(study, found, policy, ranked=ranked, correlations=correlations),
        *(beyond_tables(study, ranked, correlations, more) if more is not None else ()),
        *(other.tables() if other is not None else ()),
    ]
    return Report(
        study=study,
        invalid=policy,
        scores=found,
        rankings=tuple(ranked),
        correlations=tuple(correlations),
        kept=keep(made, tables),
        statistics=more,
        changes=other,
        drift=moved,
    )


def _invalid_policy(name: str, *, resampled: bool) -> InvalidPolicy:
    if name not in INVALID_POLICIES:
        raise ConfigError(f"There is no policy {name!r} for invalid answers; known: {', '.join(INVALID_POLICIES)}.")
    if name == "raw" and resampled:
        raise ConfigError("Intervals can't be had with --invalid raw, whose classes change from resample to resample.")
    return cast("InvalidPolicy", name)


def write(report: Report, folder: Path, form: str) -> list[Path]:
    """Write all tables, and the tidy frames behind them, into a folder (made if need be) and return the files.

    Raises:
        ConfigError: The folder can't be written to.
    """
    kind = cast("FileFormat", form)
    ending = "parquet" if form == "parquet" else "csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [path for table in report.tables for path in write_table(table, folder, kind)]
        written += [write_frame(frame, folder / f"{name}.{ending}") for name, frame in report.frames.items()]
    except OSError as error:
        raise ConfigError(f"The tables can't be written to {folder}: {error.strerror}.") from None
    return written
