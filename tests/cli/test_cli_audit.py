"""``hatevolution audit`` as people and programs use it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_maker import HOSTILE, hostile_store, spoken_store
from statsmodels.stats.proportion import proportion_confint
from store_maker import Made, MadePrediction, MadeSentence, Maker, generate

from hatevolution.cli import main
from hatevolution.store.lock import WriterLock
from hatevolution.store.reader import connect

Run = tuple[int, str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("audit") / "s.db", 1, size=60)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> Run:
        with pytest.raises(SystemExit) as leave:
            main(["audit", *map(str, arguments)])
        out, err = capsys.readouterr()
        return int(leave.value.code or 0), out, err

    return run


def start(*arguments: object, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "hatevolution", "audit", *map(str, arguments)]
    return subprocess.Popen(command, text=True, encoding="utf-8", **more)


# -- listing -----------------------------------------------------------------------------------------------------


def test_broken_answers_page_by_page(made: Made, run: Any) -> None:
    broken = sum(p.outcome == "invalid" for p in made.predictions)
    code, out, err = run("--store", made.path, "--page-size", 3)
    assert (code, err) == (0, "")
    assert out.endswith(f"1 to 3 of {broken} broken answers, read by the policy paper. Next: --page 2\n")
    assert out.count("read as invalid (") == 3
    pages = -(-broken // 50)
    last = run("--store", made.path, "--page-size", 50, "--page", pages)[1]
    assert last.endswith(f" to {broken} of {broken} broken answers, read by the policy paper.\n")
    code, out, err = run("--store", made.path, "--page-size", 50, "--page", 10**6)
    assert (code, out) == (2, "") and f"There is no page 1000000: the last one is {pages} (--page-size 50)." in err
    assert run("--store", made.path, "--page", 10**6, "--json")[:2] == (2, "")


@pytest.mark.parametrize(
    "more",
    [[], ["--dataset", "paired"], ["--label", "toxic"], ["--change", "flip"], ["--parsed", "broken"], ["--year", 2021]],
)
def test_pairs_have_a_total(made: Made, run: Any, tmp_path: Path, more: list[object]) -> None:
    out = run("--store", made.path, "--pairs", "--page-size", 2, *more)[1]
    assert run("--store", made.path, "--pairs", *more, "--export", tmp_path / "x.jsonl")[0] == 0
    rows = len((tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines())
    assert rows > 2 and out.endswith(f"1 to 2 of {rows} rows, one for each pair and model. Next: --page 2\n")


@pytest.mark.parametrize(
    "more", [[], ["--label", "toxic"], ["--year", "2017-2019"], ["--search", "some"], ["--parser", "strict"]]
)
def test_disagreements_have_a_total(made: Made, run: Any, more: list[object]) -> None:
    view = ["--store", made.path, "--disagreements", *more]
    found = json.loads(run(*view, "--page-size", 10_000, "--json")[1])
    out = run(*view, "--page-size", 2)[1]
    assert len(found["rows"]) > 2 and not found["more"]
    assert out.endswith(f"1 to 2 of {len(found['rows'])} sentences that models label differently. Next: --page 2\n")


def test_pairs_show_what_a_classifier_said(tmp_path: Path, run: Any) -> None:
    maker = Maker(tmp_path / "s.db")
    pair = [MadeSentence(id=role, gold="toxic", pair="1", role=role) for role in ("original", "neologism")]
    maker.dataset("paired", pair)
    maker.model("scorer", parser="paper-threshold")
    maker.predictions(
        MadePrediction(model="scorer", dataset="paired", sentence=s.id, outcome="toxic", scores='{"TOXICITY": 0.8125}')
        for s in pair
    )
    out = run("--store", maker.done().path, "--pairs")[1]
    assert out.count('{"TOXICITY": 0.8125}') == 2


def test_tokens_of_a_list_are_not_those_of_a_sentence(tmp_path: Path, run: Any) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("plain", [MadeSentence(id=name) for name in "abc"])
    maker.model("m")
    maker.answers("m", "plain", ["invalid"] * 3)
    maker.connection.execute("DROP TRIGGER predictions_are_final")
    for response, tokens in ((1, 40), (2, 7)):
        maker.connection.execute(
            "INSERT INTO responses (response, run, received_at, latency_s, base_url, completion_tokens, body) "
            "VALUES (?, (SELECT run FROM runs), '2026-01-01T00:00:00Z', 0.1, 'http://x', ?, '{}')",
            (response, tokens),
        )
    maker.connection.execute("UPDATE predictions SET response = 1 WHERE sentence IN ('a', 'b')")
    maker.connection.execute("UPDATE predictions SET response = 2, completion_tokens = 7 WHERE sentence = 'c'")
    assert run("--store", maker.done().path, "--export", tmp_path / "x.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["completion_tokens"], row["request_completion_tokens"]) for row in rows] == [
        (None, 40), (None, 40), (7, 7),
    ]  # fmt: skip


def test_nothing_found(made: Made, run: Any) -> None:
    assert run("--store", made.path, "--kind", "refusal")[1] == "No broken answers, read by the policy paper.\n"
    assert run("--store", made.path, "--kind", "refusal", "--kinds")[1] == "No broken answers.\n"
    assert run("--store", made.path, "--search", "nowhere", "--pairs")[1] == "No pairs.\n"


def test_what_is_counted_is_told_in_words(made: Made, run: Any, tmp_path: Path) -> None:
    found = json.loads(run("--store", made.path, "--kinds", "--json")[1])
    out = run("--store", made.path, "--kinds")[1]
    total = len(found["rows"])
    assert total > 1 and out.endswith(f"1 to {total} of {total} rows, one for each model, data set and kind.\n")
    maker = Maker(tmp_path / "one.db")
    maker.dataset("plain", [MadeSentence(id="a")])
    maker.model("m")
    maker.answers("m", "plain", ["invalid"])
    path = maker.done().path
    assert run("--store", path)[1].endswith("\n1 of 1 broken answer, read by the policy paper.\n")
    assert run("--store", path, "--kinds")[1].endswith("\n1 of 1 row, of a kind.\n")


def test_one_json_document(made: Made, run: Any) -> None:
    code, out, err = run(
        "--store",
        made.path,
        "--json",
        "--model",
        "gappy-exact,gappy-chat",
        "--year",
        "2017-2018,2020",
        "--page-size",
        5,
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["filters"] == {
        "models": ["gappy-exact", "gappy-chat"],
        "years": [2017, 2018, 2020],
        "parsed": "broken",
        "parser": "paper",
    }
    assert (document["view"], document["page"], document["page_size"], document["more"]) == ("answers", 1, 5, True)
    assert len(document["rows"]) == 5
    assert all(row["year"] in (2017, 2018, 2020) and row["kinds"] for row in document["rows"])


def test_refused_rows_are_shown_when_asked_for(made: Made, run: Any) -> None:
    refused = sum(p.outcome == "refused" for p in made.predictions)
    out = run("--store", made.path, "--status", "refused", "--page-size", 1)[1]
    assert f"1 to 1 of {refused} answers" in out
    assert "read as refused" in out
    assert "(no text)" in out


@pytest.mark.parametrize("view", [(), ("--kinds",), ("--pairs",), ("--disagreements",), ("--differ", "paper,lenient")])
def test_hostile_texts_are_inert_on_a_terminal_and_in_a_document(
    tmp_path: Path, run: Any, view: tuple[str, ...]
) -> None:
    made = hostile_store(tmp_path / "s.db")
    code, out, _ = (
        run("--store", made.path, *view, "--page-size", 100, "--parsed", "any")
        if not view
        else run("--store", made.path, *view, "--page-size", 100)
    )
    assert code == 0
    assert all(char.isprintable() or char == "\n" for char in out)
    assert len(out) < 200_000  # a megabyte is cut
    if not view:
        assert "\\x1b[31mred" in out
        assert "[bold]x[/bold]" in out
        assert "abc\\u202edef" in out
        assert "broken \\ud800 here" in out
        assert "... (999600 more characters)" in out
    document = json.loads(run("--store", made.path, *view, "--page-size", 100, "--json")[1])
    if not view:
        assert {row["sentence"]: row["raw_text"] for row in document["rows"]} == dict(HOSTILE)


def test_the_cut_is_told(tmp_path: Path, run: Any) -> None:
    made = spoken_store(tmp_path / "s.db", {"m": ["abcdefghijklmnop"]}, sentences=[MadeSentence(id="a")])
    assert "answer    abcdefghij ... (6 more characters)" in run("--store", made.path, "--cut", 10)[1]


def test_pairs_mark_what_differs(tmp_path: Path, run: Any) -> None:
    sentences = [
        MadeSentence(id="1", pair="p", role="original", text="a big dog", type="lexical"),
        MadeSentence(id="2", pair="p", role="neologism", text="a smol dog", type="lexical"),
    ]
    made = spoken_store(tmp_path / "s.db", {"m": ["respectful", "toxic"]}, sentences=sentences)
    out = run("--store", made.path, "--pairs", "--change", "flip")[1]
    assert "a [big] dog" in out
    assert "a [smol] dog" in out
    assert "m · set · p · lexical   gold respectful, flip" in out
    assert run("--store", made.path, "--pairs", "--change", "same")[1] == "No pairs.\n"


def test_an_export_holds_every_row_and_says_so(made: Made, run: Any, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    code, out, err = run("--store", made.path, "--export", target, "--page-size", 2)
    broken = sum(p.outcome == "invalid" for p in made.predictions)
    assert (code, out, err) == (0, "", f"{broken} rows written to {target}\n")
    assert target.read_text().count("\n") == broken
    code, _, err = run("--store", made.path, "--export", target)
    assert (code, err.count("exists already")) == (2, 1)
    out = run("--store", made.path, "--export", tmp_path / "y.jsonl", "--page-size", 2, "--json")[1]
    assert len(json.loads(out)["rows"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kinds", "--pairs"], "--kinds and --pairs are two views; ask for one at a time."),
        (["--disagreements", "--kind", "echo"], "--kind does not go with --disagreements."),
        (["--differ", "paper"], "--differ takes two parse policies, such as paper,lenient."),
        (["--differ", "paper,strict", "--parser", "lenient"], "--parser does not go with --differ."),
        (["--change", "flip"], "--change goes with --pairs."),
        (["--pairs", "--change", "flop"], "there is no change 'flop'"),
        (["--status", "broken"], "'broken' is none of answered, refused, rejected."),
        (["--year", "2019-2017"], "'2019-2017' is no year and no range of years such as 2017-2019."),
        (["--year", "x"], "'x' is no year"),
        (["--model", "nobody"], "There is no model 'nobody' here"),
        (["--kind", "ech"], "did you mean 'echo'?"),
        (["--export", "x.doc"], "ends in none of .csv, .jsonl, .parquet, .xlsx"),
        (["label", "--sample", "3"], "Missing option '--store'"),
    ],
)
def test_wrong_usage_is_one_sentence(made: Made, run: Any, arguments: list[str], message: str) -> None:
    given = arguments if arguments[0] == "label" else ["--store", str(made.path), *arguments]
    code, out, err = run(*given)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_no_store(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATEVOLUTION_STORE", raising=False)
    assert "Missing option '--store'" in run()[2]
    assert "There is no store" in run("--store", tmp_path / "none.db")[2]
    assert not (tmp_path / "none.db").exists()


def test_options_before_a_subcommand_are_no_riddle(made: Made, run: Any) -> None:
    code, _, err = run("--store", made.path, "label", "--sample", 1)
    assert code == 2
    assert "options of `audit label` stand behind its name" in err


def test_on_a_terminal_a_long_page_goes_through_the_pager(made: Made, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    control, terminal = pty.openpty()
    environment = {**os.environ, "PAGER": str(pager), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "10"}
    process = start("--store", made.path, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    reader = threading.Thread(target=_drain, args=(control,), daemon=True)
    reader.start()
    assert process.wait(60) == 0
    os.close(control)
    paged = (tmp_path / "paged").read_text()
    assert "broken answers, read by the policy paper. Next: --page 2" in paged
    assert "\x1b[1m" in paged  # its own colours are kept


def _drain(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, 4096):
            pass


# -- judging -----------------------------------------------------------------------------------------------------


SAID = ["toxic", "Toxic.", "no idea", "not toxic", "respectful", "respectful"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    sentences = [MadeSentence(id=str(number), text=f"sentence {number}") for number in range(len(SAID))]
    return spoken_store(tmp_path / "s.db", {"m": SAID}, sentences=sentences).path


Judge = Callable[..., Run]


@pytest.fixture
def judge(store: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> Judge:
    def judge(keys: str, *more: object, who: str = "Ann", size: int = 6) -> Run:
        monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
        given: Run = run("label", "--store", store, "--sample", size, "--seed", 7, "--as", who, *more)
        return given

    return judge


def judgements(store: Path, who: str = "Ann") -> dict[str, str]:
    connection = connect(store)
    try:
        rows = connection.execute(
            "SELECT raw_text, sentence, judgement FROM counting_verdicts JOIN predictions USING (model, dataset, "
            "sentence) WHERE who = ?",
            [who],
        ).fetchall()
        return {sentence: judgement for _, sentence, judgement in rows}
    finally:
        connection.close()


def shown(err: str) -> list[str]:
    return [line.partition("sentence  sentence ")[2] for line in err.splitlines() if "sentence  sentence" in line]


def test_a_sitting_is_gone_on_with_and_every_key_does_its_work(store: Path, judge: Judge) -> None:
    code, out, err = judge("t x\nr q")
    order = shown(err)
    assert (code, len(order)) == (0, 4)  # the wrong key shows the second one again, and a third was shown at the end
    assert "'x' does nothing" in err
    assert "4 answers are left; the same command goes on with them." in err
    assert judgements(store) == {order[0]: "toxic", order[1]: "respectful"}
    assert "Judged by Ann: 2 of 6 answers, 0 of them undecided (sample of 6 answers, seed 7)." in out
    _, _, err = judge("bi")  # back from the third to the second, which is invalid after all; then the pipe ends
    assert shown(err)[:2] == [order[3], order[1]]
    assert "(so far: respectful)" in err
    assert judgements(store) == {order[0]: "toxic", order[1]: "invalid"}
    code, out, err = judge("uuuu")
    assert set(judgements(store).values()) == {"toxic", "invalid", "undecided"}
    assert "left" not in err
    assert "Judged by Ann: 6 of 6 answers, 4 of them undecided" in out
    assert judge("")[2] == ""  # nothing left to do
    connection = connect(store)
    assert [row[0] for row in connection.execute("SELECT raw_text FROM predictions ORDER BY rowid")] == SAID
    connection.close()


def test_agreement_is_printed_with_its_interval(store: Path, judge: Judge) -> None:
    truth = {"toxic": "t", "Toxic.": "t", "no idea": "i", "not toxic": "r", "respectful": "r"}
    while len(judgements(store)) < len(SAID):
        judge(truth[SAID[int(shown(judge("q")[2])[0])]])
    code, out, _ = judge("", "--results", "--json")
    assert code == 0
    document = json.loads(out)
    found = {item["policy"]: item for item in document["policies"]}
    assert (found["paper"]["judged"], found["paper"]["agreed"]) == (6, 4)
    assert (found["paper"]["lost"], found["paper"]["invented"], found["paper"]["reversed"]) == (2, 0, 0)
    assert found["strict@1"]["agreed"] == 5
    low, high = proportion_confint(4, 6, alpha=0.05, method="wilson")
    assert (found["paper"]["share"]["low"], found["paper"]["share"]["high"]) == pytest.approx((low, high))
    out = judge("", "--results")[1]
    assert "30.0 to 90.3" in out


def test_people_judge_the_same_sample_apart(store: Path, judge: Judge) -> None:
    first, second = judge("t", who="Ann")[2], judge("r", who="Bob")[2]
    assert shown(first) == shown(second)
    key = shown(first)[0]
    assert (judgements(store)[key], judgements(store, "Bob")[key]) == ("toxic", "respectful")


def test_a_sample_of_another_seed_or_filter_is_another_one(store: Path, run: Any, judge: Judge) -> None:
    judge("t")
    assert "this sample was not drawn yet" in run("label", "--store", store, "--sample", 6, "--seed", 8, "--results")[2]
    assert "nothing to judge" in run("label", "--store", store, "--sample", 6, "--kind", "refusal")[2]


def test_a_larger_sample_keeps_what_was_judged(judge: Judge) -> None:
    first = shown(judge("tt", size=2)[2])
    _, out, err = judge("", size=5)
    assert "Judged by Ann: 2 of 5 answers" in out
    assert shown(err)[0] not in first


def test_keys_come_through_a_pipe(store: Path) -> None:
    process = start("label", "--store", store, "--sample", 6, "--as", "Ann", stdin=-1, stdout=-1, stderr=-1)
    out, _ = process.communicate("t\nr\n", timeout=60)
    assert process.returncode == 0
    assert sorted(judgements(store).values()) == ["respectful", "toxic"]
    assert "Judged by Ann: 2 of 6 answers" in out


def test_a_judgement_waits_for_a_run_that_writes(store: Path, judge: Judge) -> None:
    judge("q")  # draws the sample
    lock = WriterLock(store)
    lock.acquire("a-run")
    try:
        process = start(
            "label", "--store", store, "--sample", 6, "--seed", 7, "--as", "Ann", stdin=-1, stdout=-1, stderr=-1
        )
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("t")
        process.stdin.flush()
        for line in process.stderr:
            if "waiting to store the judgement" in line:
                break
        assert judgements(store) == {}
    finally:
        lock.release()
    process.communicate("q", timeout=60)
    assert process.returncode == 0
    assert list(judgements(store).values()) == ["toxic"]


def test_keys_on_a_terminal_need_no_return(store: Path) -> None:
    control, terminal = pty.openpty()
    process = start(
        "label", "--store", store, "--sample", 6, "--seed", 7, "--as", "Ann",
        stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    os.write(control, b"t\x1b[Bi")  # pressed before the program is there: the arrow key is no "b"
    reader = threading.Thread(target=_drain, args=(control,), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while len(judgements(store)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.write(control, b"q")
    assert process.wait(60) == 0
    os.close(control)
    assert sorted(judgements(store).values()) == ["invalid", "toxic"]


def test_a_person_is_not_told_what_to_think(store: Path, judge: Judge) -> None:
    err = judge("tttttt")[2]
    assert "gold" not in err
    assert "read as" not in err
