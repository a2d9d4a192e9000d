"""A moving endpoint asked at two dates, from ``run --as-of`` to ``score --drift``, as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fake_base import in_thread
from fake_openai import FakeOpenAI
from run_files import KEY, Project, hatevolution
from store_maker import MadeSentence, Maker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset(count=24)
    return made


def test_two_dates_of_a_moving_model(project: Project) -> None:
    serves = {"gpt-4o": "gpt-4o-2024-08-06"}
    server = FakeOpenAI(answer=lambda said: "toxic", models=serves)
    with in_thread(server):
        fields = {"adapter": "openai-chat", "model": "gpt-4o", "prompt": "paper-chat"}
        project.model("gpt", title="GPT-4o", endpoint={"base_urls": [server.base_url]}, **fields)
        first = project.command("--as-of", "2026-10", environ={"OPENAI_API_KEY": KEY})
        assert first.returncode == 0, first.stderr
        again = project.command("--as-of", "2026-10", environ={"OPENAI_API_KEY": KEY})
        assert again.returncode == 0 and "Nothing was left to do" in again.stderr
        serves["gpt-4o"] = "gpt-4o-2024-11-20"
        server.answer = lambda said: "respectful" if "7" in said else "toxic"
        second = project.command("--as-of", "2026-11", environ={"OPENAI_API_KEY": KEY})
        assert second.returncode == 0, second.stderr
    assert project.rows("SELECT model, count(*) FROM predictions GROUP BY model") == [
        ("gpt@2026-10", 24), ("gpt@2026-11", 24),
    ]  # fmt: skip
    assert project.rows("SELECT count(DISTINCT fingerprint) FROM models") == [(1,)]
    assert project.rows("SELECT title FROM models ORDER BY 1") == [("GPT-4o (2026-10)",), ("GPT-4o (2026-11)",)]
    store = str(project.store)
    done = hatevolution("score", "--store", store, "--drift", "gpt@2026-10", "gpt@2026-11", "--json")
    assert done.returncode == 0, done.stderr
    drift = json.loads(done.stdout)["drift"]
    moved = {row["change"]: row["count"] for row in drift["labels"]}
    changed = project.rows(
        "SELECT count(*) FROM predictions AS a JOIN predictions AS b USING (dataset, sentence) "
        "WHERE a.model < b.model AND a.raw_text <> b.raw_text"
    )
    assert moved["toxic → respectful"] == moved[None] == changed[0][0] > 0
    assert [row["served_model"] for row in drift["served"]] == ["gpt-4o-2024-08-06", "gpt-4o-2024-11-20"]
    assert drift["asked_differently"] == []
    shown = hatevolution("score", "--store", store, "--drift", "gpt@2026-10", "gpt@2026-11")
    assert "GPT-4o (2026-11) was answered by gpt-4o-2024-11-20 (24 answers, " in shown.stdout
    assert "Table 3" not in shown.stdout and "Nothing changed" not in shown.stdout
    assert shown.stderr == ""


def test_where_nothing_changed_one_sentence_says_so_first(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("plain", [MadeSentence(id=str(n), gold=("toxic", "respectful")[n % 2]) for n in range(4)])
    for date in ("2026-10", "2026-11"):
        maker.model(f"gpt@{date}", title=f"GPT ({date})")
        maker.answers(f"gpt@{date}", "plain", ["toxic", "respectful", "invalid", "refused"])
    path = maker.done().path
    done = hatevolution("score", "--store", str(path), "--drift", "gpt@2026-10", "gpt@2026-11")
    assert done.returncode == 0 and done.stdout.startswith(
        "Nothing changed: of all 4 sentences that GPT (2026-10) and GPT (2026-11) both have a prediction for, "
        "not one answer is read otherwise"
    )


def test_two_models_are_no_model_at_two_dates(project: Project) -> None:
    project.model("one", adapter="scripted", prompt="paper-open", model="org/one")
    project.model("two", adapter="scripted", prompt="paper-open", model="org/two")
    project.model("three", adapter="scripted", prompt="paper-chat", model="org/two")
    assert project.command().returncode == 0
    store = str(project.store)
    shown = hatevolution("score", "--store", store, "--drift", "one", "two")
    assert shown.returncode == 0
    (said,) = shown.stderr.splitlines()
    assert said.startswith('Warning: one and two are two models (model: "org/one" -> "org/two"), and not one at two')
    document = hatevolution("score", "--store", store, "--drift", "one", "two", "--json")
    assert document.returncode == 0
    assert json.loads(document.stdout)["drift"]["notes"][0] == said.removeprefix("Warning: ")
    # Another prompt is told too, but it is the same model.
    other = hatevolution("score", "--store", store, "--drift", "two", "three")
    assert (other.returncode, other.stderr) == (0, "")
    assert "The two names were not asked the same: prompt." in other.stdout


@pytest.mark.parametrize("date", ["2026,11", "a@b", "", "../x", "2026-13", "2026-12-32", "2026-1", "today"])
def test_what_is_no_date_is_refused(project: Project, date: str) -> None:
    project.model("m", adapter="scripted", prompt="paper-open")
    done = project.command("--as-of", date)
    assert done.returncode == 2 and "is no date" in done.stderr
    assert not project.store.exists()


def test_members_of_a_composite_are_dated_together(project: Project) -> None:
    for name in ("one", "two"):
        project.model(name, adapter="scripted", prompt="paper-open", composite="Both")
    assert project.command("--as-of", "2026-11", "--models", "one,two").returncode == 0
    done = hatevolution("score", "--store", str(project.store), "--json")
    assert {model["composite"] for model in json.loads(done.stdout)["models"]} == {"Both@2026-11"}
    refused = hatevolution(
        "score", "--store", str(project.store), "--drift", "one@2026-11", "two@2026-11", "--models", "one"
    )
    assert refused.returncode == 2 and "leave --models out" in refused.stderr
