"""Store -> frames: every row comes to what its maker meant it to, whatever the chunks."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from store_maker import Made, MadePrediction, MadeSentence, Maker

from hatevolution.analysis.columns import ANSWERS, OUTCOMES, SENTENCES, FrameError, checked
from hatevolution.analysis.frames import load
from hatevolution.errors import ConfigError, DataError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from hatevolution.analysis.study import Study


@pytest.mark.parametrize("chunk_rows", [900, 10**6])
def test_every_row_comes_to_what_it_was_made_for(made: Made, chunk_rows: int) -> None:
    study = load(made.path, chunk_rows=chunk_rows)
    for dataset in made.datasets:
        codes = study.outcomes(dataset)
        assert codes.shape == (len(made.models), len(made.datasets[dataset]))
        for row, model in zip(codes, study.models, strict=True):
            assert [OUTCOMES[code] for code in row] == made.outcome(model.name, dataset), (model.name, dataset)


def test_frames_are_dense_and_as_declared(study: Study, made: Made) -> None:
    checked(study.sentences, SENTENCES)
    checked(study.answers, ANSWERS)
    assert study.answers.height == len(made.models) * sum(len(found) for found in made.datasets.values())
    assert study.answers.null_count().sum_horizontal()[0] == 0
    order = study.answers.select("dataset", "model", "position")
    assert order.equals(order.sort("dataset", "model", "position"))


def test_text_ids_tell_invalid_answers_apart(made: Made, study: Study) -> None:
    raw = {
        (p.model, p.dataset, p.sentence): p.raw_text or "" for p in made.predictions if p.outcome == "invalid"
    }  # fmt: skip
    keyed = study.answers.join(study.sentences.select("dataset", "position", "sentence"), on=["dataset", "position"])
    invalid = keyed.filter(pl.col("outcome").is_in(["invalid", "ambiguous"]))
    pairs = {(raw[m, d, s], text) for m, d, s, text in invalid.select("model", "dataset", "sentence", "text").rows()}
    assert len(pairs) == len({text for text, _ in pairs}) == len({number for _, number in pairs})
    assert keyed.filter(~pl.col("outcome").is_in(["invalid", "ambiguous"]))["text"].max() == 0


def test_what_a_set_has_decides_its_kind(study: Study) -> None:
    kinds = {item.name: item.kind for item in study.datasets}
    assert kinds == {
        "timed": "years", "timed-gap": "years", "paired": "pairs", "cases": "static", "plain": "static",
        "one-class": "static", "unlabelled": "static", "empty": "static",
    }  # fmt: skip
    timed = study.dataset("timed")
    assert timed.years == (2017, 2018, 2019, 2020, 2021)
    assert timed.outside == sum(s.year == 2016 for s in range_of(study, "timed"))
    assert study.dataset("cases").groups == ("functionality", "target")


def range_of(study: Study, dataset: str) -> list[MadeSentence]:
    return [MadeSentence(id=row["sentence"], year=row["year"]) for row in study.of(dataset).iter_rows(named=True)]


def test_selection_keeps_the_rest_right(made: Made) -> None:
    study = load(made.path, models=["flags", "good-exact"], datasets=["plain", "paired"])
    assert [model.name for model in study.models] == ["good-exact", "flags"]
    assert [item.name for item in study.datasets] == ["paired", "plain"]
    for dataset in ("paired", "plain"):
        for row, model in zip(study.outcomes(dataset), study.models, strict=True):
            assert [OUTCOMES[code] for code in row] == made.outcome(model.name, dataset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ["good-exakt"]}, "no model 'good-exakt' here \\(did you mean 'good-exact'"),
        ({"datasets": ["plane"]}, "no data set 'plane' here \\(did you mean 'plain'"),
        ({"parser": "papr"}, "did you mean 'paper'"),
    ],
)
def test_unknown_names(made: Made, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(made.path, **options)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        load(tmp_path / "none.db")


def test_an_empty_store_is_no_error(tmp_path: Path) -> None:
    study = load(Maker(tmp_path / "s.db").done().path)
    assert study.models == () and study.datasets == () and study.answers.height == 0


def test_a_pair_with_two_originals_is_named(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("d", [MadeSentence(id=str(i), pair="p-7", role="original") for i in range(2)])
    with pytest.raises(DataError, match="pair 'p-7' of the data set d has 2 sentences with the role original"):
        load(maker.done().path)


def test_a_models_bad_parser_is_named(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.model("m", parser="paper-exakt")
    with pytest.raises(ConfigError, match=r"parser of the model m: .*did you mean 'paper-exact'"):
        load(maker.done().path)


def test_texts_that_are_no_unicode(tmp_path: Path) -> None:
    """A column that begins with NULLs and goes on with BLOBs and TEXTs, invalid UTF-8 among them."""
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    maker.dataset("d", [MadeSentence(id=str(i)) for i in range(5)])
    texts = [None, "\ud800", "toxic", "a\0b", None]
    maker.predictions(
        MadePrediction(model="m", dataset="d", sentence=str(i), outcome="invalid", raw_text=text)
        for i, text in enumerate(texts[:4])
    )
    maker.connection.execute(
        "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run)"
        " SELECT 'm', 'd', '4', 'answered', CAST(x'ff746f786963' AS TEXT), 1, run FROM runs"
    )
    study = load(maker.done().path)
    assert [OUTCOMES[code] for code in study.outcomes("d")[0]] == ["invalid", "invalid", "toxic", "invalid", "invalid"]


def test_reading_does_not_wait_for_a_writer(made: Made) -> None:
    writer = sqlite3.connect(made.path, isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(
            "INSERT INTO runs SELECT 'other', started_at, NULL, NULL, who, command, '{}', '{}', NULL, NULL FROM runs"
        )
        assert load(made.path).answers.height > 0
        writer.execute("ROLLBACK")
    finally:
        writer.close()


def test_checked_refuses_another_dtype() -> None:
    with pytest.raises(FrameError, match="position"):
        checked(pl.DataFrame({"dataset": ["x"], "position": [1]}), {"position": pl.UInt32})
