"""Figures: the numbers they show, and drawings that fit into a page."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import polars as pl
import pytest
from scipy import stats
from store_maker import generate

from hatevolution.analysis.correlation import every_pair
from hatevolution.analysis.rankings import Ranking
from hatevolution.analysis.report_page import Content, Options, gather, write_figures
from hatevolution.analysis.report_page.figures import panel_svg
from hatevolution.analysis.report_page.figures.kinds import kinds_figure
from hatevolution.analysis.report_page.figures.matrix import matrix_figure
from hatevolution.analysis.report_page.figures.slopes import slope_figure
from hatevolution.analysis.report_page.figures.style import COLOURS, ink_on
from hatevolution.analysis.report_page.tables import frame_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    made = generate(tmp_path_factory.mktemp("figures") / "s.db", 4, size=60)
    return gather(made.path, Options(resamples=50))


def test_the_figures_of_a_whole_store(content: Content) -> None:
    assert [figure.key for figure in content.figures] == [
        "f1-over-years-timed",
        "f1-over-years-timed-gap",
        "pairs-type-paired",
        "pairs-year-paired",
        "static-and-time-sensitive-ranks",
        "correlations-of-rankings",
        "kinds-of-broken-answers",
    ]


def test_the_numbers_behind_a_figure_say_what_each_stands_on(content: Content) -> None:
    known = {
        (cell.score.model, cell.score.dataset, cell.score.metric, cell.score.group): cell
        for table in content.report.tables
        for row in table.rows
        for cell in row.cells
        if cell.score is not None
    }
    titles = {model.title: model.name for model in content.report.study.single_models} | {"Together": "Together"}
    compared = set()
    for figure, group in zip(content.figures[2:4], ("type", "year"), strict=True):
        assert "scored" not in figure.data.columns
        for row in figure.data.iter_rows(named=True):
            cell = known.get((titles[row["model"]], "paired", row["metric"], row[group]))
            if cell is not None:
                assert (row["stands_on"], row["n"]) == (cell.counted, cell.n)
                compared.add((row["metric"], group))
    assert len(compared) == 4
    for row in content.year_figures[0].data.iter_rows(named=True):
        metric = {"hateful": "f1_hateful", "non-hateful": "f1_nonhateful"}[row["label"]]
        assert row["stands_on"] == known[titles[row["model"]], "timed", metric, str(row["year"])].counted


def test_years_are_names_and_have_no_separator(content: Content) -> None:
    figure = content.year_figures[0]
    shown = frame_table("x", "y", figure.data)
    texts = {cell.text for _, cells in shown.rows for cell in cells}
    assert "2017" in texts and "2,017" not in texts
    assert frame_table("x", "y", pl.DataFrame({"a": ["b"], "n": [2017]})).rows[0][1][0].text == "2,017"


def test_years_show_the_scores_with_their_intervals(content: Content) -> None:
    figure = content.year_figures[0]
    titles = [panel.title for panel in figure.panels]
    assert titles == [model.title for model in content.report.study.single_models] + ["Together"]
    scores = content.report.scores.filter((pl.col("dataset") == "timed") & (pl.col("group_key") == "year"))
    expected = {
        (row["model"], {"f1_hateful": "hateful", "f1_nonhateful": "non-hateful"}[row["metric"]], int(row["group"])):
        row["value"]
        for row in scores.iter_rows(named=True)
        if row["metric"] in ("f1_hateful", "f1_nonhateful") and 2017 <= int(row["group"]) <= 2021
        and not row["model"].startswith("member-")
    }  # fmt: skip
    shown = {(row["model"], row["label"], row["year"]): row for row in figure.data.iter_rows(named=True)}
    assert {key: row["value"] for key, row in shown.items()} == expected
    with_interval = 0
    for row in shown.values():
        if row["value"] is None:
            assert row["low"] is None
            assert row["high"] is None
        elif row["low"] is not None:
            assert 0 <= row["low"] <= row["high"] <= 1
            with_interval += 1
    assert with_interval > 100


def test_slopes_rank_by_model_and_not_by_place() -> None:
    static = Ranking(name="S", dataset="s", measure="macro_f1", goodness={"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1})
    timed = Ranking(
        name="T", dataset="t", measure="label_flip", goodness={"d": -0.1, "c": -0.2, "b": -0.3, "x": 0.0, "a": -0.4}
    )
    titles = {name: name.upper() for name in "abcdx"}
    figure = slope_figure([timed, static], every_pair([timed, static]), titles)
    assert figure is not None
    rows = {row[2]: row[3:] for row in figure.data.iter_rows()}
    models = "abcd"
    by_static = stats.rankdata([-static.goodness[name] for name in models], method="min").astype(int)
    by_time = stats.rankdata([-timed.goodness[name] for name in models], method="min").astype(int)
    assert rows == {name.upper(): (by_static[i], by_time[i]) for i, name in enumerate(models)}
    assert rows["A"] == (1, 4)
    assert rows["B"][0] == rows["C"][0] == 2
    rho = stats.spearmanr(by_static, by_time).statistic
    assert figure.panels[0].title == f"S and T, ρ = {rho:.2f}"
    assert "A from 1 to 4" in figure.panels[0].description
    drawn = panel_svg(figure, 0)
    assert "=2  B" in drawn or "B  =2" in drawn


def test_a_slope_chart_needs_both_kinds_of_rankings() -> None:
    static = Ranking(name="S", dataset="s", measure="macro_f1", goodness={"a": 0.9})
    assert slope_figure([static], [], {"a": "A"}) is None
    timed = Ranking(name="T", dataset="t", measure="label_flip", goodness={"b": 0.9})
    assert slope_figure([static, timed], every_pair([static, timed]), {"a": "A", "b": "B"}) is None


def test_the_matrix_has_every_coefficient_and_its_interval(content: Content) -> None:
    figure = content.rank_figures[1]
    drawn = panel_svg(figure, 0)
    known = [item for item in content.report.correlations if item.spearman is not None]
    assert len(known) >= 6
    assert figure.data.height == len(content.report.correlations)
    for item in known:
        assert f">{item.spearman:.2f}<" in drawn
        if item.fisher is not None:
            assert f">[{item.fisher.low:.2f}, {item.fisher.high:.2f}]<" in drawn
        assert f"{item.x} and {item.y} {item.spearman:.2f}" in figure.panels[0].description
    assert matrix_figure(["S"], []) is None


def test_shares_of_kinds_are_of_all_answers() -> None:
    counts = pl.DataFrame(
        {"model": ["m", "m", "k"], "kind": ["empty", "echo", "echo"], "count": [1, 30, 2], "answered": [1000, 1000, 8]}
    )
    figure = kinds_figure(counts, {"k": "K", "m": "M", "other": "Other"})
    assert figure is not None
    drawn = panel_svg(figure, 0)
    for text in ("0.1", "3.0", "25", "K", "M"):
        assert f">{text}<" in drawn
    assert "Other" not in drawn
    assert figure.panels[0].description == "Broken answers of each model: K 25.0 %; M 3.1 %. Most frequent kind: echo."
    assert kinds_figure(counts.clear(), {"m": "M"}) is None


def test_drawings_fit_into_a_page(content: Content) -> None:
    prefixes = set()
    for figure in content.figures:
        for index in range(min(2, len(figure.panels))):
            drawn = panel_svg(figure, index)
            root = ET.fromstring(drawn)
            assert root.tag == "svg"
            assert root.attrib["role"] == "img"
            ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
            assert len(ids) == len(set(ids))
            prefix = f"{figure.key}-{index + 1}-"
            assert all(name.startswith(prefix) for name in ids)
            prefixes.add(prefix)
            assert root.attrib["aria-labelledby"].split() == [f"{prefix}title", f"{prefix}desc"]
            assert root[0].text == figure.panels[index].title
            assert root[1].text
            for element in root.iter():
                assert "style" not in element.attrib
                assert element.tag in ("svg", "g", "path", "use", "defs", "clipPath", "rect", "text", "title", "desc")
                for name, value in element.attrib.items():
                    assert "http" not in value, (name, value)
                    for target in re.findall(r"url\(#([^)]*)\)", value):
                        assert target in ids
                if "href" in element.attrib:
                    assert element.attrib["href"].removeprefix("#") in ids
            # Whatever is drawn in a colour of the palette follows the page's scheme.
            assert not {colour for colour in COLOURS.values() if f'"{colour}"' in drawn}
    assert len(prefixes) > 8


def test_the_same_figure_gives_the_same_drawing(content: Content) -> None:
    for figure in content.figures[:3]:
        assert panel_svg(figure, 0) == panel_svg(figure, 0)


def test_files_of_every_figure(content: Content, tmp_path: Path) -> None:
    figures = [content.rank_figures[1], content.broken_figures[0]]
    written = write_figures(figures, tmp_path / "new" / "folder")
    assert [path.name for path in written] == [f"{f.key}.{end}" for f in figures for end in ("svg", "png", "csv")]
    again = {path.name: path.read_bytes() for path in write_figures(figures, tmp_path / "again")}
    for path in written:
        assert path.read_bytes() == again[path.name]
    assert (tmp_path / "again" / f"{figures[0].key}.png").read_bytes().startswith(b"\x89PNG")
    root = ET.parse(tmp_path / "again" / f"{figures[0].key}.svg").getroot()
    assert any("Spearman’s rank correlation" in (element.text or "") for element in root.iter())
    with (tmp_path / "again" / f"{figures[1].key}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["count"]) for row in rows) == sum(row.answers for row in content.broken.kinds)


@pytest.mark.parametrize(
    ("colour", "ink"),
    [((1, 1, 1), "#000000"), ((0, 0, 0), "#ffffff"), ((0.03, 0.19, 0.42), "#ffffff"), ((0.74, 0.84, 0.9), "#000000")],
)
def test_ink_has_the_higher_contrast(colour: tuple[float, float, float], ink: str) -> None:
    assert ink_on(colour) == ink


def _luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_colour_is_legible_in_both_schemes() -> None:
    from importlib.resources import files

    style = (files("hatevolution.analysis.report_page") / "assets" / "page.css").read_text(encoding="utf-8")
    light, dark, *_ = (
        dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block)) for block in re.findall(r":root\{([^}]*)\}", style)
    )
    assert light.keys() == dark.keys()
    for name in ("ink", "muted", "blue", "orange", "green", "purple", "link", "best", "warn"):
        for scheme in (light, dark):
            assert contrast(scheme[name], scheme["paper"]) >= 4.5, name
            assert contrast(scheme[name], scheme["page"]) >= 4.5, name
        if name in COLOURS:
            assert light[name] == COLOURS[name]
            assert contrast(COLOURS[name], COLOURS["paper"]) >= 4.5
    assert contrast(light["warn"], light["warnbg"]) >= 4.5
    assert contrast(dark["warn"], dark["warnbg"]) >= 4.5
