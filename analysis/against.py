"""What another parse policy changes: which rows, which metrics, which ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from hatevolution.analysis.metrics import METRIC_TITLES
from hatevolution.analysis.rankings import rankings
from hatevolution.analysis.scores import scores
from hatevolution.analysis.tables.table import Column, Format, Row, Table, text_cell, value_cell
from hatevolution.store.reader import connect
from hatevolution.store.text import decode, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import Study

__all__ = ["CHANGED_ROWS", "Changes", "changes"]

CHANGED_ROWS: Final = {
    "model": pl.String,
    "dataset": pl.String,
    "sentence": pl.String,
    "before": pl.String,  # outcome under --parser
    "after": pl.String,  # outcome under --against
    "raw_text": pl.String,
}

_SHOWN: Final = {
    "macro_f1": "f1",
    "time_sensitive_macro_f1": "f1",
    "expected_output": "percent",
    "label_flip": "percent",
    "hallucination": "percent",
}
_EXAMPLE: Final = 60
"""Characters of an example that a table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """From one policy to another, on the same rows."""

    before: str
    """Name of the policy under ``--parser``."""
    after: str
    rows: pl.DataFrame
    """Columns ``CHANGED_ROWS``: every answer that comes to something else."""
    metrics: pl.DataFrame
    """Columns model, dataset, metric, group_key, group, before, after: every score that changes."""
    ranks: pl.DataFrame
    """Columns ranking, model, before, after: every rank that changes (1 is the best; ties share the better one)."""
    models: Mapping[str, str]
    """Name -> title; tables are for people and have titles, frames have names."""
    datasets: Mapping[str, str]

    def tables(self) -> list[Table]:
        """Return the three tables: answers (by kind of change, with an example), metrics of whole sets, ranks."""
        return [self._row_table(), self._metric_table(), self._rank_table()]

    def _model(self, name: str) -> str:
        return self.models.get(name, name)  # a composite's name is its title

    def _row_table(self) -> Table:
        kinds = self.rows.group_by("model", "dataset", "before", "after", maintain_order=True).agg(
            pl.len().alias("count"), pl.col("raw_text").first().str.slice(0, _EXAMPLE).alias("example")
        )
        return Table(
            key="against:rows",
            title=f"Answers that {self.after} reads otherwise than {self.before}: {self.rows.height}",
            corner="Model",
            columns=tuple(
                Column(name=name, words=name != "Answers")
                for name in ("Data set", self.before, self.after, "Answers", "Such as")
            ),
            rows=tuple(
                Row(
                    name=self._model(model),
                    cells=(
                        *map(text_cell, (self.datasets[dataset], before, after)),
                        value_cell(float(count), "number"),
                        text_cell(repr(example)),
                    ),
                )
                for model, dataset, before, after, count, example in kinds.iter_rows()
            ),
            notes=() if self.rows.height else ("No answer is read otherwise.",),
        )

    def _metric_table(self) -> Table:
        whole = self.metrics.filter(pl.col("group_key").is_null() & pl.col("metric").is_in(list(_SHOWN)))
        return Table(
            key="against:metrics",
            title="Metrics of whole sets that change",
            corner="Model",
            columns=tuple(
                Column(name=name, words=number < 2)
                for number, name in enumerate(("Data set", "Metric", self.before, self.after, "Change"))
            ),
            rows=tuple(
                Row(
                    name=self._model(row["model"]),
                    cells=(
                        text_cell(self.datasets[row["dataset"]]),
                        text_cell(METRIC_TITLES[row["metric"]]),
                        *(
                            value_cell(value, _form(row["metric"]))
                            for value in (row["before"], row["after"], _gap(row["before"], row["after"]))
                        ),
                    ),
                )
                for row in whole.iter_rows(named=True)
            ),
            notes=() if whole.height else ("No metric of a whole set changes.",),
        )

    def _rank_table(self) -> Table:
        return Table(
            key="against:ranks",
            title="Ranks that change",
            corner="Ranking",
            columns=tuple(
                Column(name=name, words=number == 0) for number, name in enumerate(("Model", self.before, self.after))
            ),
            rows=tuple(
                Row(
                    name=ranking,
                    cells=(text_cell(self._model(model)), text_cell(_rank(before)), text_cell(_rank(after))),
                )
                for ranking, model, before, after in self.ranks.iter_rows()
            ),
            notes=() if self.ranks.height else ("No rank changes.",),
        )


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


def _form(metric: str) -> Format:
    return "f1" if _SHOWN[metric] == "f1" else "percent"


def _gap(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def changes(before: Study, after: Study, invalid: InvalidPolicy = "drop") -> Changes:
    """Compare two readings of one store.

    Args:
        before: By one policy.
        after: By another, of the same models and sets.
        invalid: What an invalid answer counts as.
    """
    scored = [scores(study, invalid) for study in (before, after)]
    keys = ["model", "dataset", "metric", "group_key", "group"]
    both = scored[0].select(*keys, pl.col("value").alias("before")).with_columns(after=scored[1]["value"])
    ranked = [_ranks(study, found) for study, found in zip((before, after), scored, strict=True)]
    ranks = ranked[0].join(ranked[1], on=["ranking", "model"], how="full", coalesce=True, maintain_order="left_right")
    return Changes(
        before=before.parser_name,
        after=after.parser_name,
        rows=_rows(before, after),
        models={model.name: model.title for model in before.models},
        datasets={item.name: item.title for item in before.datasets},
        metrics=both.filter(pl.col("before").ne_missing(pl.col("after"))),
        ranks=ranks.select("ranking", "model", before="rank", after="rank_right").filter(
            pl.col("before").ne_missing(pl.col("after"))
        ),
    )


def _rows(before: Study, after: Study) -> pl.DataFrame:
    pair = before.answers.select("dataset", "model", "position", pl.col("outcome").alias("before")).with_columns(
        after=after.answers["outcome"]
    )
    changed = pair.filter(pl.col("before") != pl.col("after")).join(
        before.sentences.select("dataset", "position", "sentence"), on=["dataset", "position"], maintain_order="left"
    )
    texts = []
    connection = connect(before.source)
    try:
        for key in changed.select("model", "dataset", "sentence").iter_rows():
            row = connection.execute(
                "SELECT raw_text FROM predictions WHERE model = ? AND dataset = ? AND sentence = ?", key
            ).fetchone()
            texts.append(None if row is None or row[0] is None else visible(decode(row[0])))
    finally:
        connection.close()
    return changed.select(
        pl.col("model", "dataset").cast(pl.String), "sentence", pl.col("before", "after").cast(pl.String)
    ).with_columns(pl.Series("raw_text", texts, dtype=pl.String))


def _ranks(study: Study, found: pl.DataFrame) -> pl.DataFrame:
    frames = [pl.DataFrame(schema={"ranking": pl.String, "model": pl.String, "rank": pl.Int64})]
    for ranking in rankings(study, found):
        own = pl.DataFrame(
            {"model": list(ranking.goodness), "goodness": list(ranking.goodness.values())},
            schema={"model": pl.String, "goodness": pl.Float64},
        )
        frames.append(
            own.select(
                pl.lit(ranking.name).alias("ranking"),
                "model",
                pl.col("goodness").rank("min", descending=True).cast(pl.Int64).alias("rank"),
            )
        )
    return pl.concat(frames)
