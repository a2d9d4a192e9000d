"""`hatevolution store`, end to end: exit codes, documents, sentences for people, and the numbers at the end."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from exchange_maker import Shard, content, rows, some_sentences
from foreign_maker import inspect_eval, inspect_sample, lm_eval_sample, write_lines
from run_files import Project

from hatevolution.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Result = tuple[int, str, str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command, in this process: exit code, standard output, standard error."""

    def called(*arguments: Any) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return called


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result[1])
    assert found["exit_code"] == result[0]
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a real run made: embedded models on two of the shipped samples."""
    store = tmp_path_factory.mktemp("ran") / "ran.db"
    arguments = ["run", "quickstart", "--store", str(store), "--models", "always-toxic,seeded-random"]
    arguments += ["--datasets", "sample-hatecheck,sample-neobench,sample-singapore-online-attacks"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hatevolution", *arguments], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return store


def shards(folder: Path) -> list[Path]:
    one = Shard(folder / "a.db", "run-a").ask([("s1", "toxic"), ("s2", "toxic")]).end()
    other = Shard(folder / "b.db", "run-b").ask([("s2", "respectful\x1b[31m"), ("s3", "toxic")]).end()
    return [one.path, other.path]


def test_the_way_out_and_back_gives_the_same_numbers_bit_for_bit(
    ran: Path, tmp_path: Path, call: Callable[..., Result]
) -> None:
    exported = call("store", "export", "--store", ran, "--out", tmp_path / "out", "--json")
    assert exported[0] == 0
    back = tmp_path / "back.db"
    assert document(call("store", "import", tmp_path / "out", "--store", back, "--json"))["conflicting"] == 0
    scores = [call("score", "--store", store, "--json") for store in (ran, back)]
    assert scores[0][0] == 0
    # As text, so that every digit counts; the store's own path is in it too.
    assert scores[0][1].replace(str(ran), "") == scores[1][1].replace(str(back), "")
    assert len(json.loads(scores[0][1])["scores"]) > 20
    status = [json.loads(call("status", "--store", store, "--json")[1]) for store in (ran, back)]
    assert status[0]["cells"] == status[1]["cells"]
    assert call("store", "verify", "--store", back)[0] == 0


def test_a_real_run_is_verified_and_backed_up(ran: Path, tmp_path: Path, call: Callable[..., Result]) -> None:
    code, out, _ = call("store", "verify", "--store", ran)
    assert code == 0, out
    assert [line.split()[1] for line in out.splitlines() if not line.startswith(" ")] == ["ok"] * 9
    found = document(call("store", "verify", "--store", ran, "--json"))
    assert found["ok"]
    assert {check["name"]: check["checked"] for check in found["checks"]}["prompts"] > 50
    made = document(call("store", "backup", "--store", ran, "--out", tmp_path / "b.db", "--json"))
    assert made["bytes"] == (tmp_path / "b.db").stat().st_size
    assert content(tmp_path / "b.db") == content(ran)
    code, _, err = call("store", "backup", "--store", ran, "--out", tmp_path / "b.db")
    assert code == 2
    assert err.startswith(f"hatevolution: {tmp_path / 'b.db'} exists already; a backup never overwrites anything.")
    assert err.count("\n") == 1


def test_a_merge_without_conflicts_ends_with_0(tmp_path: Path, call: Callable[..., Result]) -> None:
    one = Shard(tmp_path / "a.db", "run-a").ask([("s1", "toxic")])
    code, out, err = call("store", "merge", one.path, "--store", tmp_path / "all.db")
    assert (code, err) == (0, "")
    assert "1 new answers from 1 source, 0 second" in out
    code, out, _ = call("store", "merge", one.path, "--store", tmp_path / "all.db")
    assert code == 0
    assert "nothing new" in out or "0 new answers" in out


def test_conflicts_are_named_and_end_with_1_each_time(tmp_path: Path, call: Callable[..., Result]) -> None:
    sources = shards(tmp_path)
    for _ in range(2):
        code, out, _ = call("store", "merge", *sources, "--store", tmp_path / "all.db")
        assert code == 1
        assert "m  set  s2  answered: 'toxic'  but answered: 'respectful\\x1b[31m'" in out
        assert "\x1b" not in out
    found = document(call("store", "merge", *sources, "--store", tmp_path / "all.db", "--json"))
    assert found["conflicting"] == 1
    assert [source["conflicts"] for source in found["sources"]] == [0, 1]
    assert found["conflicts"][0]["sentence"] == "s2"
    assert call("store", "verify", "--store", tmp_path / "all.db")[0] == 0


def test_a_refused_merge_is_one_sentence_and_2(tmp_path: Path, call: Callable[..., Result]) -> None:
    one = Shard(tmp_path / "a.db", "run-a")
    other = Shard(tmp_path / "b.db", "run-b", decoding={"max_tokens": 5})
    code, out, err = call("store", "merge", one.path, other.path, "--store", tmp_path / "all.db")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "decoding.max_tokens: null -> 5" in err
    assert not (tmp_path / "all.db").exists()
    code, _, err = call("store", "merge", "--store", tmp_path / "all.db")
    assert code == 2
    assert "SRC" in err


def test_damage_ends_with_1_and_is_spelled_out(tmp_path: Path, call: Callable[..., Result]) -> None:
    import sqlite3

    made = Shard(tmp_path / "a.db", "run-a").ask([("s1", "toxic")])
    with sqlite3.connect(made.path) as connection:
        connection.execute("UPDATE sentences SET text = 'other' WHERE sentence = 's1'")
    connection.close()
    code, out, _ = call("store", "verify", "--store", made.path)
    assert code == 1
    assert "the texts of set are not those that were read" in out
    assert "m, set, s1: the prompt's checksum" in out
    code, out, _ = call("store", "backup", "--store", made.path, "--out", tmp_path / "b.db")
    assert code == 1
    assert "a true copy of a store that is not well" in out
    assert (tmp_path / "b.db").exists()


# -- answers that others made --------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset("mine", 10)
    made.model("theirs", prompt="paper-chat", adapter="openai-chat", endpoint={"base_urls": ["http://localhost:9/v1"]})
    return made


def arguments(project: Project, source: Path, *more: str) -> list[str]:
    return [
        "store", "import", str(source), "--store", str(project.store),
        "--model-config", str(project.folder / "theirs.model.toml"),
        "--dataset", str(project.folder / "mine.set.toml"), *more,
    ]  # fmt: skip


def test_a_notebooks_table_becomes_a_run_that_can_be_scored(project: Project, call: Callable[..., Result]) -> None:
    source = project.folder / "mine_theirs.csv"
    with source.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "results"])
        writer.writerows([f"s{n}", "Error" if n == 4 else "respectful" if n % 3 else "toxic"] for n in range(11))
    code, out, err = call(*arguments(project, source))
    assert (code, err) == (1, "")
    assert "record 6: no answer: a failed request ('Error')" in out
    assert "record 12: not matched: there is no sentence with the id 's10'" in out
    found = document(call(*arguments(project, source, "--json")))
    assert (found["matched"], found["answers"], found["missing"]) == (9, 0, 1)
    assert found["failures"] == [{"row": 6, "why": "a failed request ('Error')"}]
    assert call("store", "verify", "--store", project.store)[0] == 0
    status = json.loads(call("status", "--store", project.store, "--json")[1])
    assert [(c["model"], c["dataset"], c["answered"], c["pending"]) for c in status["cells"]] == [
        ("theirs", "mine", 9, 1)
    ]
    scores = json.loads(call("score", "--store", project.store, "--json")[1])["scores"]
    (macro,) = [row for row in scores if row["metric"] == "macro_f1" and row["group"] is None]
    assert (macro["n"], macro["scored"], macro["missing"]) == (10, 9, 1)
    # By name, now that the store has the set.
    by_name = [*arguments(project, source)[:-1], "mine"]
    assert call(*by_name)[0] == 1


@pytest.mark.real_data
def test_a_table_about_a_real_set_is_matched_whole(
    real_data: Path, project: Project, call: Callable[..., Result]
) -> None:
    """Ids as the study's own files have them, and a table as its notebooks write it."""
    import pandas as pd

    frame = pd.read_excel(next(real_data.rglob("English_Online_Attacks_testset.xlsx")), engine="openpyxl")
    source = project.folder / "soa_theirs.csv"
    labels = frame["label"].map({0: "respectful", 1: "toxic"})
    pd.DataFrame({"id": frame["id"].tolist(), "results": labels.tolist()}).to_csv(source, index=False)
    about = ["--dataset", "singapore-online-attacks", "--data", str(real_data)]
    code, out, _ = call(*arguments(project, source)[:-2], *about)
    assert code == 0, out
    scores = json.loads(call("score", "--store", project.store, "--json")[1])["scores"]
    (macro,) = [row for row in scores if row["metric"] == "macro_f1" and row["group"] is None]
    assert (macro["value"], macro["scored"], macro["missing"]) == (1.0, 3000, 0)


def test_a_complete_import_ends_with_0(project: Project, call: Callable[..., Result]) -> None:
    texts = [f"sentence number {n}." for n in range(10)]
    samples = [inspect_sample(f"s{n}", text, "toxic") for n, text in enumerate(texts)]
    log = inspect_eval(project.folder / "log.eval", samples)
    code, out, _ = call(*arguments(project, log))
    assert code == 0
    assert "note: 10 records tell of another prompt" in out
    lines = [lm_eval_sample(n, {"text": text}, text, "toxic") for n, text in enumerate(texts)]
    jsonl = write_lines(project.folder / "samples.jsonl", lines)
    found = document(call(*arguments(project, jsonl, "--format", "lm-eval", "--json")))
    assert (found["matched"], found["answers"], found["agreeing"], found["conflicting"]) == (10, 0, 10, 0)
    assert rows(project.store, "SELECT outcome, note LIKE 'imported from%' FROM runs") == [("complete", 1)] * 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"--dataset": None}, "--dataset is needed"),
        ({"--model-config": None}, "--model-config is needed"),
        ({"--model-config": "nobody"}, "There is no model named 'nobody'"),
        ({"--dataset": "nothing"}, "There is no dataset named 'nothing'"),
        ({"--data": "/nowhere"}, "The data folder /nowhere does not exist"),
        ({"FROM": "missing.csv"}, "There is no file missing.csv"),
        ({"FROM": "answers.txt"}, "say --format csv, jsonl, inspect, lm-eval"),
        ({"--answer-column": "label"}, "has no column 'label'; it has: 'id', 'results'"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    project: Project, call: Callable[..., Result], change: dict[str, str | None], text: str
) -> None:
    source = project.folder / "a.csv"
    source.write_text("id,results\ns1,toxic\n")
    given: dict[str, str | None] = {
        "FROM": str(source),
        "--store": str(project.store),
        "--model-config": str(project.folder / "theirs.model.toml"),
        "--dataset": str(project.folder / "mine.set.toml"),
        **change,
    }
    words = [str(given.pop("FROM"))]
    for name, value in given.items():
        words += [] if value is None else [name, value]
    code, out, err = call("store", "import", *words)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert not project.store.exists()


def test_a_key_in_an_address_does_not_get_into_the_store(project: Project, call: Callable[..., Result]) -> None:
    project.model("theirs", prompt="paper-chat", adapter="openai-chat", endpoint={"base_urls": ["http://u:pw@host/v1"]})
    source = project.folder / "a.csv"
    source.write_text("id,results\ns1,toxic\n")
    code, _, err = call(*arguments(project, source))
    assert code == 2
    assert "user name or password" in err
    assert "pw" not in err.replace("password", "")
    assert not project.store.exists()


# -- the real command in a process of its own ------------------------------------------------------------------------


def start(*words: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "hatevolution", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_ends_a_merge_with_130_and_a_second_start_completes_it(tmp_path: Path) -> None:
    sets = {"set": some_sentences(130)}
    sources = []
    for n in range(30):
        made = Shard(tmp_path / f"n{n}.db", f"run-{n}", datasets=sets)
        sources.append(made.ask([(f"s{at}", f"say {n}") for at in range(n, n + 100)]).path)
    process = start("store", "merge", *sources, "--store", tmp_path / "all.db")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        (tmp_path / "all.db").exists() and rows(tmp_path / "all.db", _MIGRATED)[0][0]
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) in ((130, ""), (1, out))  # 1: it was quicker than the signal
    assert "Traceback" not in err
    process = start("store", "merge", *sources, "--store", tmp_path / "all.db", "--json")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert json.loads(out)["conflicting"] > 1000
    assert rows(tmp_path / "all.db", "SELECT count(*) FROM runs") == [(30,)]
    (kept,), (apart,) = rows(
        tmp_path / "all.db", "SELECT count(*) FROM predictions UNION ALL SELECT count(*) FROM second_answers"
    )
    assert kept + apart == 30 * 100


_MIGRATED = "SELECT count(*) FROM sqlite_master WHERE name = 'second_verdicts'"
