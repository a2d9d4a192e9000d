"""Store -> frames. One pass over the predictions, in chunks, so that memory does not grow with the store.

The predictions are read by ADBC, which hands SQLite's rows over as Arrow columns: half the time of fetching them as
Python objects, and the reason why all tables together cost little more than one plain read (benchmarks/
analysis_tables.py). A chunk is turned into one byte per row (its outcome) before the next one is read.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from hatevolution.analysis.choose import chosen
from hatevolution.analysis.columns import ANSWERS, GROUP_KEYS, OUTCOME, OUTCOMES, SENTENCES, checked, code
from hatevolution.analysis.parsers import PAPER, policy, policy_of
from hatevolution.analysis.scan import CHUNK_ROWS, chunks
from hatevolution.analysis.study import DatasetInfo, ModelInfo, Study
from hatevolution.analysis.years import study_years
from hatevolution.errors import DataError, StoreError
from hatevolution.store.reader import connect
from hatevolution.store.text import decode, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hatevolution.analysis.parsers import Policy

__all__ = ["load"]

_NOT_ANSWERED: Final = ("refused", "rejected")


def load(
    path: Path | str,
    *,
    parser: str = PAPER,
    models: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Study:
    """Read a store and judge every answer by a parse policy.

    Args:
        path: The store; opened for reading alone.
        parser: Name or TOML path of a policy; ``paper`` for each model's own.
        models: Names of the models to take; None for all.
        datasets: Names of the data sets to take; None for all.
        chunk_rows: Predictions per chunk; bounds the memory.

    Raises:
        StoreError: There is no such store, or it can't be read.
        ConfigError: A name is unknown, or a policy can't be used.
        DataError: A pair of a data set has two sentences of one role.
    """
    asked = None if parser == PAPER else policy(parser)
    connection = connect(path)
    try:
        taken = _models(connection, asked, models)
        sets = _dataset_rows(connection, datasets)
        sentences = _sentences(connection, [row.name for row in sets])
    except sqlite3.Error as error:
        raise StoreError(f"{path} can't be read: {error}.") from None
    finally:
        connection.close()
    infos = tuple(_info(row, sentences) for row in sets)
    answers = _answers(path, taken, infos, sentences, chunk_rows)
    return Study(
        source=str(path),
        parser=asked,
        models=taken,
        datasets=infos,
        sentences=sentences,
        answers=checked(answers, ANSWERS),
    )


def _models(connection: sqlite3.Connection, asked: Policy | None, names: Sequence[str] | None) -> tuple[ModelInfo, ...]:
    rows = connection.execute("SELECT model, title, configuration FROM models ORDER BY position, model").fetchall()
    wanted = chosen(names, [row[0] for row in rows], "model")
    titles = [row[1] for row in rows]
    found = []
    for name, title, configuration in rows:
        if name not in wanted:
            continue
        settings = json.loads(configuration)
        found.append(
            ModelInfo(
                name=name,
                title=title if titles.count(title) == 1 else f"{title} ({name})",
                policy=policy_of(name, settings, asked),
                class_names={key: tuple(value) for key, value in settings.get("labels", {}).items()},
                composite=settings.get("composite"),
            )
        )
    return tuple(found)


class _DatasetRow(NamedTuple):
    name: str
    title: str
    years: tuple[int, int] | None


def _dataset_rows(connection: sqlite3.Connection, names: Sequence[str] | None) -> list[_DatasetRow]:
    rows = connection.execute("SELECT dataset, title FROM datasets ORDER BY position, dataset").fetchall()
    wanted = chosen(names, [row[0] for row in rows], "data set")
    ranges = study_years(connection)
    return [_DatasetRow(name, title, ranges.get(name)) for name, title in rows if name in wanted]


def _sentences(connection: sqlite3.Connection, datasets: list[str]) -> pl.DataFrame:
    columns = "position, sentence, gold, year, pair, role, type, functionality, target"
    frames = []
    for dataset in datasets:
        rows = connection.execute(
            f"SELECT {columns} FROM sentences WHERE dataset = ? ORDER BY position",  # noqa: S608 - constant columns
            (dataset,),
        ).fetchall()
        values = list(zip(*rows, strict=True)) or [()] * len(columns.split(","))
        # Positions count within this frame, so that a set registered with gaps stays dense here.
        values[0] = tuple(range(len(rows)))
        values[-1] = tuple(None if target is None else visible(decode(target)) for target in values[-1])
        names = [name.strip() for name in columns.split(",")]
        schema = {name: SENTENCES[name] for name in names}
        frame = pl.DataFrame(dict(zip(names, values, strict=True)), schema=schema)
        frames.append(frame.with_columns(pl.lit(dataset, dtype=pl.Enum(datasets)).alias("dataset")))
    if not frames:
        empty = {name: (pl.Enum(datasets) if dtype is pl.Enum else dtype) for name, dtype in SENTENCES.items()}
        return pl.DataFrame(schema=empty)
    return checked(pl.concat(frames), SENTENCES)


def _info(row: _DatasetRow, sentences: pl.DataFrame) -> DatasetInfo:
    own = sentences.filter(pl.col("dataset") == row.name)
    pairs = _pairs(row.name, own)
    years = sorted(own["year"].drop_nulls().unique())
    inside = [year for year in years if row.years is None or row.years[0] <= year <= row.years[1]]
    return DatasetInfo(
        name=row.name,
        title=row.title,
        kind="pairs" if pairs else "years" if inside else "static",
        sentences=own.height,
        pairs=pairs,
        labelled=own["gold"].count(),
        years=tuple(inside),
        outside=own.filter(pl.col("year").is_not_null() & ~pl.col("year").is_in(inside)).height,
        groups=tuple(key for key in GROUP_KEYS if own[key].count()),
    )


def _pairs(dataset: str, own: pl.DataFrame) -> int:
    paired = own.filter(pl.col("pair").is_not_null() & pl.col("role").is_not_null())
    twice = paired.group_by("pair", "role").len().filter(pl.col("len") > 1).sort("pair")
    if twice.height:
        pair, role, count = twice.row(0)
        raise DataError(f"The pair {pair!r} of the data set {dataset} has {count} sentences with the role {role}.")
    return paired["pair"].n_unique()


def _answers(
    path: Path | str,
    models: tuple[ModelInfo, ...],
    datasets: tuple[DatasetInfo, ...],
    sentences: pl.DataFrame,
    chunk_rows: int,
) -> pl.DataFrame:
    """Return the dense frame: every model's outcome for every sentence, ``missing`` where there is no prediction."""
    sizes = np.array([item.sentences for item in datasets], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes * len(models))])
    outcomes = np.full(starts[-1], code("missing"), dtype=np.uint8)
    texts = np.zeros(starts[-1], dtype=np.uint64)
    place = sentences.select(
        "dataset",
        "sentence",
        slot=pl.col("dataset").to_physical().replace_strict(
            list(range(len(sizes))), starts[:-1].tolist(), return_dtype=pl.Int64
        )
        + pl.col("position"),
        stride=pl.col("dataset").to_physical().replace_strict(
            list(range(len(sizes))), sizes.tolist(), return_dtype=pl.Int64
        ),
    )  # fmt: skip
    model_type, dataset_type = pl.Enum([item.name for item in models]), pl.Enum([item.name for item in datasets])
    for chunk in chunks(path, chunk_rows):
        known = chunk.with_columns(
            pl.col("model").cast(model_type, strict=False), pl.col("dataset").cast(dataset_type, strict=False)
        ).filter(pl.col("model").is_not_null() & pl.col("dataset").is_not_null())
        placed = known.join(place, on=["dataset", "sentence"], how="inner", maintain_order="none")
        for part in _judged(placed, models):
            index = (part["slot"] + part["model"].to_physical().cast(pl.Int64) * part["stride"]).to_numpy()
            outcomes[index] = part["outcome"].to_physical().to_numpy()
            texts[index] = part["text"].to_numpy()
    return _dense(outcomes, texts, models, datasets)


def _dense(
    outcomes: np.ndarray[tuple[int], np.dtype[np.uint8]],
    texts: np.ndarray[tuple[int], np.dtype[np.uint64]],
    models: tuple[ModelInfo, ...],
    datasets: tuple[DatasetInfo, ...],
) -> pl.DataFrame:
    count = len(models)
    sizes = [item.sentences for item in datasets]
    position = [np.tile(np.arange(size, dtype=np.uint32), count) for size in sizes]
    model = [np.repeat(np.arange(count, dtype=np.uint32), size) for size in sizes]
    dataset = np.repeat(np.arange(len(sizes), dtype=np.uint32), [size * count for size in sizes])
    nothing = np.zeros(0, dtype=np.uint32)
    return pl.DataFrame(
        {
            "dataset": _enum([item.name for item in datasets], dataset),
            "model": _enum([item.name for item in models], np.concatenate([*model, nothing])),
            "position": pl.Series(np.concatenate([*position, nothing])),
            "outcome": _enum(OUTCOMES, outcomes.astype(np.uint32)),
            "text": pl.Series(texts),
        }
    )


def _enum(names: Sequence[str], codes: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> pl.Series:
    return pl.Series(names, dtype=pl.Enum(names)).gather(codes)


def _judged(placed: pl.DataFrame, models: tuple[ModelInfo, ...]) -> list[pl.DataFrame]:
    """Split a chunk by parse rule and add the outcome; every distinct answer is judged once."""
    rules: dict[tuple[str, str], list[ModelInfo]] = {}
    for model in models:
        rules.setdefault((model.policy.identity, repr(model.class_names)), []).append(model)
    parts = []
    for members in rules.values():
        names = [model.name for model in members]
        rows = placed if len(names) == len(models) else placed.filter(pl.col("model").is_in(names))
        distinct = _as_text(rows.select("raw_text", "scores").unique())
        outcome = members[0].policy.outcome(members[0].class_names).alias("judged")
        verdicts = distinct.select("key", "scores", outcome, pl.col("key").hash(seed=0).alias("hash"))
        joined = rows.join(verdicts, left_on=["raw_text", "scores"], right_on=["key", "scores"], how="left")
        answered = ~pl.col("status").is_in(_NOT_ANSWERED)
        broken = answered & pl.col("judged").is_in(["invalid", "ambiguous"])
        parts.append(
            joined.select(
                "model",
                "slot",
                "stride",
                pl.when(answered)
                .then(pl.col("judged"))
                .otherwise(pl.col("status").cast(OUTCOME, strict=False))
                .alias("outcome"),
                pl.when(broken).then(pl.col("hash")).otherwise(0).alias("text"),
            )
        )
    return parts


def _as_text(distinct: pl.DataFrame) -> pl.DataFrame:
    """Return ``key`` (the bytes) and ``raw_text``; what is not valid Unicode has U+FFFD in its place."""
    try:
        return distinct.with_columns(pl.col("raw_text").alias("key"), pl.col("raw_text").cast(pl.String))
    except pl.exceptions.ComputeError:  # an unpaired surrogate somewhere
        texts = [value.decode("utf-8", "replace") for value in distinct["raw_text"]]
        return distinct.with_columns(
            pl.col("raw_text").alias("key"), pl.Series("raw_text", texts, dtype=pl.String)
        )  # fmt: skip
