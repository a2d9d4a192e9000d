"""The study's tables: what stands where, what is marked, what is left out; all of it from the tidy scores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from store_maker import MadeSentence, Maker

from hatevolution.analysis import report
from hatevolution.analysis.report import Report
from hatevolution.analysis.tables import Table

if TYPE_CHECKING:
    from pathlib import Path

    from store_maker import Made


@pytest.fixture(scope="module")
def scored(made_once: Made) -> Report:
    return report.make(made_once.path)


def by_key(scored: Report) -> dict[str, Table]:
    return {table.key: table for table in scored.tables}


def value(scored: Report, model: str, dataset: str, metric: str, group: tuple[str, str] | None = None) -> float | None:
    key, name = group or (None, None)
    rows = scored.scores.filter(
        (scored.scores["model"] == model)
        & (scored.scores["dataset"] == dataset)
        & (scored.scores["metric"] == metric)
        & (scored.scores["group_key"].is_null() if key is None else (scored.scores["group_key"] == key))
    )
    rows = rows if name is None else rows.filter(rows["group"] == name)
    assert rows.height == 1
    found: float | None = rows["value"][0]
    return found


def test_table_3_has_twelve_figures_in_the_studys_order_and_their_mean(scored: Report) -> None:
    table = by_key(scored)["3"]
    years = range(2017, 2022)
    assert [(c.over, c.name) for c in table.columns] == [
        *(("hateful", str(year)) for year in years), *(("non-hateful", str(year)) for year in years), ("", "Mean"),
    ]  # fmt: skip
    for row in table.rows:
        if row.name == "Together":
            continue
        for index, (metric, year) in enumerate([(m, y) for m in ("f1_hateful", "f1_nonhateful") for y in years]):
            assert row.cells[index].value == value(scored, row.name, "timed", metric, ("year", str(year)))
        figures = [cell.value for cell in row.cells[:-1]]
        if None not in figures:
            assert row.cells[-1].value == pytest.approx(sum(figures) / 10, abs=1e-12)  # type: ignore[arg-type]


def test_members_of_a_composite_stand_as_one_row_at_the_end(scored: Report) -> None:
    for key in ("3", "4", "A1", "A2", "static:plain"):
        names = [row.name for row in by_key(scored)[key].rows]
        assert names[-1] == "Together" and not {"member-a", "member-b"} & set(names)


def test_best_values_are_marked_and_constant_predictors_of_flips_are_not(scored: Report) -> None:
    tables = by_key(scored)
    best = {row.name for row in tables["static:plain"].rows if row.cells[0].best}
    top = max(row.cells[0].value or 0 for row in tables["static:plain"].rows if row.compared)
    assert best == {row.name for row in tables["static:plain"].rows if row.cells[0].value == top}
    flips = {row.name: row.cells[0] for row in tables["4"].rows}
    assert flips["always-respectful"].value == 0.0 and not flips["always-respectful"].best
    assert any(cell.best for cell in flips.values())
    assert any("always-respectful" in note for note in tables["4"].notes)


def test_classifiers_have_no_hallucinations_in_tables_but_a_rate_in_the_scores(scored: Report) -> None:
    for row in by_key(scored)["A6"].rows:
        classifier = row.name in ("scores", "flags", "classes", "Together")
        assert (row.cells[0].value is None and "classifier" in (row.cells[0].reason or "")) == classifier
    assert value(scored, "flags", "paired", "hallucination") == 0.0


def test_undated_pairs_and_years_outside_are_told(scored: Report) -> None:
    tables = by_key(scored)
    assert [column.name for column in tables["A2"].columns] == ["2020", "2021", "2022"]
    assert "without a date" in tables["A2"].notes[0]
    assert any("60 of the 360 sentences lie outside these years" in note for note in tables["3"].notes)


def test_table_2(scored: Report) -> None:
    rows = {row.name: [cell.text for cell in row.cells] for row in by_key(scored)["2"].rows}
    assert rows["Timed Set"] == ["360", "✓", "2017-2021", "-", "60", "all"]
    assert rows["Paired Set"] == ["79", "✓", "2020-2022", "40", "-", "all"]
    assert rows["unlabelled"] == ["10", "✗", "-", "-", "-", "0"]


def test_correlation_tables_agree_with_the_correlations(scored: Report) -> None:
    tables = by_key(scored)
    known = {frozenset((item.x, item.y)): item for item in scored.correlations}
    for key in ("5", "A11"):
        for row in tables[key].rows:
            for column, cell in zip(tables[key].columns, row.cells, strict=True):
                if cell.value is not None and row.name != column.name:
                    assert cell.value == known[frozenset((row.name, column.name))].spearman
    triangle = [[cell.text for cell in row.cells] for row in tables["A11"].rows]
    assert all(triangle[i][i] == "1.0000" for i in range(len(triangle)))
    assert all(triangle[i][j] == "-" for i in range(len(triangle)) for j in range(i))


def test_every_table_has_a_tidy_frame(scored: Report) -> None:
    for table in scored.tables:
        frame = table.frame()
        assert frame.height == len(table.rows) * len(table.columns)
        assert frame["table"].unique().to_list() == [table.key]


def test_the_study_s_own_sets_have_its_numbers(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.model("m")
    for name in ("hatecheck", "dynabench", "hatexplain", "implicit-hate", "mine"):
        maker.dataset(name, [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2")])
        maker.answers("m", name, ["toxic", "respectful"])
    keys = [table.key for table in report.make(maker.done().path).tables]
    assert keys[:5] == ["A7", "A8", "A9", "A10", "static:mine"]


def test_a_sample_stands_for_its_set(tmp_path: Path) -> None:
    for names, keys in (
        (("sample-hatecheck", "sample-mine"), ["A7", "static:sample-mine"]),
        (("hatecheck", "sample-hatecheck"), ["A7", "A7:sample-hatecheck"]),
    ):
        maker = Maker(tmp_path / f"{len(keys[1])}.db")
        maker.model("m")
        for name in names:
            maker.dataset(name, [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2")])
        assert [table.key for table in report.make(maker.done().path).tables][:2] == keys


def test_tables_can_be_chosen_by_base_or_key(made_once: Made) -> None:
    assert [t.key for t in report.make(made_once.path, tables=["3"]).tables] == ["3", "3:timed-gap"]
    assert [t.key for t in report.make(made_once.path, tables=["3:timed-gap", "4"]).tables] == ["3:timed-gap", "4"]


def test_an_empty_store_gives_an_empty_report(tmp_path: Path) -> None:
    scored = report.make(Maker(tmp_path / "s.db").done().path, resamples=5, against="strict")
    document = json.loads(json.dumps(report.as_json(scored), allow_nan=False))
    assert document["scores"] == [] and document["correlations"] == []


def test_a_model_without_an_answer_is_all_missing_and_never_zero(scored: Report) -> None:
    own = scored.scores.filter(scored.scores["model"] == "never-asked")
    assert own["value"].null_count() == own.height
    assert (own["missing"] == own["n"]).all()


def test_a_composite_named_like_a_model_stays_apart(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("d", [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2")])
    maker.model("one", title="Both")
    maker.model("two", composite="Both")
    maker.answers("one", "d", ["toxic", "respectful"])
    maker.answers("two", "d", ["toxic", "toxic"])
    (table,) = report.make(maker.done().path, tables=["static"]).tables
    assert [row.name for row in table.rows] == ["Both", "Both (mean)"]


@pytest.mark.parametrize("name", ["a b.db", "per%20cent?x#y.db", "späße.db"])
def test_any_path_can_be_read(tmp_path: Path, name: str) -> None:
    maker = Maker(tmp_path / name)
    maker.model("m")
    maker.dataset("d", [MadeSentence(id="1")])
    maker.answers("m", "d", ["respectful"])
    assert report.make(maker.done().path).scores["scored"].max() == 1
