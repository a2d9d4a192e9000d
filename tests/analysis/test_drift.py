"""Drift between two names: counts by hand, intervals and tests by statsmodels, metrics by scikit-learn."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from reference import sentence_metrics
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint
from store_maker import RUN, MadeSentence, Maker

from hatevolution.analysis import report
from hatevolution.analysis.columns import OUTCOMES
from hatevolution.analysis.drift import Drift
from hatevolution.analysis.drift.labels import CHANGES, counts
from hatevolution.analysis.tables.table import value_cell
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from store_maker import Made

OLD, NEW = "gpt@2026-10", "gpt@2026-11"
_KINDS = ("toxic", "respectful", "invalid", "refused", "rejected", "missing")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = random.Random(7)
    maker = Maker(tmp_path_factory.mktemp("drift") / "s.db")
    timed = [MadeSentence(id=f"t-{n}", gold=rng.choice(("toxic", "respectful")), year=2017 + n % 3) for n in range(120)]
    maker.dataset("timed", timed, title="Timed set", years=(2017, 2019))
    pairs = [
        MadeSentence(id=f"p-{n}-{role}", gold=("toxic", "respectful")[n % 2], pair=str(n), role=role, type="lexical")
        for n in range(40)
        for role in ("original", "neologism")
    ]
    maker.dataset("paired", pairs, title="Paired set")
    maker.dataset("unseen", [MadeSentence(id="1")], title="Never asked")
    for name in (OLD, "another", NEW):
        maker.model(name, title=name.replace("gpt", "GPT"))
    for name, weights in ((OLD, (8, 8, 2, 1, 1, 1)), (NEW, (4, 10, 4, 1, 1, 1)), ("another", (1, 1, 1, 1, 1, 1))):
        for dataset, size in (("timed", 120), ("paired", 80)):
            maker.answers(name, dataset, rng.choices(_KINDS, weights, k=size))
    connection = maker.connection
    connection.execute("DROP TRIGGER predictions_are_final")
    for number, (name, served, day) in enumerate(
        ((OLD, "gpt-4o-2024-08-06", "2026-10-01"), (NEW, "gpt-4o-2024-08-06", "2026-11-01"),
         (NEW, "gpt-4o-2024-11-20", "2026-11-20")), 1,
    ):  # fmt: skip
        connection.execute(
            "INSERT INTO responses (response, run, received_at, latency_s, base_url, served_model, system_fingerprint, "
            "body) VALUES (?, ?, ?, 0.1, 'https://x', ?, 'fp_1', '{}')",
            (number, RUN, f"{day}T00:00:00Z", served),
        )
        dataset = "paired" if number == 3 else "timed"
        connection.execute(
            "UPDATE predictions SET response = ? WHERE model = ? AND (dataset = ? OR ? = ?)",
            (number, name, dataset, name, OLD),
        )
    return maker.done()


@pytest.fixture(scope="module")
def scored(made: Made) -> report.Report:
    return report.make(made.path, drift_of=(OLD, NEW), resamples=400, seed=3)


@pytest.fixture(scope="module")
def drift(scored: report.Report) -> Drift:
    assert scored.drift is not None
    return scored.drift


def both(made: Made, dataset: str) -> list[tuple[MadeSentence, str, str]]:
    rows = zip(made.datasets[dataset], made.outcome(OLD, dataset), made.outcome(NEW, dataset), strict=True)
    return [row for row in rows if "missing" not in row[1:]]


def test_every_change_is_counted_once() -> None:
    known = [name for name in OUTCOMES if name != "missing"]
    grid = [(old, new) for old in known for new in known]
    codes = np.array([[OUTCOMES.index(name) for name in pair] for pair in grid], dtype=np.uint8).T
    kinds = {"toxic": "valid", "respectful": "valid", "invalid": "invalid", "ambiguous": "invalid"}
    expected: dict[str, int] = dict.fromkeys(CHANGES, 0)
    for old, new in grid:
        one, other = kinds.get(old, "none"), kinds.get(new, "none")
        if one == other == "valid" and old != new:
            expected[f"{old} → {new}"] += 1
        elif one != other and "none" in (one, other):
            expected["answer → no answer" if other == "none" else "no answer → answer"] += 1
        elif one != other:
            expected[f"{one} → {other}"] += 1
    assert counts(*codes) == list(expected.values())


def test_label_changes_are_of_the_shared_sentences_with_wilsons_intervals(made: Made, drift: Drift) -> None:
    for dataset in ("timed", "paired"):
        shared = both(made, dataset)
        own = drift.labels.filter(pl.col("dataset") == dataset)
        assert own["n"].unique().to_list() == [len(shared)]
        found = {row["change"]: row for row in own.iter_rows(named=True)}
        down = sum(old == "toxic" and new == "respectful" for _, old, new in shared)
        up = sum(old == "respectful" and new == "toxic" for _, old, new in shared)
        assert (found["toxic → respectful"]["count"], found["respectful → toxic"]["count"]) == (down, up)
        broken = sum(old in ("toxic", "respectful") and new == "invalid" for _, old, new in shared)
        assert found["valid → invalid"]["count"] == broken > 0
        assert found[None]["count"] == sum(row["count"] for row in found.values()) - found[None]["count"]
        low, high = proportion_confint(down, len(shared), method="wilson")
        row = found["toxic → respectful"]
        assert (row["share"], row["low"], row["high"]) == pytest.approx((down / len(shared), low, high), abs=1e-12)
        table = np.array([[0, down], [up, 0]])
        assert found[None]["p_symmetry"] == pytest.approx(mcnemar(table, exact=True).pvalue, abs=1e-12)
    whole = drift.labels.filter(pl.col("dataset").is_null() & pl.col("change").is_null())
    assert whole["n"].to_list() == [len(both(made, "timed")) + len(both(made, "paired"))]


def test_metrics_are_scikit_learns_on_the_shared_sentences(made: Made, drift: Drift) -> None:
    for year in (None, 2017, 2018, 2019):
        rows = [row for row in both(made, "timed") if year in (None, row[0].year)]
        golds = [str(sentence.gold) for sentence, _, _ in rows]
        expected = [
            sentence_metrics(golds, outcomes, outcomes, "drop")["macro_f1"]
            for outcomes in ([old for _, old, _ in rows], [new for _, _, new in rows])
        ]
        key = pl.col("group").is_null() if year is None else pl.col("group") == str(year)
        wanted = (pl.col("dataset") == "timed") & (pl.col("metric") == "macro_f1") & key
        (row,) = drift.metrics.filter(wanted).iter_rows(named=True)
        assert [row["old"], row["new"]] == pytest.approx(expected, abs=1e-12)
        assert row["difference"] == pytest.approx(row["new"] - row["old"], abs=1e-12)
        assert row["n"] == len(rows)
        counted = [(g, o, n) for g, (_, o, n) in zip(golds, rows, strict=True) if {o, n} <= {"toxic", "respectful"}]
        only = [sum(g == o != n for g, o, n in counted), sum(g == n != o for g, o, n in counted)]
        assert [row["only_old"], row["only_new"]] == only
        table = np.array([[0, only[0]], [only[1], 0]])
        assert row["p_mcnemar"] == pytest.approx(mcnemar(table, exact=True).pvalue, abs=1e-12)
        assert row["low"] <= row["difference"] <= row["high"] and 0 < row["p_bootstrap"] <= 1


def test_the_interval_is_that_of_a_plain_paired_bootstrap(made: Made, drift: Drift) -> None:
    rows = both(made, "paired")
    gold = np.array([sentence.gold == "toxic" for sentence, _, _ in rows])
    codes = np.array([[{"toxic": 1, "respectful": 0}.get(said, -1) for said in row[1:]] for row in rows])
    sides = np.array([sentence.role == "original" for sentence, _, _ in rows])
    groups: dict[str, list[int]] = {}
    for place, (sentence, _, _) in enumerate(rows):
        groups.setdefault(str(sentence.pair), []).append(place)
    units, rng, gaps = list(groups.values()), np.random.default_rng(11), []

    def f1(chosen: np.ndarray, side: int) -> float:
        chosen = chosen[sides[chosen] & (codes[chosen, side] >= 0)]
        said, truth = codes[chosen, side] == 1, gold[chosen]
        each = [2 * (s & t).sum() / (s.sum() + t.sum()) for s, t in ((said, truth), (~said, ~truth))]
        return float(np.mean(each))

    for _ in range(2000):
        drawn = np.concatenate([units[index] for index in rng.integers(0, len(units), len(units))])
        gaps.append(f1(drawn, 1) - f1(drawn, 0))
    wanted = (pl.col("dataset") == "paired") & (pl.col("metric") == "macro_f1") & pl.col("group_key").is_null()
    (row,) = drift.metrics.filter(wanted).iter_rows(named=True)
    assert [row["low"], row["high"]] == pytest.approx(np.quantile(gaps, [0.025, 0.975]), abs=0.06)


def test_it_says_who_answered_when_and_what_is_left_out(made: Made, drift: Drift) -> None:
    notes = drift.notes()
    assert notes[0].startswith("GPT@2026-10 was answered by gpt-4o-2024-08-06 (") and "2026-10-01" in notes[0]
    assert "gpt-4o-2024-08-06" in notes[1] and "gpt-4o-2024-11-20" in notes[1] and "2026-11-20" in notes[1]
    lacking = len(made.datasets["timed"]) - len(both(made, "timed"))
    assert any(note.startswith(f"Timed set: {lacking} of 120 sentences are left out") for note in notes)
    assert any(note.startswith("Never asked: 1 of 1 sentences are left out") for note in notes)
    assert not any("not asked the same" in note for note in notes)
    assert drift.served["answers"].sum() == sum(p.model in (OLD, NEW) for p in made.predictions)


def test_tables_and_documents_have_the_drift_alone(scored: report.Report, tmp_path: Path) -> None:
    keys = [table.key for table in scored.tables]
    assert keys == ["drift:served", "drift:labels", "drift:metrics", "drift:groups"]
    found: dict[str, Any] = json.loads(json.dumps(report.as_json(scored), allow_nan=False))
    assert (found["drift"]["old"], found["drift"]["new"], found["scores"]) == (OLD, NEW, [])
    assert {"year": 2017} in [row["group"] for row in found["drift"]["metrics"]]
    for form, endings in (
        ("csv", {".csv"}),
        ("parquet", {".parquet"}),
        ("md", {".md", ".csv"}),
        ("latex", {".tex", ".csv"}),
    ):
        written = report.write(scored, tmp_path / form, form)
        assert {path.suffix for path in written} == endings
        names = {path.stem for path in written}
        assert {"table-drift-labels", "table-drift-metrics", "drift-labels", "drift-metrics", "drift-served"} <= names
    assert r"toxic $\rightarrow$ respectful" in (tmp_path / "latex" / "table-drift-labels.tex").read_text(
        encoding="utf-8"
    )
    again = pl.read_parquet(tmp_path / "parquet" / "drift-metrics.parquet")
    assert scored.drift is not None and again.equals(scored.drift.metrics)
    labels = next(table for table in scored.tables if table.key == "drift:labels")
    assert {row.name for row in labels.rows} == {"Timed set", "Paired set", "All data sets"}


def test_who_answered_is_of_the_chosen_sets(made: Made) -> None:
    found = report.make(made.path, drift_of=(OLD, NEW), datasets=["timed"], resamples=5).drift
    assert found is not None
    assert found.served.filter(pl.col("model") == NEW)["served_model"].to_list() == ["gpt-4o-2024-08-06"]
    assert found.served["answers"].sum() == sum(
        p.model in (OLD, NEW) and p.dataset == "timed" for p in made.predictions
    )


def test_a_small_p_value_is_not_zero() -> None:
    shown = [value_cell(p, "p_value").text for p in (0.0, 1e-9, 0.00006, 0.5)]
    assert shown == ["<0.0001", "<0.0001", "0.0001", "0.5000"]


def test_the_order_of_the_names_decides_the_sign(made: Made, drift: Drift) -> None:
    turned = report.make(made.path, drift_of=(NEW, OLD), resamples=10).drift
    assert turned is not None
    assert turned.metrics["difference"].to_list() == pytest.approx(
        [None if value is None else -value for value in drift.metrics["difference"]]
    )


def test_a_model_has_not_drifted_from_its_twin(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("plain", [MadeSentence(id=str(n), gold=("toxic", "respectful")[n % 2]) for n in range(20)])
    for name in ("a", "b"):
        maker.model(name)
        maker.answers(name, "plain", ["toxic", "respectful", "respectful", "invalid"] * 5)
    found = report.make(maker.done().path, drift_of=("a", "b"), resamples=50).drift
    assert found is not None
    assert set(found.labels["count"]) == {0} and set(found.labels["p_symmetry"]) == {None}
    defined = found.metrics.filter(pl.col("difference").is_not_null())
    assert set(defined["difference"]) == set(defined["low"]) == set(defined["high"]) == {0.0}


@pytest.mark.parametrize(
    ("names", "more", "said"),
    [
        ((OLD, OLD), {}, "and itself"),
        ((OLD, "gpt@2026-12"), {}, "There is no model 'gpt@2026-12' here"),
        ((OLD, NEW), {"invalid": "raw"}, "--invalid raw"),
        ((OLD, NEW), {"datasets": ["unseen"]}, "no sentence in common"),
    ],
)
def test_what_can_not_be_compared_is_told(made: Made, names: tuple[str, str], more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        report.make(made.path, drift_of=names, **more)
