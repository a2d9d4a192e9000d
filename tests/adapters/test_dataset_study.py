"""The other sets of the study and Multilingual HateCheck, on made-up rows that show the traps of the real files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import openpyxl
import pytest
from dataset_maker import Cell, shipped, write_csv, write_text, write_xlsx

from hatevolution.domain import Label
from hatevolution.errors import DataError


def soa(folder: Path, *rows: list[object]) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "test_split_english"
    sheet.append(["id", "text", "label", "subreddit", "created_utc", "date", "original_language(s)"])
    for row in rows:
        sheet.append(row)
    path = folder / "English_Online_Attacks_testset.xlsx"
    book.save(path)
    return path


def day(year: int, month: int, number: int) -> dt.datetime:
    return dt.datetime(year, month, number)  # noqa: DTZ001 - dates in a workbook have no time zone


def test_singapore_online_attacks(tmp_path: Path) -> None:
    path = soa(
        tmp_path,
        ["sample_1", "lard", 0.0, "indonesia", "1641812360.0", day(2022, 1, 10), "('English', 'Indonesian')"],
        ["sample_2", "-go away", 1.0, "malaysia", "1372636799.0", day(2013, 7, 1), "Malay"],
        ["sample_3", "lard", 0.0, "indonesia", "1641812361.0", day(2022, 1, 10), "Indonesian"],
    )
    found = shipped("singapore-online-attacks", path)
    first, second, third = found.sentences()
    assert [s.gold for s in (first, second, third)] == [Label.RESPECTFUL, Label.TOXIC, Label.RESPECTFUL]
    assert [s.year for s in (first, second, third)] == [2022, 2013, 2022]
    assert first.text == third.text  # the same text twice is two rows
    assert second.text == "-go away"
    assert first.meta == {
        "date": "2022-01-10",
        "created_utc": "1641812360.0",  # a number that the file keeps as text
        "subreddit": "indonesia",
        "original_language(s)": "('English', 'Indonesian')",
    }
    assert (
        "1 of the 3 sentences of singapore-online-attacks are outside 2017 to 2022, the years of the study; they are "
        "kept, and asked about too." in found.warnings
    )
    assert "singapore-online-attacks has 3 sentences here, and 3,000 as released." in found.warnings
    assert "singapore-online-attacks has 1 toxic sentences here, and 954 as released." in found.warnings
    assert any("is not the released file: its sha256 begins" in warning for warning in found.warnings)


def test_singapore_online_attacks_with_a_wrong_date_or_label(tmp_path: Path) -> None:
    path = soa(tmp_path, ["sample_1", "a", 0.0, "x", "1", "10/01/2022", "y"])
    with pytest.raises(DataError, match="row 2: '10/01/2022' is not a date such as 2021-05-30"):
        list(shipped("singapore-online-attacks", path).sentences())
    path = soa(tmp_path, ["sample_1", "a", 0.5, "x", "1", day(2022, 1, 1), "y"])
    with pytest.raises(DataError, match=r"row 2: the label in 'label' is '0.5', which is not one of '1', '0'"):
        list(shipped("singapore-online-attacks", path).sentences())


def test_implicit_hate_keeps_ids_as_text(tmp_path: Path) -> None:
    ids = ["625688620444180481", "625688620444180482", "GAB_12345"]
    assert float(ids[0]) == float(ids[1])  # as numbers these two would be one
    rows: list[list[Cell]] = [["ID", "cleaned_text", "label"]]
    rows += [[ids[0], "- one", "toxic"], [ids[1], "'re two", "respectful"], [ids[2], "three", "toxic"]]
    sentences = list(
        shipped("implicit-hate", write_xlsx(tmp_path / "Implicit_Hate_testset.xlsx", "Foglio1", rows)).sentences()
    )
    assert [s.id for s in sentences] == ids
    assert [s.text for s in sentences] == ["- one", "'re two", "three"]
    assert [s.gold for s in sentences] == [Label.TOXIC, Label.RESPECTFUL, Label.TOXIC]
    rows[1][0] = float(ids[0])
    with pytest.raises(DataError, match="row 2: the id in 'ID' is stored as the number"):
        list(shipped("implicit-hate", write_xlsx(tmp_path / "Implicit_Hate_testset.xlsx", "Foglio1", rows)).sentences())


HATECHECK = [
    "",
    "functionality",
    "case_id",
    "test_case",
    "label_gold",
    "target_ident",
    "direction",
    "focus_words",
    "focus_lemma",
    "ref_case_id",
    "ref_templ_id",
    "templ_id",
    "case_templ",
]


def test_hatecheck(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "test_suite_cases.csv",
        HATECHECK,
        [
            [
                "0",
                "derog_neg_emote_h",
                "1",
                "I dislike newcomers. ",
                "hateful",
                "newcomers",
                "general",
                "",
                "",
                "",
                "",
                "1",
                "x",
            ],
            ["1", "negate_pos_nh", "174", "Never mind. ", "non-hateful", "", "-", "", "", "1.0", "", "3", "y"],
            ["2", "negate_pos_nh", "175", "Ends here.", "non-hateful", "", "-", "", "", "2", "", "3", "NA"],
        ],
        terminator="\r\n",
    )
    first, second, third = shipped("hatecheck", path).sentences()
    assert (first.id, first.text, first.gold) == ("1", "I dislike newcomers. ", Label.TOXIC)
    assert (first.functionality, first.target) == ("derog_neg_emote_h", "newcomers")
    assert first.meta == {"direction": "general", "templ_id": "1", "case_templ": "x"}
    assert (second.text, second.gold, second.target) == ("Never mind. ", Label.RESPECTFUL, None)
    assert (second.meta["ref_case_id"], third.meta["ref_case_id"]) == ("1.0", "2")  # text, as it stands there
    assert (third.id, third.text, third.meta["case_templ"]) == ("175", "Ends here.", "NA")


def test_hatecheck_labels_are_closed(tmp_path: Path) -> None:
    row = ["0", "f_h", "1", "a", "Hateful", "", "", "", "", "", "", "", ""]
    path = write_csv(tmp_path / "test_suite_cases.csv", HATECHECK, [row])
    with pytest.raises(
        DataError, match="row 2: the label in 'label_gold' is 'Hateful', which is not one of 'hateful', 'non-"
    ):
        list(shipped("hatecheck", path).sentences())


DYNABENCH = (
    '"","acl.id","X1","text","label","type","target","level","split",'
    '"round.base","annotator","round","acl.id.matched"\n'
)
DYNABENCH_NAME = "Dynamically Generated Hate Dataset v0.2.3.csv"


def test_dynabench(tmp_path: Path) -> None:
    path = write_text(
        tmp_path / DYNABENCH_NAME,
        DYNABENCH
        + '"6","acl10001",6,"what a ""nice"" day, really","nothate","none","none","original","test",1,"Ann","1",NA\n'
        + '"8","acl10003",8,"left out","hate","notgiven","notgiven","original","train",1,"Ann","1",NA\n'
        + '"100100","acl8719",9,"go away\nand stay there","hate","derogation","old","perturbation","test",2,"Bob",'
        + '"2b","acl1"\n'
        + '"9","acl10004",9,"NA","hate","notgiven","notgiven","original","test",1,"Ann","1",NA\n',
    )
    found = shipped("dynabench", path)
    first, second, third = found.sentences()
    assert (first.id, first.text, first.gold) == ("acl10001", 'what a "nice" day, really', Label.RESPECTFUL)
    assert (second.id, second.text, second.gold) == ("acl8719", "go away\nand stay there", Label.TOXIC)
    assert (third.text, third.gold) == ("NA", Label.TOXIC)  # a text, not a missing value
    assert [s.target for s in (first, second, third)] == ["none", "old", "notgiven"]
    assert [s.type for s in (first, second, third)] == [None] * 3  # `type` is the linguistic type of a neologism
    assert second.meta == {
        "type": "derogation",
        "level": "perturbation",
        "round.base": "2",
        "round": "2b",
        "annotator": "Bob",
        "acl.id.matched": "acl1",
    }
    assert first.meta["round"] == "1"
    assert first.meta["acl.id.matched"] == "NA"
    assert "dynabench has 3 sentences here, and 4,120 in the paper." in found.warnings


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            '"6","acl1",6,"a","nothate","none","none","original","test",1,"Ann","1"\n',
            "row 3: 12 cells where the header has 13",
        ),
        ('"6","acl1",6,"a "quote","hate","none","none","original","test",1,"Ann","1",NA\n', "row 3: malformed CSV"),
        ('"6","acl1",6,"a","0","none","none","original","test",1,"Ann","1",NA\n', "row 3: the label in 'label' is '0'"),
        (
            '"6","acl0",6,"a","hate","none","none","original","test",1,"Ann","1",NA\n',
            "row 3: the id 'acl0' is that of row 2",
        ),
    ],
)
def test_no_row_of_dynabench_is_skipped(tmp_path: Path, row: str, message: str) -> None:
    good = '"5","acl0",6,"a","nothate","none","none","original","test",1,"Ann","1",NA\n'
    path = write_text(tmp_path / DYNABENCH_NAME, DYNABENCH + good + row)
    with pytest.raises(DataError, match=message):
        list(shipped("dynabench", path).sentences())


def test_dynabench_columns_are_those_of_the_file_not_of_its_readme(tmp_path: Path) -> None:
    path = write_text(tmp_path / DYNABENCH_NAME, DYNABENCH.replace('"text"', '"Text"') + "x\n")
    with pytest.raises(DataError, match=r"has no column 'text' \(did you mean 'Text'\?\)"):
        list(shipped("dynabench", path).sentences())


MHC = [
    "mhc_case_id",
    "functionality",
    "test_case",
    "label_gold",
    "target_ident",
    "ref_case_id",
    "ref_templ_id",
    "templ_id",
    "case_templ",
    "gender_male",
    "gender_female",
    "label_annotated",
    "label_annotated_maj",
    "disagreement_in_case",
    "disagreement_in_template",
]


@pytest.mark.parametrize(
    ("code", "language", "columns"), [("ar", "arabic", 15), ("nl", "dutch", 13), ("zh", "mandarin", 13)]
)
def test_multilingual_hatecheck(tmp_path: Path, code: str, language: str, columns: int) -> None:
    header = [name for name in MHC if columns == 15 or not name.startswith("gender")]
    rows = [
        dict.fromkeys(header, "")
        | {"mhc_case_id": f"{language}-{number}", "test_case": text, "label_gold": label, "functionality": "f_h"}
        | {"label_annotated": "['hateful', 'hateful', 'non-hateful']", "label_annotated_maj": "hateful"}
        for number, text, label in [(1, "您好", "hateful"), (1305, "您好", "non-hateful")]
    ]
    path = write_csv(tmp_path / f"hatecheck_cases_final_{language}.csv", header, [list(row.values()) for row in rows])
    found = shipped(f"multilingual-hatecheck-{code}", path)
    first, second = found.sentences()
    assert [first.id, second.id] == [f"{language}-1", f"{language}-1305"]
    assert first.text == second.text == "您好"  # some texts occur twice
    assert [first.gold, second.gold] == [Label.TOXIC, Label.RESPECTFUL]  # label_gold, not what annotators said
    assert second.meta["label_annotated_maj"] == "hateful"
    assert found.name == f"multilingual-hatecheck-{code}"
