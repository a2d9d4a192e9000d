"""JSON lines, Parquet and Excel: values with types, as the text that a CSV file would hold."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from dataset_maker import COLUMNS, Formula, located, read, write_text, write_xlsx

from hatevolution.configs.dataset_schema import Columns
from hatevolution.domain import Label
from hatevolution.errors import DataError

ROWS = [
    {"id": "a1", "text": "Hello \u2028 there", "label": 0, "year": 2020},
    {"id": 625688620444180481, "text": " blanks ", "label": 1, "year": None},
]
WITH_YEAR = Columns(id="id", text="text", label="label", year="year")


def write_jsonl(path: Path, rows: list[object], end: str = "\n") -> Path:
    return write_text(path, "".join(json.dumps(row, ensure_ascii=False) + end for row in rows))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_json_lines(tmp_path: Path, end: str) -> None:
    first, second = read(write_jsonl(tmp_path / "a.jsonl", list(ROWS), end), columns=WITH_YEAR)
    assert (first.id, first.text, first.gold, first.gold_raw, first.year) == (
        "a1",
        "Hello \u2028 there",
        Label.RESPECTFUL,
        "0",
        2020,
    )
    assert (second.id, second.text, second.gold, second.year) == ("625688620444180481", " blanks ", Label.TOXIC, None)


def test_json_lines_hold_what_only_json_can(tmp_path: Path) -> None:
    path = write_text(
        tmp_path / "a.jsonl",
        '\ufeff{"id": "1", "text": "lone \\ud800 surrogate", "label": "x"}\n'
        '{"id": 2, "text": "nul \\u0000 and \\ud83d\\ude00", "label": true, "extra": [1, {"a": 2}]}\n'
        '{"id": 3, "text": 911, "label": 1.0, "year": NaN}\n \n\n',
    )
    labels = {"toxic": ["x", True], "respectful": [1]}
    sentences = read(path, columns=WITH_YEAR, labels=labels)
    assert [sentence.text for sentence in sentences] == ["lone \ud800 surrogate", "nul \x00 and \U0001f600", "911"]
    assert [sentence.id for sentence in sentences] == ["1", "2", "3"]
    assert [sentence.gold for sentence in sentences] == ["toxic", "toxic", "respectful"]
    assert [sentence.year for sentence in sentences] == [None, None, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 2, "text": "b"}', "row 2: there is no 'label'; its keys are id, text"),
        ("{'id': 2}", "row 2: not valid JSON"),
        ('{"id": 2, "text": "b", "label": 0', "row 2: not valid JSON"),
        ("[1, 2]", "row 2: a JSON object is expected, not a list"),
        ("", "row 2: the line is empty"),
        ('{"id": 2, "text": ["b"], "label": 0}', "row 2: 'text' holds a list, where one value is expected"),
        ('{"id": 2, "text": null, "label": 0}', "row 2: there is no text in 'text'"),
        ('{"id": null, "text": "b", "label": 0}', "row 2: the id in 'id' is empty"),
        ('{"id": 2, "text": "b", "label": null}', "row 2: the label in 'label' is empty"),
        ('{"id": 6.25688620444180481e17, "text": "b", "label": 0}', "row 2: the id .* has lost its last digits"),
        ("[" * 100_000, "row 2: not valid JSON"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    good = '{"id": 1, "text": "a", "label": 0}'
    path = write_text(tmp_path / "a.jsonl", f"{good}\n{line}\n{good.replace('1', '3')}\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, {message}"):
        read(path)


def test_a_column_that_no_json_line_has_is_a_mistake(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", list(ROWS))
    with pytest.raises(DataError, match=r"has no column 'yaer' \(did you mean 'year'\?\)"):
        read(path, columns=Columns(id="id", text="text", label="label", year="yaer"))
    some = [{"text": "a"}, {"text": "b", "note": "only here"}]
    path = write_jsonl(tmp_path / "b.jsonl", list(some))
    assert [s.meta for s in read(path, columns=Columns(text="text", meta=("note",)))] == [{}, {"note": "only here"}]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a[1].parquet"  # brackets are no pattern here
    pl.DataFrame(
        {
            "id": [625688620444180481, 2],
            "text": ["Hello \u2028 there", " blanks "],
            "label": [0.0, 1.0],
            "when": [dt.date(2020, 1, 2), None],
            "ok": [True, None],
        }
    ).write_parquet(path)
    columns = Columns(id="id", text="text", label="label", date="when", meta=("ok", "when"))
    first, second = read(path, columns=columns)
    assert (first.id, first.text, first.gold, first.year) == (
        "625688620444180481",
        "Hello \u2028 there",
        Label.RESPECTFUL,
        2020,
    )
    assert (first.meta, second.meta, second.year) == ({"ok": "true", "when": "2020-01-02"}, {}, None)


def test_parquet_in_several_blocks_with_filters(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    count = 70_000
    pl.DataFrame(
        {
            "id": [f"i{n}" for n in range(count)],
            "text": ["t"] * count,
            "label": ["1"] * count,
            "part": ["a", "b"] * 35_000,
        }
    ).write_parquet(path)
    sentences = read(path, filters={"part": ["b"]})
    assert [sentence.id for sentence in sentences] == [f"i{n}" for n in range(1, count, 2)]
    sentences = read(path, filters={"part": ["b"]}, columns=Columns(text="text"))
    assert sentences[-1].id == f"row-{count}"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"id": ["1"], "text": [["a"]], "label": ["0"]}, "row 1: 'text' holds a list"),
        ({"id": ["1"], "text": [None], "label": ["0"]}, "row 1: there is no text in 'text'"),
        ({"id": ["1"], "body": ["a"], "label": ["0"]}, "has no column 'text'; its columns are 'id', 'body', 'label'"),
        ({"id": [6.25688620444180481e17], "text": ["a"], "label": ["0"]}, "row 1: the id .* has lost its last digits"),
    ],
)
def test_bad_parquet_is_named(tmp_path: Path, frame: dict[str, list[object]], message: str) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame(frame, schema_overrides={"text": pl.String} if frame.get("text") == [None] else None).write_parquet(
        path
    )
    with pytest.raises(DataError, match=message):
        read(path)


def test_a_file_that_is_not_of_its_format_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.parquet can't be read as Parquet: "):
        read(write_text(tmp_path / "a.parquet", "id,text,label\n1,a,0\n"))
    with pytest.raises(DataError, match=r"a\.xlsx can't be read as an Excel workbook: "):
        read(write_text(tmp_path / "a.xlsx", "id,text,label\n1,a,0\n"))
    with pytest.raises(DataError, match=r"a\.jsonl, row 1: not valid JSON"):
        read(write_text(tmp_path / "a.jsonl", "id,text,label\n1,a,0\n"))


def test_excel(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["id", "text", "label", "when", None])
    sheet.append(["625688620444180481", " blanks ", 1, dt.datetime(2022, 1, 10)])  # noqa: DTZ001 - as in a workbook
    sheet.append(["GAB_1", "'=no formula", 0.0, dt.datetime(2021, 5, 30, 12, 30)])  # noqa: DTZ001
    sheet.append([17, 911, True, None])
    sheet.cell(9, 1).fill = openpyxl.styles.PatternFill("solid", "FFFF00")  # rows that are only formatted
    book.save(tmp_path / "a.xlsx")
    columns = Columns(id="id", text="text", label="label", date="when")
    sentences = read(tmp_path / "a.xlsx", columns=columns, labels={"toxic": [1, True], "respectful": [0]})
    assert [sentence.id for sentence in sentences] == ["625688620444180481", "GAB_1", "17"]
    assert [sentence.text for sentence in sentences] == [" blanks ", "'=no formula", "911"]
    assert [sentence.gold for sentence in sentences] == ["toxic", "respectful", "toxic"]
    assert [sentence.year for sentence in sentences] == [2022, 2021, None]


def test_excel_formulas_are_their_last_values(tmp_path: Path) -> None:
    path = write_xlsx(
        tmp_path / "a.xlsx", "s", [["id", "text", "label"], ["1", Formula('A2&"x"', "from a cache"), Formula("1", "1")]]
    )
    (sentence,) = read(path)
    assert (sentence.text, sentence.gold) == ("from a cache", Label.TOXIC)
    path = write_xlsx(tmp_path / "b.xlsx", "s", [["id", "text", "label"], ["1", "a", Formula("1", None)]])
    with pytest.raises(DataError, match="row 2: the label in 'label' is empty"):  # never computed: no value to use
        read(path)


def test_excel_ids_typed_as_numbers_have_lost_digits(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", "s", [["id", "text", "label"], ["1", "a", 0], [625688620444180481, "b", 0]])
    with pytest.raises(
        DataError, match=r"a\.xlsx, row 3: the id in 'id' is stored as the number 6\.25.*, which has lost"
    ):
        read(path)


def test_excel_rows_are_counted_as_excel_shows_them(tmp_path: Path) -> None:
    rows: list[list[str | float | int | Formula | None]] = [
        ["id", "text", "label"],
        ["1", "a", 0],
        [None] * 3,
        ["2", "b", 7],
    ]
    with pytest.raises(DataError, match="row 3: the id in 'id' is empty"):
        read(write_xlsx(tmp_path / "a.xlsx", "s", rows))
    rows[2] = ["x", "y", 0]
    with pytest.raises(DataError, match="row 4: the label in 'label' is '7'"):
        read(write_xlsx(tmp_path / "a.xlsx", "s", rows))


def test_excel_sheets_are_named_where_there_are_several(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.title = "first"
    for name in ("first", "second"):
        sheet = book[name] if name in book.sheetnames else book.create_sheet(name)
        sheet.append(["id", "text", "label"])
        sheet.append([name, "a", 0])
    path = tmp_path / "a.xlsx"
    book.save(path)
    with pytest.raises(DataError, match=r"has 2 sheets \('first', 'second'\); name the one to read with sheet"):
        read(path)
    assert read(path, sheet="second")[0].id == "second"
    with pytest.raises(DataError, match="has no sheet 'third'; its sheets are 'first', 'second'"):
        read(path, sheet="third")
    book["second"].sheet_state = "hidden"
    book.save(path)
    assert read(path)[0].id == "first"


def test_a_format_can_be_said_against_the_ending(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.txt", [{"id": 1, "text": "a", "label": 0}])
    assert read(path, format="jsonl", columns=COLUMNS)[0].id == "1"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    count = 30_000 if kind == "jsonl" else 100_000
    frame = pl.DataFrame({"text": [f"this is made-up sentence number {n}" for n in range(count)]})
    if kind == "jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_parquet(path)
    rows = located(path, columns=Columns(text="text")).sentences()
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows) == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # all sentences would take 10 and 35 MB
