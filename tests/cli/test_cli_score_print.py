"""What ``hatevolution score`` prints in the formats of files, and what it refuses to work out."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from store_maker import Made, generate

from hatevolution.analysis.render.files import as_text
from hatevolution.analysis.tables.table import Column, Row, Table, text_cell
from hatevolution.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Result = tuple[int, str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("score") / "s.db", 5)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def called(*args: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return called


@pytest.mark.parametrize(("command", "option"), [("score", "--intervals"), ("report", "--resamples")])
def test_more_resamples_than_say_anything_are_refused(
    made: Made, call: Callable[..., Result], command: str, option: str
) -> None:
    code, out, err = call(command, "--store", str(made.path), option, "100001")
    assert (code, out) == (2, "")
    assert "<=100000" in err


def test_one_table_is_printed_as_its_file_is_written(made: Made, call: Callable[..., Result], tmp_path: Path) -> None:
    code, out, _ = call("score", "--store", str(made.path), "--tables", "2", "--format", "csv")
    assert code == 0
    assert call("score", "--store", str(made.path), "--tables", "2", "--out", str(tmp_path))[0] == 0
    assert out == (tmp_path / "table-2.csv").read_text()


def test_several_tables_are_one_csv_and_each_comes_back_by_its_key(
    made: Made, call: Callable[..., Result], tmp_path: Path
) -> None:
    code, out, _ = call("score", "--store", str(made.path), "--format", "csv")
    assert code == 0
    assert call("score", "--store", str(made.path), "--out", str(tmp_path))[0] == 0
    assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1
    everything = pd.read_csv(io.StringIO(out), dtype=str)
    assert everything.columns[0] == "table"
    assert everything["table"].nunique() > 5
    for key, rows in everything.groupby("table"):
        file = pd.read_csv(tmp_path / f"table-{str(key).replace(':', '-')}.csv", dtype=str)
        back = rows[file.columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(back, file, check_dtype=False)
        assert rows.drop(columns=["table", *file.columns]).isna().all(axis=None)


def test_a_column_that_is_called_as_that_of_the_keys_keeps_its_name() -> None:
    tables = [
        Table(
            key=key,
            title="",
            corner="Model",
            columns=(Column(name="table"),),
            rows=(Row(name="m", cells=(text_cell(f"in {key}"),)),),
        )
        for key in ("A8", "A9")
    ]
    assert as_text(tables, "csv") == "table (2),Model,table\nA8,m,in A8\nA9,m,in A9\n"
    assert as_text([], "csv") == ""


@pytest.mark.parametrize(("form", "begin"), [("md", "**Table"), ("latex", r"\begin{table}")])
def test_several_tables_for_papers_follow_each_other(
    made: Made, call: Callable[..., Result], form: str, begin: str
) -> None:
    code, out, _ = call("score", "--store", str(made.path), "--tables", "2,4", "--format", form)
    assert code == 0
    assert out.count(begin) == 2
    assert out.startswith(begin)
