"""`hatevolution data`: what it prints, where, and its exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dataset_maker import write_csv
from file_server import Behaviour, FileServer, serving

from hatevolution.cli import main
from hatevolution.configs.dataset_schema import STUDY
from hatevolution.configs.load import shipped_names

HEADER = ["id", "text", "label"]
BODY = b"id,text,label\n1,a,0\n2,b,1\n"


class Command:
    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["data", *map(str, arguments)])
        out, err = self._capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err


@pytest.fixture
def data(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as state:
        yield state


def own_set(folder: Path, rows: list[list[str]], name: str = "mine") -> Path:
    write_csv(folder / f"{name}.csv", HEADER, rows)
    toml = folder / f"{name}.toml"
    toml.write_text(
        f'name = "{name}"\npath = "{name}.csv"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
        '[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n',
        encoding="utf-8",
    )
    return toml


def released_set(folder: Path, url: str, body: bytes = BODY, sha256: str | None = None) -> Path:
    digest = hashlib.sha256(body).hexdigest() if sha256 is None else sha256
    toml = folder / "there.toml"
    toml.write_text(
        'name = "there"\nsource = "https://example.org"\n[columns]\nid = "id"\ntext = "text"\nlabel = "label"\n'
        '[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n'
        f'[[files]]\nname = "the file.csv"\nurl = "{url}/the%20file.csv"\nsha256 = "{digest}"\n',
        encoding="utf-8",
    )
    return toml


def only_json(out: str) -> Any:
    return json.loads(out)


def test_list_is_a_table_of_all_sets(data: Command) -> None:
    code, out, err = data("list")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.strip()]
    names = [line[0] for line in lines if line[0] in shipped_names("datasets")]
    assert tuple(names[:6]) == STUDY
    assert sorted(names) == shipped_names("datasets")
    assert "680 (340 pairs)   682 (341 pairs)" in out
    assert "none stated" in out
    assert "https://github.com/rewire-online/singapore-online-attacks" in out


def test_the_list_is_readable_at_80_columns(tmp_path: Path) -> None:
    above, below = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "hatevolution", "data", "list"],
        stdout=below, stdin=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80", "TERM": "dumb"},
    )  # fmt: skip
    os.close(below)
    shown = b""
    try:
        while part := os.read(above, 65536):
            shown += part
    except OSError:
        pass  # how a pseudo-terminal ends
    assert process.wait(30) == 0
    os.close(above)
    lines = [line.rstrip() for line in shown.decode().splitlines()]
    assert max(map(len, lines)) <= 80
    for name in (*STUDY, *shipped_names("datasets")):
        assert sum(line.split()[:1] == [name] for line in lines) == 1, name
    (neobench,) = [line for line in lines if line.split()[:1] == ["neobench"]]
    assert neobench.split()[1:] == ["680", "682", "none", "stated"]


def test_texts_that_are_empty_are_noted(data: Command, tmp_path: Path) -> None:
    toml = own_set(tmp_path, [["1", "a", "0"], ["2", "", "1"], ["3", "  ", "1"]])
    code, out, _ = data("check", toml)
    assert code == 0 and "note       2 sentences have no text, the first of them: 2" in out
    found = json.loads(data("check", toml, "--json")[1])["datasets"][0]
    assert (found["empty"], found["first_empty"]) == (2, "2")
    fine = own_set(tmp_path, [["1", "a", "0"], ["2", "b", "1"]], "fine")
    assert "no text" not in data("check", fine)[1]


def test_list_as_json_and_of_some_sets(data: Command) -> None:
    code, out, err = data("list", "--json")
    assert (code, err) == (0, "")
    sets = {item["name"]: item for item in only_json(out)["datasets"]}
    assert sets["hatecheck"]["licence"] == "CC-BY-4.0"
    assert sets["hatecheck"]["expected"]["sentences"] == 3728
    assert sets["hatecheck"]["published"]["sentences"] == 3729
    assert sets["dynabench"]["licence"] is None
    assert len(sets["hatexplain"]["files"]) == 3
    code, out, _ = data("list", "neobench", "sample-hatecheck")
    assert code == 0
    assert "row-2-original" in out
    assert "inputs experiment 2.xlsx  https://raw.githubusercontent.com/" in out
    assert "../sample/hatecheck.csv" in out


def test_an_unknown_set_is_one_sentence(data: Command) -> None:
    for command in ("list", "check"):
        code, out, err = data(command, "hatechek")
        assert (code, out) == (2, "")
        assert err.startswith("hatevolution: There is no dataset named 'hatechek' (did you mean 'hatecheck'?)")
        assert err.count("\n") == 1


def test_check_reads_every_row(data: Command, tmp_path: Path) -> None:
    code, out, err = data("check", "sample-singapore-online-attacks", "sample-neobench", "sample-hatecheck")
    assert (code, err) == (0, "")
    assert "sample-singapore-online-attacks  72 sentences (30 toxic, 42 respectful)" in out
    assert "2017: 12, 2018: 12, 2019: 12, 2020: 12, 2021: 12, 2022: 12" in out
    assert "sample-neobench  58 sentences (10 toxic, 48 respectful, 29 pairs)" in out
    assert "mean Cohen kappa 0." in out and ", none: 2" in out
    assert "12 functionalities" in out


def test_check_as_json(data: Command, tmp_path: Path) -> None:
    toml = own_set(tmp_path, [["1", "a", "0"], ["2", "b", "1"], ["3", "c", "1"]])
    code, out, err = data("check", toml, "--json")
    assert (code, err) == (0, "")
    (found,) = only_json(out)["datasets"]
    assert found["status"] == "ok"
    assert (found["sentences"], found["toxic"], found["respectful"], found["years"]) == (3, 2, 1, {})
    assert found["agreement"] is None
    (file,) = found["files"]
    assert file["sha256"] == hashlib.sha256((tmp_path / "mine.csv").read_bytes()).hexdigest()
    assert file["released"] is None


def test_check_tells_missing_files_and_bad_rows_apart(data: Command, tmp_path: Path) -> None:
    bad = own_set(tmp_path, [["1", "a", "0"], ["2", "b", "\x1b[31mred"]], "bad")
    code, out, err = data("check", "hatecheck", "--data", tmp_path)
    assert (code, err) == (1, "")
    assert out.startswith("hatecheck  MISSING\n")
    assert "needs the file 'test_suite_cases.csv', which is not below" in out
    code, out, _ = data("check", bad, "hatecheck", "sample-hatecheck", "--data", tmp_path)
    assert code == 2
    assert "bad  BAD\n" in out
    assert "bad.csv, row 3: the label in 'label' is '\\x1b[31mred', which is not one of '1', '0'" in out
    assert "\x1b" not in out
    assert "sample-hatecheck  50 sentences" in out  # a bad set does not hide the others
    code, out, _ = data("check", bad, "hatecheck", "--data", tmp_path, "--json")
    assert code == 2
    assert [found["status"] for found in only_json(out)["datasets"]] == ["bad", "missing"]


def test_check_compares_with_the_released_file(data: Command, tmp_path: Path) -> None:
    toml = released_set(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "the file.csv").write_bytes(BODY)
    code, out, _ = data("check", toml, "--data", tmp_path)
    assert code == 0
    assert f"{hashlib.sha256(BODY).hexdigest()} (as released)" in out
    (tmp_path / "the file.csv").write_bytes(BODY + b"3,c,0\n")
    code, out, _ = data("check", toml, "--data", tmp_path)
    assert code == 0
    assert "(another than the released one)" in out
    assert "is not the released file: its sha256 begins" in out


def test_check_without_names_means_the_study(data: Command, tmp_path: Path) -> None:
    code, out, _ = data("check", "--data", tmp_path, "--json")
    assert code == 1
    assert tuple(found["name"] for found in only_json(out)["datasets"]) == STUDY
    code, out, err = data("check", "--data", tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "nowhere does not exist; --data names the folder that holds the data sets" in err
    assert f"hatevolution data fetch --data {tmp_path / 'nowhere'}" in err


@pytest.mark.real_data
def test_check_of_the_real_files(data: Command, real_data: Path) -> None:
    code, out, _ = data("check", "--data", real_data, "--json")
    assert code == 1
    found = {item["name"]: item for item in only_json(out)["datasets"]}
    assert [found[name]["status"] for name in STUDY] == ["ok"] * 5 + ["missing"]
    assert [found[name]["sentences"] for name in STUDY[:5]] == [3000, 680, 1924, 2148, 3728]
    assert all(file["released"] for name in STUDY[:5] for file in found[name]["files"])
    agreement = found["neobench"]["agreement"]
    assert (round(agreement["mean_cohen_kappa"], 3), round(agreement["fleiss_kappa"], 3)) == (0.670, 0.660)
    assert found["singapore-online-attacks"]["warnings"][0].startswith("54 of the 3,000 sentences")


def test_fetch_gets_a_file_and_says_so_in_plain_lines(data: Command, tmp_path: Path, server: FileServer) -> None:
    server.files["the file.csv"] = BODY
    folder = tmp_path / "data"
    toml = released_set(tmp_path, server.url)
    code, out, err = data("fetch", toml, "--data", folder)
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "note: the authors of there state no licence; see https://example.org",
        f"there: fetching the file.csv ({len(BODY)} bytes)",
        f"there: the file.csv downloaded, {len(BODY)} bytes, checksum as released",
    ]
    code, _, err = data("fetch", toml, "--data", folder)
    assert code == 0
    assert err.splitlines()[1:] == [f"there: the file.csv is there already, {len(BODY)} bytes, checksum as released"]
    code, out, _ = data("check", toml, "--data", folder)
    assert code == 0
    assert "there  2 sentences (1 toxic, 1 respectful)" in out


def test_fetch_as_json(data: Command, tmp_path: Path, server: FileServer) -> None:
    server.files["the file.csv"] = BODY
    code, out, _ = data("fetch", released_set(tmp_path, server.url), "--data", tmp_path, "--json")
    assert code == 0
    (file,) = only_json(out)["files"]
    assert file == {
        "dataset": "there",
        "name": "the file.csv",
        "outcome": "downloaded",
        "path": str(tmp_path / "the file.csv"),
        "sha256": hashlib.sha256(BODY).hexdigest(),
        "bytes": len(BODY),
        "verified": True,
        "problem": None,
    }


def test_fetch_refuses_a_wrong_checksum(data: Command, tmp_path: Path, server: FileServer) -> None:
    server.files["the file.csv"] = b"something else"
    folder = tmp_path / "data"
    code, out, err = data("fetch", released_set(tmp_path, server.url), "--data", folder)
    assert (code, out) == (1, "")
    assert "the file.csv failed: " in err and "is not the released file: its sha256 is" in err
    assert list(folder.iterdir()) == []


def test_fetch_from_a_mirror_leaves_its_password_out(data: Command, tmp_path: Path, server: FileServer) -> None:
    mirror = server.url.replace("http://", "http://me:hunter2@") + "/sets"
    toml = released_set(tmp_path, "http://127.0.0.1:9")
    code, _, err = data("fetch", toml, "--data", tmp_path / "a", "--mirror", mirror)
    assert code == 1
    assert "/sets/the%20file.csv could not be downloaded: the server answers 404 Not Found." in err
    assert "hunter2" not in err
    server.files["the file.csv"] = BODY
    assert data("fetch", toml, "--data", tmp_path / "a", "--mirror", mirror)[0] == 0
    code, _, err = data("fetch", toml, "--data", tmp_path / "b", "--mirror", "ftp://me:hunter2@example.org")
    assert code == 2
    assert err == "hatevolution: The mirror's address has to be of the form https://HOST/PATH.\n"


def test_fetch_of_a_set_that_nobody_publishes(data: Command, tmp_path: Path) -> None:
    code, out, err = data("fetch", "sample-hatecheck", "--data", tmp_path)
    assert (code, out) == (2, "")
    assert "so there is nothing to fetch" in err
    assert data("fetch", "hatecheck")[0] == 2  # no folder given


def test_fetch_by_default_means_the_study_from_one_mirror(data: Command, tmp_path: Path, server: FileServer) -> None:
    server.script = [Behaviour(status=404)] * 20
    code, out, _ = data("fetch", "--data", tmp_path, "--mirror", server.url, "--alternatives", "--json")
    assert code == 1
    assert [file["dataset"] for file in only_json(out)["files"]] == [*STUDY[:3], "hatexplain", "hatexplain", *STUDY[3:]]
    assert server.requests[1][0] == "/inputs%20experiment%202.xlsx"
    assert list(tmp_path.iterdir()) == []


def test_fetch_on_a_terminal_shows_a_live_display(tmp_path: Path, server: FileServer) -> None:
    server.files["the file.csv"] = BODY * 20_000
    toml = released_set(tmp_path, server.url, BODY * 20_000)
    above, below = pty.openpty()
    command = [sys.executable, "-m", "hatevolution", "data", "fetch", str(toml), "--data", str(tmp_path / "data")]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=below, env=environment) as process:
        os.close(below)
        shown = b""
        while True:
            try:
                piece = os.read(above, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        out, _ = process.communicate(timeout=60)
    os.close(above)
    assert (process.returncode, out) == (0, b"")
    assert b"\x1b[" in shown
    assert b"there: the file.csv downloaded" in shown
    assert b"checksum as released" in shown


def test_the_group_explains_itself(data: Command) -> None:
    code, out, _ = data("--help")
    assert code == 0
    assert [name for name in ("check", "fetch", "list") if f"\n  {name} " in out] == ["check", "fetch", "list"]
