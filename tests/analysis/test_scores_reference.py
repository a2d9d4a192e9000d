"""Every score equals scikit-learn's or plain Python's, to 1e-12, for every policy on invalid answers."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from reference import rows, sentence_metrics
from store_maker import Made, generate

from hatevolution.analysis.columns import SCORES, checked
from hatevolution.analysis.frames import load
from hatevolution.analysis.metrics import INVALID_POLICIES, SENTENCE_METRICS, InvalidPolicy
from hatevolution.analysis.scores import scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatevolution.analysis.study import Study

Known = dict[tuple[str, str, str, str | None, str | None], dict[str, Any]]


def known(study: Study, policy: InvalidPolicy) -> Known:
    return {
        (row["model"], row["dataset"], row["metric"], row["group_key"], row["group"]): row
        for row in scores(study, policy).iter_rows(named=True)
    }


def same(value: float | None, expected: float | None) -> bool:
    if value is None or expected is None:
        return value is None and expected is None
    return abs(value - expected) <= 1e-12


def groups(records: list[dict[str, Any]]) -> Iterator[tuple[str | None, str | None, list[dict[str, Any]]]]:
    yield None, None, records
    for key in ("year", "type", "role", "functionality", "target"):
        for group in dict.fromkeys(record[key] for record in records):
            if group is not None:
                shown = str(group).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
                yield key, shown, [record for record in records if record[key] == group]


def test_rates_of_sentences(made: Made, study: Study) -> None:
    compare_sentences(made, study, "drop")


@pytest.mark.parametrize("policy", [policy for policy in INVALID_POLICIES if policy != "drop"])
def test_rates_of_sentences_by_other_policies(made_once: Made, study_once: Study, policy: InvalidPolicy) -> None:
    compare_sentences(made_once, study_once, policy)


def compare_sentences(made: Made, study: Study, policy: InvalidPolicy) -> None:
    found = known(study, policy)
    compared = 0
    for model in made.models:
        for dataset in made.datasets:
            for key, group, records in groups(rows(made, model, dataset)):
                if policy not in ("drop", "raw") and key in ("type", "target"):
                    continue  # scikit-learn is slow, and these go the same way as the other groups
                labelled = [record for record in records if record["gold"] is not None]
                if dataset == "paired" and key != "role":
                    labelled = [record for record in labelled if record["role"] == "original"]
                expected = sentence_metrics(
                    [record["gold"] for record in labelled],
                    [record["outcome"] for record in labelled],
                    [record["raw"] for record in labelled],
                    policy,
                )
                for metric in ("accuracy",) if key == "functionality" else SENTENCE_METRICS:
                    row = found.get((model, dataset, metric, key, group))
                    if row is None:
                        assert not labelled and key is not None
                        continue
                    assert same(row["value"], expected[metric]), (row, expected)
                    assert (row["value"] is None) == (row["reason"] is not None)
                    check_coverage(row, Counter(record["outcome"] for record in labelled))
                    compared += 1
    assert compared > 1000


def check_coverage(row: dict[str, Any], outcomes: Counter[str]) -> None:
    assert row["n"] == outcomes.total()
    assert row["scored"] == outcomes["toxic"] + outcomes["respectful"]
    for name in ("invalid", "refused", "rejected", "missing"):
        assert row[name] == outcomes[name]


def test_expected_output(made: Made, study: Study) -> None:
    found = known(study, "drop")
    for model in made.models:
        for dataset in made.datasets:
            for key, group, records in groups(rows(made, model, dataset)):
                outcomes = Counter(record["outcome"] for record in records)
                there = outcomes.total() - outcomes["missing"]
                row = found[model, dataset, "expected_output", key, group]
                expected = (outcomes["toxic"] + outcomes["respectful"]) / there if there else None
                assert same(row["value"], expected)
                check_coverage(row, outcomes)


@pytest.mark.parametrize("policy", INVALID_POLICIES)
def test_rates_of_pairs(made_once: Made, study_once: Study, policy: InvalidPolicy) -> None:
    found = known(study_once, policy)
    for model in made_once.models:
        records = rows(made_once, model, "paired")
        for key in (None, "year", "type"):
            values = {None} if key is None else {record[key] for record in records} - {None}
            for group in values:
                pairs: dict[str, dict[str, Any]] = {}
                for record in records:
                    if key is None or record[key] == group:
                        pairs.setdefault(record["pair"], {})[record["role"]] = record
                expected = pair_metrics(list(pairs.values()), policy)
                for metric, value in expected.items():
                    row = found[model, "paired", metric, key, None if group is None else str(group)]
                    assert same(row["value"], value), (row, value)
                    assert row["n"] == len(pairs)
                    parts = ("scored", "invalid", "refused", "rejected", "missing")
                    assert row["n"] == sum(row[part] for part in parts)


def pair_metrics(pairs: list[dict[str, Any]], policy: str) -> dict[str, float | None]:
    """The docstring of hatevolution.analysis.pairs, in plain Python."""
    valid = ("toxic", "respectful")
    both = [
        tuple(
            (pair[role]["outcome"], pair[role]["raw"]) if role in pair else ("missing", "")
            for role in ("original", "neologism")
        )
        for pair in pairs
    ]
    answered = [pair for pair in both if all(outcome in (*valid, "invalid") for outcome, _ in pair)]
    scored = [pair for pair in answered if all(outcome in valid for outcome, _ in pair)]
    flips = sum(one[0] != two[0] for one, two in scored)
    broken = len(answered) - len(scored)
    n, a, s = len(both), len(answered), len(scored)
    flip = {
        "drop": (flips, s),
        "wrong": (flips + broken, a),
        "class": (sum(one[0] != two[0] for one, two in answered), a),
        "raw": (
            sum(
                (one[0], one[1] if one[0] == "invalid" else "") != (two[0], two[1] if two[0] == "invalid" else "")
                for one, two in answered
            ),
            a,
        ),
        "worst": (flips + n - s, n),
        "best": (flips, n),
    }[policy]
    extra, below = {"worst": (n - a, n), "best": (0, n)}.get(policy, (0, a))
    counts = {
        "hallucination": sum(two[0] == "invalid" and one[0] != "invalid" for one, two in answered),
        "hallucination_any": sum("invalid" in (one[0], two[0]) for one, two in answered),
        "hallucination_counterfactual": sum(two[0] == "invalid" for one, two in answered),
    }
    found = {"label_flip": flip, "label_flip_of_all": (flips, a)}
    found |= {name: (count + extra, below) for name, count in counts.items()}
    return {name: above / under if under else None for name, (above, under) in found.items()}


def test_metrics_over_years(made: Made, study: Study) -> None:
    found = known(study, "drop")
    defined = 0
    for model in made.models:
        for dataset in ("timed", "timed-gap"):
            yearly = {
                metric: [found[model, dataset, metric, "year", str(year)]["value"] for year in range(2017, 2022)]
                for metric in ("macro_f1", "f1_hateful", "f1_nonhateful")
            }
            row = found[model, dataset, "time_sensitive_macro_f1", None, None]
            if None in yearly["macro_f1"]:
                assert row["value"] is None and "not defined in" in row["reason"]
            else:
                assert same(row["value"], statistics.fmean(yearly["macro_f1"]))
                assert same(row["value"], statistics.fmean(yearly["f1_hateful"] + yearly["f1_nonhateful"]))
                defined += 1
            for label in ("hateful", "nonhateful"):
                values = yearly[f"f1_{label}"]
                spread = found[model, dataset, f"f1_{label}_std_over_years", None, None]
                assert same(spread["value"], None if None in values else statistics.pstdev(values))
    assert defined >= 6


def test_composites_are_means_over_members(study: Study) -> None:
    found = known(study, "drop")
    rows_of = [key for key in found if key[0] == "Together"]
    assert rows_of
    for _, *rest in rows_of:
        members = [found[name, *rest] for name in ("member-a", "member-b")]  # type: ignore[index]
        row = found["Together", *rest]  # type: ignore[index]
        values = [member["value"] for member in members]
        assert same(row["value"], None if None in values else statistics.fmean(values))
        assert row["n"] == sum(member["n"] for member in members)
        if row["value"] is None:
            assert row["reason"].startswith("member member-")


def test_the_frame_is_as_declared_and_unique(study: Study) -> None:
    frame = checked(scores(study), SCORES)
    assert not frame.select("model", "dataset", "metric", "group_key", "group").is_duplicated().any()
    assert not frame["value"].is_nan().any()


def test_the_bounds_hold(study: Study) -> None:
    tables = {policy: known(study, policy) for policy in ("worst", "drop", "wrong", "best")}
    for key, row in tables["worst"].items():
        if key[2] not in (*SENTENCE_METRICS, "label_flip") or row["value"] is None:
            continue
        best = tables["best"][key]["value"]
        low, high = (best, row["value"]) if key[2] == "label_flip" else (row["value"], best)
        assert low <= high + 1e-12
        if key[2] == "macro_f1" and tables["drop"][key]["value"] is not None:
            assert low - 1e-12 <= tables["drop"][key]["value"] <= high + 1e-12


def test_order_of_rows_and_seed_of_the_store_do_not_matter(tmp_path: Any) -> None:
    one = scores(load(generate(tmp_path / "a.db", 9).path))
    two = scores(load(generate(tmp_path / "b.db", 9).path, chunk_rows=701))
    assert one.equals(two)
