"""``hatevolution report`` as a user meets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from report_maker import parse, small_store

from hatevolution.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("report") / "s.db")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["report", *args])
    captured = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), captured.out, captured.err


def test_a_page_and_its_plots(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plots = tmp_path / "page.html", tmp_path / "plots"
    code, printed, told = run(
        capsys, "--store", str(store), "--out", str(out), "--plots", str(plots), "--resamples", "20", "--samples", "2"
    )
    assert (code, printed) == (0, "")
    names = sorted(path.name for path in plots.iterdir())
    assert f"{len(names)} files written to {plots}" in told
    assert len(names) % 3 == 0
    assert {"f1-over-years-timed.svg", "f1-over-years-timed.png", "f1-over-years-timed.csv"} <= set(names)
    page = parse(out.read_text(encoding="utf-8"))
    assert page.one("head").one("title").text == "Hatevolution report: s.db"
    provenance = page.one("section", id="provenance").text
    assert '"resamples": 20' in provenance
    assert str(store.parent) not in page.text, "the folders of the machine are nobody's business"


def test_choices_reach_the_page(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    code, _, _ = run(
        capsys, "--store", str(store), "--out", str(out), "--models", "good, fair", "--datasets", "plain",
        "--parser", "strict", "--invalid", "wrong", "--resamples", "0", "--samples", "0", "--seed", "3",
    )  # fmt: skip
    assert code == 0
    page = parse(out.read_text(encoding="utf-8"))
    rows = page.one("table", id="table-coverage").one("tbody").find("tr")
    assert [row.one("th").text for row in rows] == ["good", "fair"]
    text = page.one("section", id="provenance").text
    for line in ('"parser": "strict"', '"invalid": "wrong"', '"seed": 3', '"resamples": 0'):
        assert line in text
    assert not page.find("article")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--models", "goood"), "did you mean 'good'"),
        (("--parser", "strikt"), "did you mean 'strict'"),
        (("--invalid", "dropp"), "drop"),
        (("--resamples", "-1"), "resamples"),
        (("--samples", "51"), "samples"),
        (("--out", "nowhere/page.html"), "there is no folder nowhere"),
    ],
)
def test_what_can_not_be(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, str], told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, printed, said = run(capsys, "--store", str(store), *arguments)
    assert (code, printed) == (2, "")
    assert told in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_a_store_is_never_overwritten(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = store.read_bytes()
    code, _, said = run(capsys, "--store", str(store), "--out", str(store))
    assert code == 2
    assert "is no HTML page" in said
    assert store.read_bytes() == before


def test_a_missing_package_is_named_with_its_cure(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "matplotlib" else find(name, *more)

    monkeypatch.setattr("hatevolution.analysis.report_page.output.find_spec", without)
    code, _, said = run(capsys, "--store", str(store), "--out", str(tmp_path / "page.html"))
    assert code == 2
    assert "needs matplotlib" in said
    assert "pip install 'hatevolution[report]'" in said


@pytest.mark.slow
def test_two_processes_make_the_same_page(store: Path, tmp_path: Path) -> None:
    pages = []
    for seed in ("1", "2"):
        out = tmp_path / "page.html"
        command = [sys.executable, "-P", "-m", "hatevolution", "report", "--store", str(store), "--out", str(out)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        text = out.read_text(encoding="utf-8")
        pages.append(re.sub(r"<time datetime=.*?</time>", "", text, count=1))
        assert pages[-1] != text
    assert pages[0] == pages[1]
