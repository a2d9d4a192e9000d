"""Tables in the study's rounding, best values marked, coverage beside numbers, foreign text inert everywhere."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from hatevolution.analysis.frames import load
from hatevolution.analysis.render.files import (
    FORMATS,
    file_name,
    latex,
    layout_frame,
    markdown,
    write_frame,
    write_table,
)
from hatevolution.analysis.render.footnotes import coverage_note
from hatevolution.analysis.render.inert import csv_text, latex_text, markdown_text
from hatevolution.analysis.render.terminal import print_table
from hatevolution.analysis.report_page.tables import study_table
from hatevolution.analysis.scores import scores
from hatevolution.analysis.tables import Cell, Column, Row, Table, study_tables
from hatevolution.analysis.tables.table import marked, value_cell

if TYPE_CHECKING:
    from pathlib import Path

    from store_maker import Made

EVIL = '\x1b[31m=HYPERLINK("x")[bold]|<b>\\input{/etc/passwd}\u202e%\n'


def table(name: str = "model") -> Table:
    columns = (Column(name="2017", over="hateful", best="highest"), Column(name="Flip (%)", best="lowest"))
    rows = [
        Row(
            name=name,
            cells=(value_cell(0.51764, "f1", counted=9, n=10), value_cell(0.0398, "percent", counted=10, n=10)),
        ),
        Row(name="b", cells=(value_cell(1.0, "f1", counted=10, n=10), value_cell(None, "percent", reason="why not"))),
        Row(
            name="c", cells=(value_cell(0.0, "f1", counted=10, n=10), value_cell(0.03981, "percent", counted=10, n=10))
        ),
        Row(name="mean", cells=(value_cell(1.0, "f1"), value_cell(0.0, "percent")), compared=False),
    ]
    return Table(key="4:x", title=f"Title of {name}", corner="Model", columns=columns, rows=marked(columns, rows))


def shown(made: Table, width: int = 200) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, highlight=False, markup=False, color_system=None), made)
    return out.getvalue()


def test_rounding_and_marks_are_the_studys() -> None:
    first, second, third, composite = table().rows
    assert [cell.text for cell in first.cells] == [".5176", "3.98"]
    assert [cell.text for cell in second.cells] == ["1.0000", "–"]
    assert third.cells[0].text == ".0000"
    assert second.cells[0].best and not first.cells[0].best
    assert first.cells[1].best and third.cells[1].best, "equal as printed: both are best"
    assert not any(cell.best for cell in composite.cells)


def test_terminal_shows_coverage_and_reasons() -> None:
    text = shown(table())
    assert "9/10" in text and "–¹" in text and "¹ why not" in text and "n=10" in text


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_narrow_terminal_gets_blocks_that_fit(made_once: Made, width: int) -> None:
    study = load(made_once.path)
    wide = next(table for table in study_tables(study, scores(study)) if table.key == "3")
    lines = shown(wide, width).splitlines()
    rows = [line for line in lines if line.startswith("  good-exact")]
    assert len(rows) > 1 if width < 100 else len(rows) >= 1
    assert all(len(line.rstrip()) <= width for line in lines if line.startswith("  "))
    numbers = [number for row in rows for number in row.split()[1:]]
    assert len(numbers) == len(wide.columns)


def test_nothing_foreign_acts_on_the_terminal() -> None:
    text = shown(table(EVIL))
    assert "\x1b" not in text and "\u202e" not in text
    assert "[bold]" in text


def test_markdown_cells_are_inert() -> None:
    text = markdown(table(EVIL))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 6
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "**1.0000**" in text and ".5176 (9/10)" in text and "\\[1\\] why not" in text


def test_latex_cells_are_inert() -> None:
    text = latex(table(EVIL))
    assert r"\textbf{1.0000}" in text and ".5176 (9/10)" in text
    assert r"\input" not in text.replace(r"\textbackslash{}input", "")
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    assert all(line.count("&") - line.count(r"\&") == 2 for line in body.splitlines() if line.endswith(r"\\"))


@settings(deadline=None)
@given(st.text(max_size=40))
def test_every_text_is_inert(text: str) -> None:
    cell = csv_text(text)
    assert "\n" not in cell and "\r" not in cell
    assert not cell.lstrip().startswith(("=", "+", "@")) and (
        not cell.startswith("-") or re.fullmatch(r"-(\d*\.?\d+)?", cell)
    )
    assert not re.search(r"(?<!\\)[&%#_]", latex_text(text).replace(r"\textbackslash{}", ""))
    assert not re.search(r"(?<!\\)[|<*`]", markdown_text(text).replace("\\\\", ""))


def test_numbers_stay_numbers_in_csv(tmp_path: Path) -> None:
    path = write_frame(
        pl.DataFrame({"=a": ["-0.2662", "=1+1", "-", "+x"], "n": [1.5, -2.0, 0.0, 1.0]}), tmp_path / "f.csv"
    )
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["'=a", "n"]
    assert [row[0] for row in rows[1:]] == ["-0.2662", "'=1+1", "-", "'+x"]
    assert [float(row[1]) for row in rows[1:]] == [1.5, -2.0, 0.0, 1.0]


def test_csv_and_parquet_have_layout_best_and_coverage(tmp_path: Path) -> None:
    for form in FORMATS:
        write_table(table(), tmp_path, form)
    frame = pl.read_parquet(tmp_path / "table-4-x.parquet")
    assert frame.columns == ["Model", "hateful 2017", "Flip (%)", "best"]
    assert frame["hateful 2017"].to_list() == [".5176", "1.0000", ".0000", "1.0000"]
    assert frame["Flip (%)"].to_list() == ["3.98", "", "3.98", "0.00"]
    assert frame["best"].to_list() == ["Flip (%)", "hateful 2017", "Flip (%)", ""]
    written = list(csv.reader((tmp_path / "table-4-x.csv").read_text(encoding="utf-8").splitlines()))
    assert written == [frame.columns, *map(list, frame.rows())]
    coverage = pl.read_parquet(tmp_path / "table-4-x.coverage.parquet")
    assert coverage["hateful 2017"].to_list() == ["9/10", "10/10", "10/10", "1.0000"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "table-4-x.csv", "table-4-x.coverage.csv", "table-4-x.parquet", "table-4-x.coverage.parquet",
        "table-4-x.md", "table-4-x.tex",
    }  # fmt: skip


def test_columns_of_one_name_stay_apart() -> None:
    columns = (Column(name="same"), Column(name="same"), Column(name="best", best="highest"))
    cells = tuple(Cell(text=str(i)) for i in range(3))
    made = Table(key="x", title="", corner="same", columns=columns, rows=(Row(name="r", cells=cells),))
    assert layout_frame(made).columns == ["same", "same (2)", "same (3)", "best", "best (2)"]


def test_file_names_are_safe() -> None:
    assert file_name("static:../../etc") == "table-static-..-..-etc"
    assert "/" not in file_name("a/b\\c\0")
    assert file_name("\u202e") == "table-x"


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ((0.5, 0.5), "Every number stands on all its rows."),
        ((0.5, None), "Every number that is there stands on all its rows. No number at all: second."),
        ((None, None), None),
    ],
)
def test_a_model_without_a_number_is_named_below_the_table(values: tuple[float | None, ...], note: str | None) -> None:
    def cell(value: float | None) -> Cell:
        return value_cell(value, "f1", counted=0 if value is None else 3, n=3, reason="not asked")

    rows = [Row(name=name, cells=(cell(value),) * 2) for name, value in zip(("first", "second"), values, strict=True)]
    made = Table(key="x", title="t", corner="Model", columns=(Column(name="a"), Column(name="b")), rows=tuple(rows))
    assert coverage_note(made) == note
    assert study_table(made).notes == ((note,) if note else ())
    for text in (shown(made), markdown(made)):
        assert ("rows." in text) == bool(note) and (note or "") in text
    gap = Table(
        key="x", title="t", corner="Model", columns=made.columns, rows=(Row(name="r", cells=(cell(0.5), cell(None))),)
    )
    assert coverage_note(gap) == "Every number that is there stands on all its rows."
    part = value_cell(0.5, "f1", counted=2, n=3)
    partly = Table(
        key="x", title="t", corner="M", columns=made.columns, rows=(*rows, Row(name="third", cells=(part, part)))
    )
    assert ("second." in str(coverage_note(partly))) == (values[1] is None)
    assert "has the count" in str(coverage_note(partly))
