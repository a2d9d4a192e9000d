"""``hatevolution paper`` as a user meets it."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from store_maker import MadeSentence, Maker

from hatevolution.analysis.paper.findings import check_table, every_check
from hatevolution.analysis.render.terminal import print_table
from hatevolution.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["paper", *args])
    captured = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), captured.out, captured.err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--json")
    document = json.loads(out)
    assert code == 0 and err == ""
    assert {"table", "row", "column", "published", "recomputed", "verdict"} <= set(document["checks"][0])
    assert {"x", "y", "published", "as_released", "from_rankings", "from_scores"} <= set(document["correlations"][0])


def test_what_differs_is_shown_and_what_agrees_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    assert "570 checks of published figures: 522 agree, 47 differ, 1 can't be derived." in out
    assert "0.5176" in out and "ranking the models' names alphabetically" in out
    differing = out.split("that differ from")[1].split("Spearman")[0]
    assert " agrees " not in differing and len(re.findall(r"^  \S.*: .*, ", differing, re.MULTILINE)) == 47 + 1
    _, everything, _ = run(capsys, "--all")
    assert len(everything.splitlines()) > len(out.splitlines()) + 500


def test_why_a_figure_differs_stands_below_and_no_two_rows_have_one_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    checks = [check for check in json.loads(run(capsys, "--json")[1])["checks"] if check["verdict"] != "agrees"]
    reasons = list(dict.fromkeys(check["note"] for check in checks))
    _, out, _ = run(capsys)
    differing = out.split("that differ from")[1].split("Spearman")[0]
    for number, reason in enumerate(reasons, 1):
        mark = str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        assert reason and f"\n{mark} {reason}\n" in differing
        assert sum(line.rstrip().endswith(mark) for line in differing.splitlines()) >= 1
    names = [(check["table"], check["row"], check["column"]) for check in checks]
    assert len(set(names)) == len(names)
    shown = io.StringIO()
    found = check_table(every_check())
    print_table(Console(file=shown, width=80, highlight=False, markup=False), found)
    assert shown.getvalue().count("Table, row, column") == 1, "in one block on a narrow terminal"


def store(tmp_path: Path, title: str) -> Path:
    maker = Maker(tmp_path / "s.db")
    maker.model("m", title=title)
    maker.dataset("hatecheck", [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2")])
    maker.answers("m", "hatecheck", ["toxic", "respectful"])
    return maker.done().path


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store(tmp_path, "GPT-4o")
    code, out, _ = run(capsys, "compare", "--store", str(path), "--out", str(tmp_path / "out"))
    assert code == 0 and "+0.2606" in out and "Compared: GPT-4o." in out
    assert (tmp_path / "out" / "table-compare-A7.csv").is_file()
    code, out, _ = run(capsys, "compare", "--store", str(path), "--json")
    (f1, share) = json.loads(out)["comparisons"]
    assert (f1["published"], f1["own"], share["own"]) == (0.7394, 1.0, 100.0)


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", "--store", str(store(tmp_path, "unheard of")))
    assert code == 2 and out == "" and "this one's are: unheard of" in err
    assert run(capsys, "compare", "--store", str(tmp_path / "none.db"))[0] == 2
    assert run(capsys, "--json", "compare", "--store", "x.db")[0] == 2
