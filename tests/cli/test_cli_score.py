"""``hatevolution score`` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from reference import rows, sentence_metrics
from store_maker import Made, MadeSentence, Maker, generate

from hatevolution.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("score") / "s.db", 5)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["score", *args])
    captured = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    code, out, _ = run(capsys, *args, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_is_tidy_and_equals_scikit_learn(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--store", str(made.path))
    assert (found["parser"], found["invalid"]) == ("paper", "drop")
    compared = 0
    for row in found["scores"]:
        assert row["n"] == sum(row[name] for name in ("scored", "invalid", "refused", "rejected", "missing"))
        assert (row["value"] is None) == ("reason" in row)
        if row["group"] is not None or row["metric"] != "macro_f1" or row["model"] == "Together":
            continue
        records = [r for r in rows(made, row["model"], row["dataset"]) if r["gold"] is not None]
        if row["dataset"] == "paired":
            records = [record for record in records if record["role"] == "original"]
        golds, outcomes, raw = ([str(r[name]) for r in records] for name in ("gold", "outcome", "raw"))
        expected = sentence_metrics(golds, outcomes, raw, "drop")["macro_f1"]
        assert row["value"] is None if expected is None else abs(row["value"] - expected) <= 1e-12
        compared += 1
    assert compared == len(made.models) * len(made.datasets)
    years = {row["group"]["year"] for row in found["scores"] if row["group"] and "year" in row["group"]}
    assert years == {2016, 2017, 2018, 2019, 2020, 2021, 2022}


def test_tables_come_in_the_studys_order(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--store", str(made.path))
    assert code == 0
    (keys,) = [line.removeprefix("Keys for --tables: ") for line in out.splitlines() if line.startswith("Keys for ")]
    assert keys.split(", ") == [
        "3", "3:timed-gap", "4",
        "static:cases", "static:plain", "static:one-class", "static:unlabelled", "static:empty",
        "2", "5", "A1", "A1:timed-gap", "A2", "A3", "A4", "A5", "A6", "A11", "A12", "A13",
        "functionality:cases", "target:cases",
    ]  # fmt: skip
    numbers = [line.split(".")[0] for line in out.splitlines() if line.startswith("Table ")]
    assert numbers == [f"Table {key.partition(':')[0]}" for key in keys.split(", ") if key[0] in "A2345"]
    assert "\nplain: macro F1 of valid answers, and their share\n" in out  # a key is nothing to read
    assert "An invalid answer counts as (drop): left out (as published)." in out
    assert "paper-exact@1" in out


def test_the_tables_that_were_asked_for_decide_what_stands_in_every_form(
    made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = document(capsys, "--store", str(made.path), "--tables", "a2,STATIC:plain", "--intervals", "50")
    whole = document(capsys, "--store", str(made.path), "--intervals", "50")
    assert [table["table"] for table in found["tables"]] == ["static:plain", "A2"]
    assert {(row["dataset"], row["metric"]) for row in found["scores"]} == {
        ("plain", "macro_f1"), ("plain", "expected_output"), ("paired", "label_flip"),
    }  # fmt: skip
    assert all(row in whole["scores"] for row in found["scores"])
    assert {row["group"]["year"] for row in found["scores"] if row["group"]} == {2020, 2021, 2022}
    assert (found["correlations"], found["rankings"], "trends" in found) == ([], [], False)
    shown = {(cell["row"], cell["column"]): cell["value"] for cell in found["tables"][0]["cells"]}
    for row in found["scores"]:
        if row["metric"] == "macro_f1" and row["model"] in {name for name, _ in shown}:
            assert shown[row["model"], "Macro F1"] == row["value"]
    code, _, _ = run(capsys, "--store", str(made.path), "--tables", "a11", "--out", str(tmp_path / "out"))
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["scores.csv", "table-A11.csv"]
    assert len((tmp_path / "out" / "scores.csv").read_text(encoding="utf-8").splitlines()) == 1
    plain = document(capsys, "--store", str(made.path))["correlations"]
    assert document(capsys, "--store", str(made.path), "--tables", "A11")["correlations"] == plain != []


def test_a_table_that_is_not_there_is_told_with_the_nearest(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--store", str(made.path), "--tables", "A99")
    assert (code, out) == (2, "") and "There is no table 'A99' here" in err


def test_what_limit_left_out_was_not_asked_and_each_year_has_its_own_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    maker = Maker(tmp_path / "s.db")
    golds = {2017: ("toxic", "respectful"), 2018: ("toxic", "toxic"), 2019: ("respectful", "respectful")}
    golds |= {2020: ("toxic", "respectful"), 2021: ("toxic", "respectful")}
    sentences = [
        MadeSentence(id=f"{year}-{number}", gold=gold, year=year)
        for year, pair in golds.items()
        for number, gold in enumerate(pair)
    ]
    maker.dataset("timed", sentences, title="Timed")
    maker.dataset("plain", [MadeSentence(id="1", gold="toxic")])
    maker.dataset("unlabelled", [MadeSentence(id="1", gold=None)], title="Nothing to score")
    maker.model("m")
    maker.answers("m", "timed", [*["toxic"] * 6, *["invalid"] * 2, *["missing"] * 2])
    maker.done()
    found = document(capsys, "--store", str(maker.made.path))
    reasons = {
        (row["dataset"], row["metric"], (row["group"] or {}).get("year")): row.get("reason") for row in found["scores"]
    }
    lacks = {label: f"no {label} sentence among those that count" for label in ("toxic", "respectful")}
    assert reasons["timed", "f1_nonhateful", 2018] == reasons["timed", "macro_f1", 2018] == lacks["respectful"]
    assert reasons["timed", "f1_hateful", 2019] == reasons["timed", "macro_f1", 2019] == lacks["toxic"]
    assert reasons["timed", "macro_f1", 2020] == "no valid answer"
    not_asked = "not asked: every sentence is missing"
    assert reasons["timed", "macro_f1", 2021] == reasons["plain", "macro_f1", None] == not_asked
    assert reasons["timed", "time_sensitive_macro_f1", None] == (
        f"not defined in 2018: {lacks['respectful']}; in 2019: {lacks['toxic']}; in 2020: no valid answer; "
        f"in 2021: {not_asked}"
    )
    assert reasons["timed", "f1_nonhateful_std_over_years", None] == (
        f"not defined in 2018: {lacks['respectful']}; in 2020: no valid answer; in 2021: {not_asked}"
    )
    _, out, _ = run(capsys, "--store", str(maker.made.path), "--tables", "static:unlabelled,static:plain")
    assert "stands on all its rows" not in out and "no sentence with a gold label" in out


@pytest.mark.parametrize(
    ("invalid", "title", "note"),
    [
        ("drop", "macro F1 of valid answers, and their share", "of the pairs with two valid answers"),
        ("class", "macro F1 with invalid answers as a third class", "an invalid answer is a third label"),
        ("raw", "macro F1 with every invalid text as a class of its own", "every invalid text is a label of its own"),
        ("wrong", "macro F1 with invalid answers as misses", "an invalid answer is a flip"),
        ("worst", "lower bound of macro F1", "upper bound: every pair without two valid answers flips"),
    ],
)
def test_titles_and_notes_say_what_an_invalid_answer_counts_as(
    made: Made, capsys: pytest.CaptureFixture[str], invalid: str, title: str, note: str
) -> None:
    _, out, _ = run(capsys, "--store", str(made.path), "--invalid", invalid, "--tables", "4,static:plain")
    assert f"plain: {title}" in out and note in out
    assert ("of valid answers, and their" in out) == (invalid == "drop")


def test_notes_stand_under_the_tables_that_they_are_about_and_name_titles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    maker = Maker(tmp_path / "s.db")
    pairs = [
        MadeSentence(id=f"{pair}-{role}", gold="toxic" if pair < 2 else "respectful", pair=str(pair), role=role)
        for pair in range(4)
        for role in ("original", "neologism")
    ]
    maker.dataset("paired", pairs, title="Paired set")
    plain = [MadeSentence(id=str(row), gold="toxic" if row < 2 else "respectful") for row in range(4)]
    for name in ("one", "two"):
        maker.dataset(name, plain, title=f"Set {name}")
    for number in range(4):
        maker.model(f"model-{number}", title=f"Model {number}")
        flips = ["toxic", "respectful"] * number + ["toxic"] * (8 - 2 * number)
        maker.answers(f"model-{number}", "paired", flips)
        for name in ("one", "two"):
            maker.answers(f"model-{number}", name, [*["toxic"] * number, *["respectful"] * (4 - number)])
    maker.done()
    _, out, _ = run(capsys, "--store", str(maker.made.path), "--tables", "5,A11,A12")
    five, eleven = out.index("Table 5."), out.index("Table A11.")
    last = "Last in Experiment 2 since all their valid answers are one label: Model 0."
    assert last in out[five:eleven] and "Experiment 2" not in out[eleven : out.index("Table A12.")]
    assert "n = 4 models" in out[eleven:] and "Intervals at 90 %." in out[out.index("Table A12.") :]
    assert "model-0" not in out


def test_another_parser_sends_nothing_and_changes_text_models_alone(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = document(capsys, "--store", str(made.path))
    strict = document(capsys, "--store", str(made.path), "--parser", "strict")
    parsers = {model["model"]: model["parser"] for model in strict["models"]}
    assert parsers["gappy-exact"] == "strict" and parsers["scores"] == "paper-threshold"
    changed = {
        old["model"]
        for old, new in zip(paper["scores"], strict["scores"], strict=True)
        if old != new
    }  # fmt: skip
    assert changed and changed <= {name for name, parser in parsers.items() if parser == "strict"}
    _, out, _ = run(capsys, "--store", str(made.path), "--parser", "strict", "--tables", "2")
    assert "so that scores, flags, classes, member-a, member-b kept their own rule" in out


def test_selection(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--store", str(made.path), "--models", "flags,classes", "--datasets", "plain")
    assert {row["model"] for row in found["scores"]} == {"flags", "classes"}
    assert {row["dataset"] for row in found["scores"]} == {"plain"}


@pytest.mark.parametrize("form", ["csv", "parquet", "md", "latex"])
def test_out_writes_files_and_says_so_on_standard_error(
    made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    code, out, err = run(
        capsys, "--store", str(made.path), "--tables", "3,4", "--out", str(tmp_path / "t"), "--format", form
    )
    assert code == 0 and "Table 3." in out and "files written to" in err
    ending = {"latex": "tex"}.get(form, form)
    assert (tmp_path / "t" / f"table-4.{ending}").is_file()
    assert (tmp_path / "t" / ("scores.parquet" if form == "parquet" else "scores.csv")).is_file()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--models", "flgs"], "did you mean 'flags'"),
        (["--datasets", "plains"], "did you mean 'plain'"),
        (["--parser", "lenint"], "did you mean 'lenient'"),
        (["--tables", "A77"], "There is no table 'A77'"),
        (["--parser", "./none.toml"], "can't be read"),
        (["--invalid", "dropp"], "Invalid value for '--invalid'"),
    ],
)
def test_wrong_names_are_one_sentence(
    made: Made, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    code, out, err = run(capsys, "--store", str(made.path), *args)
    assert code == 2 and out == "" and message in err and "Traceback" not in err


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATEVOLUTION_STORE", raising=False)
    assert run(capsys)[0] == 2
    code, _, err = run(capsys, "--store", str(tmp_path / "none.db"))
    assert code == 2 and "There is no store at" in err
    (tmp_path / "text.db").write_text("no database at all, but long enough to be read as one" * 20)
    code, _, err = run(capsys, "--store", str(tmp_path / "text.db"))
    assert code == 2 and "Traceback" not in err


def test_the_store_may_come_from_the_environment(
    made: Made, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATEVOLUTION_STORE", str(made.path))
    assert run(capsys, "--tables", "2")[0] == 0


def test_nothing_in_a_store_acts_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maker = Maker(tmp_path / "s.db")
    evil = "\x1b]0;owned\x07[red]model\u202e"
    maker.model("m", title=evil)
    maker.dataset("d", [MadeSentence(id="1", functionality="=1+1\x1b[2J")], title=evil)
    maker.answers("m", "d", ["respectful"])
    code, out, _ = run(capsys, "--store", str(maker.done().path))
    assert code == 0 and "\x1b" not in out and "\u202e" not in out and "[red]model" in out


def test_scoring_leaves_the_store_as_it_was(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    before = made.path.read_bytes()
    run(capsys, "--store", str(made.path))
    assert made.path.read_bytes() == before


def test_the_command_is_imported_without_the_heavy_packages() -> None:
    code = (
        "import sys, hatevolution.cli.score\n"
        "print([name for name in ('polars', 'scipy', 'numpy', 'rich.table') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_intervals(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--store", str(made.path), "--intervals", "40", "--seed", "3", "--confidence", "0.8")
    found = document(capsys, *args)
    assert found["bootstrap"] == {"seed": 3, "resamples": 40, "confidence": 0.8, "method": "percentile"}
    rows_with = [row for row in found["scores"] if row["value"] is not None]
    assert all(row["low"] is None or row["low"] <= row["high"] for row in rows_with)
    assert sum(row["low"] is not None for row in rows_with) > 0.9 * len(rows_with)
    assert {"over_models", "over_sentences", "p_permutation", "p_holm"} <= set(found["correlations"][0])
    for name in ("rank_probabilities", "differences", "trends", "base_rates", "kappas", "alphas"):
        assert found[name]
    assert document(capsys, *args) == found, "a seed stands for the same numbers"
    other = document(capsys, "--store", str(made.path), "--intervals", "40", "--seed", "4", "--confidence", "0.8")
    assert other["scores"] != found["scores"]
    assert [row["value"] for row in other["scores"]] == [row["value"] for row in found["scores"]]


def test_intervals_in_tables_and_files(made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(
        capsys, "--store", str(made.path), "--intervals", "30", "--out", str(tmp_path),
        "--tables", "4,correlations,ranks,differences,trend,agreement",
    )  # fmt: skip
    assert code == 0 and "[low, high]: percentile bootstrap" in out and "30 resamples, seed 0" in out
    assert "Share of hateful texts: 2017:" in out and "Krippendorff's alpha" in out
    names = {path.name for path in tmp_path.iterdir()}
    assert "With --out, every two models' kappa is in the file kappas." in out
    assert {"table-4.intervals.csv", "differences.csv", "rank-probabilities.csv", "trends.csv", "kappas.csv"} <= names


def test_intervals_without_a_number_are_2000(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--store", str(made.path), "--datasets", "one-class", "--intervals")
    assert found["bootstrap"]["resamples"] == 2000


def test_raw_has_no_intervals(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--store", str(made.path), "--invalid", "raw", "--intervals")
    assert code == 2 and "can't be had with --invalid raw" in err


def test_against(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--store", str(made.path), "--against", "lenient")["against"]
    paper, lenient = (document(capsys, "--store", str(made.path), "--parser", name) for name in ("paper", "lenient"))
    assert found["parser"] == "lenient"
    changed = [
        (one["value"], two["value"])
        for one, two in zip(paper["scores"], lenient["scores"], strict=True)
        if one["value"] != two["value"]
    ]
    assert sorted(map(str, changed)) == sorted(str((row["before"], row["after"])) for row in found["metrics"])
    assert changed and found["rows"]
    raw = {(p.model, p.dataset, p.sentence): p.raw_text for p in made.predictions}
    for row in found["rows"]:
        text = raw[row["model"], row["dataset"], row["sentence"]]
        assert row["raw_text"] == (text or "").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        assert row["before"] != row["after"]
    orders = [{item["name"]: item["order"] for item in one["rankings"]} for one in (paper, lenient)]
    assert found["ranks"] and orders[0] != orders[1]
    code, out, _ = run(capsys, "--store", str(made.path), "--against", "lenient", "--tables", "against")
    assert code == 0 and "Answers that lenient reads otherwise than paper" in out and "Ranks that change" in out


def test_the_same_policy_changes_nothing(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--store", str(made.path), "--against", "paper")["against"]
    assert found["rows"] == found["metrics"] == found["ranks"] == []
    code, out, _ = run(capsys, "--store", str(made.path), "--against", "paper", "--tables", "against")
    shown = [line.strip() for line in out.partition("Answers read by")[0].splitlines() if line.strip()]
    assert code == 0 and shown == [
        "Answers that paper reads otherwise than paper: 0", "No answer is read otherwise.",
        "Metrics of whole sets that change", "No metric of a whole set changes.",
        "Ranks that change", "No rank changes.",
    ]  # fmt: skip


def test_a_choice_of_tables_does_not_hide_what_was_asked_against(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--store", str(made.path), "--against", "lenient", "--tables"]
    compared = ["against:rows", "against:metrics", "against:ranks"]
    assert [item["table"] for item in document(capsys, *asked, "4")["tables"]] == ["4", *compared]
    assert [item["table"] for item in document(capsys, *asked, "4,AGAINST:ranks")["tables"]] == ["4", compared[2]]


def test_constant_predictors_can_be_left_out(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    last, out = (
        next(
            item
            for item in document(capsys, "--store", str(made.path), *more)["rankings"]
            if item["name"] == "Experiment 2"
        )
        for more in ((), ("--constants", "exclude"))
    )
    assert set(last["constant"]) == set(out["constant"]) == {"always-respectful", "always-toxic"}
    assert set(last["order"]) - set(out["order"]) == set(last["constant"])
    assert out["unranked"]["always-toxic"] == "all its valid answers are the same label"


def test_a_format_without_a_folder_is_printed(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for form, start in (("csv", "Model,Label Flip (%)"), ("md", "**Table 4.**"), ("latex", "\\begin{table}")):
        code, out, err = run(capsys, "--store", str(made.path), "--tables", "4", "--format", form)
        assert code == 0 and out.startswith(start) and err == ""
    assert run(capsys, "--store", str(made.path), "--format", "parquet")[0] == 2
    assert run(capsys, "--store", str(made.path), "--format", "md", "--json")[0] == 2


def test_a_store_is_scored_by_the_base_install_alone(made: Made) -> None:
    """No network, no keys, none of the packages that only tests, adapters and extras have."""
    code = f"""
import sys
for name in ("pyarrow", "pandas", "sklearn", "statsmodels", "matplotlib", "openpyxl", "openai", "googleapiclient",
             "aiohttp", "pycurl", "vllm", "pytest", "hypothesis"):
    sys.modules[name] = None
import socket
def refuse(*args, **more):
    raise AssertionError("the network was used")
socket.socket = socket.create_connection = refuse
from hatevolution.cli import main
main(["score", "--store", {str(made.path)!r}, "--intervals", "10", "--against", "strict", "--json"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["scores"]
