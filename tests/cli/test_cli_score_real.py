"""The embedded models on the real sets, through the command line: every macro F1 equals scikit-learn's."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from sklearn.metrics import f1_score

if TYPE_CHECKING:
    from pathlib import Path

SETS = {
    "singapore-online-attacks": 3000,
    "neobench": 680,
    "hatexplain": 1924,
    "implicit-hate": 2148,
    "hatecheck": 3728,
}
pytestmark = [pytest.mark.real_data, pytest.mark.slow, pytest.mark.timeout(600)]


def command(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hatevolution", *args], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def store(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("profanity_check") is None:
        pytest.skip("the extra `embedded` is not installed")
    path = tmp_path_factory.mktemp("real") / "s.db"
    command(
        "run", "configs/experiments/embedded.toml", "--data", str(real_data), "--store", str(path),
        "--datasets", ",".join(SETS),
    )  # fmt: skip
    return path


def rows(store: Path) -> list[dict[str, Any]]:
    """Read the store with sqlite3 alone and judge each answer by the published rules."""
    connection = sqlite3.connect(store)
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute("SELECT * FROM answers")]
    connection.close()
    for row in found:
        if row["raw_text"] is None:
            row["label"] = "toxic" if json.loads(row["scores"])["toxic"] > 0.5 else "respectful"
        else:
            row["label"] = row["raw_text"]
    return found


def test_scores_equal_scikit_learn(store: Path) -> None:
    document = json.loads(command("score", "--store", str(store), "--json"))
    scores = {
        (row["model"], row["dataset"], row["metric"], json.dumps(row["group"])): row for row in document["scores"]
    }
    answers = rows(store)
    models = {row["model"] for row in answers}
    assert len(models) == 4
    for model in models:
        for dataset, size in SETS.items():
            own = [row for row in answers if (row["model"], row["dataset"]) == (model, dataset)]
            assert len(own) == size
            if dataset == "neobench":
                sides = {
                    role: {row["pair"]: row["label"] for row in own if row["role"] == role}
                    for role in ("original", "neologism")
                }
                flips = sum(label != sides["neologism"][pair] for pair, label in sides["original"].items())
                assert scores[model, dataset, "label_flip", "null"]["value"] == pytest.approx(flips / 340, abs=1e-12)
                own = [row for row in own if row["role"] == "original"]
            row = scores[model, dataset, "macro_f1", "null"]
            assert row["value"] == pytest.approx(macro_f1(own), abs=1e-12)
            assert row["n"] == row["scored"] == len(own)
        attacks = [row for row in answers if (row["model"], row["dataset"]) == (model, "singapore-online-attacks")]
        yearly = [macro_f1([row for row in attacks if row["year"] == year]) for year in range(2017, 2023)]
        value = scores[model, "singapore-online-attacks", "time_sensitive_macro_f1", "null"]["value"]
        assert value == pytest.approx(sum(yearly) / 6, abs=1e-12)


def macro_f1(own: list[dict[str, Any]]) -> float:
    golds, labels = ([row[name] for row in own] for name in ("gold", "label"))
    return float(f1_score(golds, labels, labels=["toxic", "respectful"], average="macro", zero_division=0.0))


def test_tables_come_out(store: Path, tmp_path: Path) -> None:
    out = command("score", "--store", str(store), "--out", str(tmp_path), "--format", "md", "--intervals", "100")
    for key in ("3", "4", "A7", "A9", "A10", "2", "5", "A1", "A6", "A11", "A12", "A13"):
        assert f"\nTable {key}. " in out
    assert ".4841" in out, "'always respectful' has macro F1 0.484 on the pairs"
    assert (tmp_path / "table-3.md").is_file()
