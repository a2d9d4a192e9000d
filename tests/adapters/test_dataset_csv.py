"""CSV files: texts exactly as they stand there, malformed rows never skipped."""

from __future__ import annotations

import csv
import tempfile
import time
import tracemalloc
from pathlib import Path

import pytest
from dataset_maker import COLUMNS, located, read, write_csv, write_text
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.configs.dataset_schema import Columns
from hatevolution.domain import Label, Sentence
from hatevolution.errors import DataError

HEADER = ["id", "text", "label"]


def test_a_plain_file_becomes_sentences(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [["x1", "Hello there", "0"], ["x2", "Be quiet", "1"]])
    assert read(path) == [
        Sentence(id="x1", text="Hello there", gold=Label.RESPECTFUL, gold_raw="0"),
        Sentence(id="x2", text="Be quiet", gold=Label.TOXIC, gold_raw="1"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "ends in a blank ",
        "  begins with two",
        "=1+1",
        "-dash",
        "+plus",
        "@at",
        "NA",
        "nan",
        "null",
        "None",
        "{braces} {0} %s %%",
        "line\u2028separator and next\x85line",  # str.splitlines() would cut both
        "form\x0cfeed \x1c\x1d\x1e",
        "nul\x00inside",
        "two\nlines",
        "carriage\rreturn",
        "both\r\nof them",
        'quotes "inside"',
        "comma, comma",
        "\u200bzero width \u202eand bidi\u202c",
        "emoji \U0001f937\U0001f3fd",
        "\ufeffbyte order mark inside",
        "",
    ],
)
def test_a_text_is_kept_exactly(tmp_path: Path, text: str) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [["1", "before", "0"], ["2", text, "1"], ["3", "after", "0"]])
    assert [sentence.text for sentence in read(path)] == ["before", text, "after"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=20))
def test_any_texts_come_back(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_round_trip(Path(folder, "a.csv"), texts)


def check_round_trip(path: Path, texts: list[str]) -> None:
    write_csv(path, HEADER, [[f"i{number}", text, "0"] for number, text in enumerate(texts)])
    assert [sentence.text for sentence in read(path)] == texts


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 513])
def test_blocks_hide_no_row(tmp_path: Path, rows: int) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [[f"i{n}", f"t{n}", str(n % 2)] for n in range(rows)])
    assert [sentence.id for sentence in read(path)] == [f"i{n}" for n in range(rows)]


def test_line_ends_of_windows_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeff"id","text","label"\r\n"1","a","0"\r\n"2","b","1"\r\n'.encode())
    assert [(sentence.id, sentence.text) for sentence in read(path)] == [("1", "a"), ("2", "b")]


def test_another_encoding_and_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id;text;label\n1;Grüße; \n2;Öl;1\n".replace(" \n", "0\n").encode("cp1252"))
    assert [sentence.text for sentence in read(path, encoding="cp1252", delimiter=";")] == ["Grüße", "Öl"]


def test_tabs_are_understood_from_the_ending(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.tsv", "id\ttext\tlabel\n1\ta, b\t0\n")
    assert [sentence.text for sentence in read(path)] == ["a, b"]


def test_long_texts_are_taken(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [["1", "x" * 300_000, "0"]])
    assert len(read(path)[0].text) == 300_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,text,label\n1,a\rb,0\n",
            r"a\.csv, row 2: 2 cells where the header has 3; a text with a comma or a line end",
        ),
        ("id,text,label\n1,a,0\n2,b\n", r"a\.csv, row 3: 2 cells where the header has 3"),
        ("id,text,label\n1,a,0\n2,b, with a comma,1\n", r"a\.csv, row 3: 4 cells where the header has 3"),
        ("id,text,label\n1,a,0\n\n2,b,1\n", r"a\.csv, row 3: the row is empty"),
        ('id,text,label\n1,"a" b,0\n', r"a\.csv, row 2: malformed CSV"),
        ('id,text,label\n1,a,0\n2,"never closed,1\n3,c,0\n', r"a\.csv, row 3: malformed CSV .unexpected end of data"),
        ("id,text,label\n", r"a\.csv has no row, so mine would be an empty data set"),
        ("", r"a\.csv has no column 'id'; its columns are none"),
        ("ID,text,label\n1,a,0\n", r"a\.csv has no column 'id'.*'ID', 'text', 'label'"),
        ("id,text,label,text\n1,a,0,b\n", r"a\.csv has 2 columns named 'text', so it is not clear which"),
        ("id,text,label\n1,a,0\n ,b,1\n", r"a\.csv, row 3: the id in 'id' is empty"),
        ("id,text,label\n1,a,0\n2,b,1\n1,c,1\n", r"a\.csv, row 4: the id '1' is that of row 2 already"),
        ("id,text,label\n1,a,0\n2,b,2\n", r"a\.csv, row 3: the label in 'label' is '2', which is not one of '1', '0'"),
        ("id,text,label\n1,a,0\n2,b,\n", r"a\.csv, row 3: the label in 'label' is empty, which is not one of"),
        ('id,text,label\n1,a,"0, 0"\n', r"a\.csv, row 2: the label in 'label' is '0, 0'"),
        ("id,text,label\n1,a,0 \n", r"a\.csv, row 2: the label in 'label' is '0 '"),
    ],
)
def test_a_malformed_file_is_one_sentence_naming_file_and_row(tmp_path: Path, text: str, message: str) -> None:
    path = write_text(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=message):
        read(path)


def test_rows_are_counted_as_a_spreadsheet_shows_them_also_far_down(tmp_path: Path) -> None:
    rows = [[f"i{n}", "two\nlines", "0"] for n in range(1000)]
    rows[700][2] = "maybe"
    path = write_csv(tmp_path / "a.csv", HEADER, rows)
    with pytest.raises(DataError, match="row 702: the label in 'label' is 'maybe'"):
        read(path)
    rows[700][2] = "0"
    rows[701] = ["too", "short"]
    with pytest.raises(DataError, match="row 703: 2 cells"):
        read(write_csv(tmp_path / "a.csv", HEADER, rows))
    rows[701] = ["i3", "again", "0"]
    with pytest.raises(DataError, match="row 703: the id 'i3' is that of row 5 already"):
        read(write_csv(tmp_path / "a.csv", HEADER, rows))
    with (tmp_path / "a.csv").open("a", encoding="utf-8") as stream:
        stream.write('x,"a"b,0\n')
    with pytest.raises(DataError, match="row 703: the id"):  # the first mistake is told, not the last
        read(tmp_path / "a.csv")


def test_a_malformed_row_far_down_is_counted_too(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [[f"i{n}", "t", "0"] for n in range(600)])
    with path.open("a", encoding="utf-8") as stream:
        stream.write('x,"a"b,0\n')
    with pytest.raises(DataError, match="row 602: malformed CSV"):
        read(path)


def test_blank_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "id,text,label\n1,a,0\n" + "\n" * 700)
    assert len(read(path)) == 1
    path = write_text(tmp_path / "a.csv", "id,text,label\n1,a,0\n" + "\n" * 700 + "2,b,0\n")
    with pytest.raises(DataError, match="row 3: the row is empty"):
        read(path)


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text,label\n1,a,0\n2,Gr\xfc\xdfe,1\n")
    with pytest.raises(DataError, match=r"is not utf-8 text \(line 3\); say how it is written with encoding"):
        read(path)
    with pytest.raises(DataError, match="there is no encoding named 'utf-9'"):
        read(path, encoding="utf-9")


def test_filters_look_at_the_files_own_values_and_count_all_rows(tmp_path: Path) -> None:
    rows = [["1", "a", "0", "train"], ["2", "b", "1", "test"], ["3", "c", "bad", "dev"], ["4", "d", "0", "test"]]
    path = write_csv(tmp_path / "a.csv", [*HEADER, "split"], rows)
    kept = read(path, filters={"split": ["test"]})
    assert [sentence.id for sentence in kept] == ["2", "4"]  # the bad label stands in a row that does not count
    with pytest.raises(DataError, match="row 4: the label in 'label' is 'bad'"):
        read(path, filters={"split": ["test", "dev"]})
    with pytest.raises(DataError, match="has no row that its filters keep"):
        read(path, filters={"split": ["validation"]})
    with pytest.raises(DataError, match=r"has no column 'spilt' \(did you mean 'split'"):
        read(path, filters={"spilt": ["test"]})
    no_ids = read(path, filters={"split": ["test"]}, columns=Columns(text="text", label="label"))
    assert [sentence.id for sentence in no_ids] == ["row-3", "row-5"]


def test_every_column_arrives_where_it_belongs(tmp_path: Path) -> None:
    header = [*HEADER, "y", "p", "r", "t", "f", "g", "m1", "m2"]
    rows = [
        ["1", "a", "0", "2021", "p1", "original", "lexical", "f_h", "group", "one", ""],
        ["2", "b", "1", "", "", "", "", "", "", "", "two"],
        ["3", "c", "1", "2019", "p1", "neologism", "old", "f_nh", "none", "x", "y"],
    ]
    path = write_csv(tmp_path / "a.csv", header, rows)
    columns = Columns(
        id="id",
        text="text",
        label="label",
        year="y",
        pair="p",
        role="r",
        type="t",
        functionality="f",
        target="g",
        meta=("m1", "m2"),
    )
    first, second, third = read(path, columns=columns, replace={"t": {"old": "new"}})
    assert first == Sentence(
        id="1",
        text="a",
        gold=Label.RESPECTFUL,
        gold_raw="0",
        year=2021,
        pair="p1",
        role="original",  # type: ignore[arg-type]  # a StrEnum equals its value
        type="lexical",
        functionality="f_h",
        target="group",
        meta={"m1": "one"},
    )
    assert second == Sentence(id="2", text="b", gold=Label.TOXIC, gold_raw="1", meta={"m2": "two"})
    assert (third.type, third.target, third.meta) == ("new", "none", {"m1": "x", "m2": "y"})
    with pytest.raises(DataError, match="row 2: 'a' is not a year such as 2021"):
        read(path, columns=Columns(text="text", year="text"))
    with pytest.raises(DataError, match="row 2: the role 'a' is neither 'original' nor 'neologism'"):
        read(path, columns=Columns(text="text", role="text"))
    with pytest.raises(DataError, match="row 2: '2021' is not a date such as 2021-05-30"):
        read(path, columns=Columns(text="text", date="y"))


def test_a_set_without_labels_has_no_gold(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["text"], [["a"], ["b"]])
    assert read(path, columns=Columns(text="text")) == [
        Sentence(id="row-2", text="a", gold=None),
        Sentence(id="row-3", text="b", gold=None),
    ]


def test_one_column_can_mean_two_things(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["text", "when"], [["a", "2021-05-30"]])
    (sentence,) = read(path, columns=Columns(text="text", date="when", meta=("when",)))
    assert (sentence.year, sentence.meta) == (2021, {"when": "2021-05-30"})


def test_a_set_can_be_read_twice(tmp_path: Path) -> None:
    found = located(write_csv(tmp_path / "a.csv", HEADER, [["1", "a", "0"]]))
    assert list(found.sentences()) == list(found.sentences())


def many_rows(path: Path, count: int) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*HEADER, "year"])
        writer.writerows((f"id{n}", f"this is made-up sentence number {n}", n % 2, 2017 + n % 6) for n in range(count))
    return path


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = many_rows(tmp_path / "a.csv", 40_000)
    columns = Columns(text="text", label="label", year="year")  # ids of row numbers: nothing is remembered
    rows = located(path, columns=columns).sentences()
    tracemalloc.start()
    try:
        count = sum(1 for _ in rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 40_000
    assert peak < 3_000_000  # the file has 2 MB, its sentences would take 15


@pytest.mark.slow
def test_a_million_rows_are_read_in_seconds(tmp_path: Path) -> None:
    path = many_rows(tmp_path / "a.csv", 1_000_000)
    columns = Columns(id="id", text="text", label="label", year="year")
    rows = located(path, columns=columns).sentences()
    start = time.process_time()
    assert sum(1 for _ in rows) == 1_000_000
    assert time.process_time() - start < 6  # 2 s on an idle machine


def test_ids_beyond_the_checked_ones_are_left_to_the_store(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", HEADER, [["1", "a", "0"], ["1 ", "b", "0"]])
    assert [sentence.id for sentence in read(path, columns=COLUMNS)] == ["1", "1 "]  # blanks belong to an id
