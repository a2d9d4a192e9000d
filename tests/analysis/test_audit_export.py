"""Exports: complete, exact, and harmless, whatever the answers hold."""

from __future__ import annotations

import csv
import io
import json
import stat
import zipfile
from typing import TYPE_CHECKING, Any

import openpyxl
import polars as pl
import pytest
from audit_maker import HOSTILE, HUGE, hostile_store
from hypothesis import example, given
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from hatevolution.analysis.audit import excel
from hatevolution.analysis.audit.export import export
from hatevolution.analysis.audit.flat import ANSWER
from hatevolution.analysis.audit.inert import csv_cell, restore_cell, visible_cell
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.analysis.audit.views import open_view
from hatevolution.errors import ConfigError
from hatevolution.store.text import visible

if TYPE_CHECKING:
    from pathlib import Path

FORMULA_STARTS = ("=", "+", "-", "@", "|", "%", "\t", "\r", "＝", "＋", "－", "＠")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_store(tmp_path_factory.mktemp("hostile") / "s.db").path


def written(store: Path, target: Path, name: Any = "answers", **filters: Any) -> Path:
    with StoreView(store, Selection(**filters)) as view:
        shown = open_view(view, name, second="lenient")
        export(shown.flat_rows(), shown.columns, target)
    return target


# -- cells -------------------------------------------------------------------------------------------------------


@given(
    st.text(st.characters(), max_size=12)
    | st.text(st.sampled_from("'=+-@|\t\r\n\\ ax\0\x1b\u202e\ud800＝u0"), max_size=8)
)
@example("\\x41")
@example("'")
@example("=\n")
def test_cells_are_exact_and_inert(text: str) -> None:
    shown, cell = visible_cell(text), csv_cell(text)
    assert restore_cell(shown, csv=False) == restore_cell(cell) == text
    assert cell.isprintable()
    assert cell.encode().decode() == cell
    assert not cell.lstrip().startswith(FORMULA_STARTS)
    if text.isprintable() and "\\" not in text and not text.lstrip().startswith((*FORMULA_STARTS, "'")):
        assert cell == text


# -- CSV ----------------------------------------------------------------------------------------------------------


def test_csv(store: Path, tmp_path: Path) -> None:
    path = written(store, tmp_path / "x.csv")
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    text = content.decode("utf-8-sig")
    assert text.count("\r\n") == text.count("\n") == len(HOSTILE) + 1  # one line a row
    assert all(char.isprintable() for char in text if char not in "\r\n")
    csv.field_size_limit(10**8)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["sentence"]: restore_cell(row["raw_text"]) for row in rows} == dict(HOSTILE)
    assert {row["sentence"]: restore_cell(row["target"]) for row in rows} == dict(HOSTILE)
    assert list(rows[0]) == list(ANSWER)
    for row in rows:
        for value in row.values():
            assert not value.lstrip().startswith(FORMULA_STARTS)


def test_csv_tells_an_empty_text_from_a_missing_value(tmp_path: Path) -> None:
    columns = {"a": pl.String, "b": pl.String, "c": pl.Boolean, "d": pl.Int64}
    export([{"a": "", "c": True}, {"a": None, "b": "-5", "d": -5}], columns, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text("utf-8-sig") == '"a","b","c","d"\n"",,true,\n,"\'-5",,-5\n'


# -- JSON Lines and Parquet --------------------------------------------------------------------------------------------


def test_jsonl_is_exact(store: Path, tmp_path: Path) -> None:
    path = written(store, tmp_path / "x.jsonl")
    content = path.read_bytes()
    assert content.isascii()
    rows = [json.loads(line) for line in content.decode().split("\n")[:-1]]
    assert {row["sentence"]: row["raw_text"] for row in rows} == dict(HOSTILE)
    assert list(rows[0]) == list(ANSWER)


def test_parquet_is_exact(store: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(written(store, tmp_path / "x.parquet"))
    texts = dict(frame.select("sentence", "raw_text").iter_rows())
    assert texts == {name: visible(text) for name, text in HOSTILE.items()}
    exact = frame.filter(pl.col("raw_text_bytes").is_not_null())
    assert exact["sentence"].to_list() == ["surrogate"]
    assert exact["raw_text_bytes"][0].decode("utf-8", "surrogatepass") == HOSTILE["surrogate"]
    assert frame.schema["year"] == pl.Int64


# -- Excel -------------------------------------------------------------------------------------------------------------


def test_xlsx_holds_strings_alone_and_all_of_them(store: Path, tmp_path: Path) -> None:
    path = written(store, tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(path)
    sheet, long = book["audit"], book["long texts"]
    names = [cell.value for cell in sheet[1]]
    column, key = names.index("raw_text"), names.index("sentence")
    found = {}
    for row in sheet.iter_rows(min_row=2):
        assert {cell.data_type for cell in row if cell.value is not None} <= {"s", "n", "b", "inlineStr"}
        assert all(cell.hyperlink is None for cell in row)
        # Excel reads _x005F_ as an underscore; openpyxl leaves that to its caller.
        found[row[key].value] = unescape(row[column].value or "")
    shown = {name: restore_cell(text, csv=False) for name, text in found.items() if name != "huge"}
    assert shown == {name: text for name, text in HOSTILE.items() if name != "huge"}
    assert len(found["huge"]) < 32_767
    assert found["huge"].endswith("(continued in the sheet 'long texts')")
    parts = [row for row in long.iter_rows(min_row=2, values_only=True) if row[1] == "raw_text"]
    assert [part[2] for part in parts] == list(range(1, len(parts) + 1))
    assert "".join(part[3] for part in parts) == HUGE
    assert sheet.cell(row=parts[0][0], column=key + 1).value == "huge"
    with zipfile.ZipFile(path) as archive:
        assert all(b"<f>" not in archive.read(name) for name in archive.namelist())


def test_xlsx_of_more_rows_than_a_sheet_holds_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel, "_ROWS", 10)
    export(({"a": str(n)} for n in range(9)), {"a": pl.String}, tmp_path / "fits.xlsx")
    with pytest.raises(ConfigError, match="holds 9 rows and there are more"):
        export(({"a": str(n)} for n in range(10)), {"a": pl.String}, tmp_path / "x.xlsx")
    assert [path.name for path in tmp_path.iterdir()] == ["fits.xlsx"]


def test_xlsx_without_the_library_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'hatevolution\[excel\]'"):
        export([], {"a": pl.String}, tmp_path / "x.xlsx")


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kinds", "pairs", "disagreements", "differ"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".xlsx"])
def test_every_view_in_every_format_with_and_without_rows(store: Path, tmp_path: Path, name: Any, suffix: str) -> None:
    parsed = "broken" if name == "kinds" else "any"
    for number, filters in enumerate(({}, {"search": "nowhere to be found"})):
        path = written(store, tmp_path / f"{number}{suffix}", name, parsed=parsed, **filters)
        assert path.stat().st_size > 0 or suffix == ".jsonl"


def test_a_file_appears_whole_or_not_at_all_and_is_like_any_other(tmp_path: Path) -> None:
    target = tmp_path / "x.csv"

    def failing() -> Any:
        yield {"a": "1"}
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        export(failing(), {"a": pl.String}, target)
    assert list(tmp_path.iterdir()) == []
    plain = tmp_path / "plain"
    plain.touch()
    assert export([{"a": "1"}], {"a": pl.String}, target) == 1
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("there", ["a file", "a folder", "a link to nothing"])
def test_what_is_there_is_never_overwritten(tmp_path: Path, there: str) -> None:
    target = tmp_path / "x.csv"
    if there == "a file":
        target.touch()
    elif there == "a folder":
        target.mkdir()
    else:
        target.symlink_to("no")
    with pytest.raises(ConfigError, match=r"x\.csv exists already; an export never overwrites anything"):
        export([{"a": "1"}], {"a": pl.String}, target)
    other = tmp_path / "y.csv"
    with pytest.raises(ConfigError, match=r"y\.csv exists already"):  # made by somebody else meanwhile
        export(({"a": str(other.write_text("notes"))} for _ in "1"), {"a": pl.String}, other)
    assert other.read_text() == "notes"
    assert {path.name for path in tmp_path.iterdir()} == {"x.csv", "y.csv"}


@pytest.mark.parametrize(("name", "message"), [("x.pdf", "ends in none of .csv"), ("no/x.csv", "can't be written")])
def test_a_place_that_can_not_be_written(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        export([], {"a": pl.String}, tmp_path / name)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    import tracemalloc

    def rows(count: int) -> Any:
        return ({"a": f"{n} " + "x" * 5_000} for n in range(count))

    for suffix in (".csv", ".xlsx"):
        peaks = []
        for count in (400, 4_000):
            tracemalloc.start()
            export(rows(count), {"a": pl.String}, tmp_path / f"x{count}{suffix}")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < peaks[0] + 2_000_000
