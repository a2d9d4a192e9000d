"""Finding answers: every filter against a plain loop over what the maker of the store knows."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from audit_maker import HOSTILE, HUGE, hostile_store, old_store, spoken_store
from store_maker import Made, MadePrediction, MadeSentence, Maker, generate

from hatevolution.analysis.audit import finding, records
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.analysis.parsers import policy, policy_for
from hatevolution.errors import ConfigError, StoreError
from hatevolution.store.text import visible

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("audit") / "s.db", 1, size=60)


def found(made: Made, **filters: Any) -> list[tuple[str, str, str]]:
    with StoreView(made.path, Selection(**filters)) as view:
        keys = [(row.model, row.dataset, row.sentence) for row in view.rows()]
        assert sum(cell.answers for cell in view.find()) == len(keys)
        assert sorted(view.keys()) == sorted(keys)
    return keys


def expected(made: Made, wanted: Any) -> list[tuple[str, str, str]]:
    """Keys of the predictions that ``wanted(prediction, sentence)`` takes, in the order of the store."""
    models, datasets = list(made.models), list(made.datasets)
    places = {(d, s.id): (i, s) for d, rows in made.datasets.items() for i, s in enumerate(rows)}
    taken = [p for p in made.predictions if wanted(p, places[p.dataset, p.sentence][1])]
    taken.sort(key=lambda p: (models.index(p.model), datasets.index(p.dataset), places[p.dataset, p.sentence][0]))
    return [(p.model, p.dataset, p.sentence) for p in taken]


BROKEN = ("invalid",)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, lambda p, s: p.outcome in BROKEN),
        ({"parsed": "any"}, lambda p, s: True),
        ({"parsed": "valid"}, lambda p, s: p.outcome in ("toxic", "respectful")),
        ({"parsed": "toxic"}, lambda p, s: p.outcome == "toxic"),
        ({"parsed": "invalid"}, lambda p, s: p.outcome == "invalid"),
        ({"parsed": "any", "statuses": ("refused",)}, lambda p, s: p.outcome == "refused"),
        (
            {"parsed": "any", "statuses": ("refused", "rejected")},
            lambda p, s: p.outcome in ("refused", "rejected"),
        ),
        (
            {"models": ("gappy-chat", "scores")},
            lambda p, s: p.model in ("gappy-chat", "scores") and p.outcome in BROKEN,
        ),
        ({"datasets": ("cases",)}, lambda p, s: p.dataset == "cases" and p.outcome in BROKEN),
        ({"years": (2018, 2020)}, lambda p, s: s.year in (2018, 2020) and p.outcome in BROKEN),
        ({"roles": ("neologism",)}, lambda p, s: s.role == "neologism" and p.outcome in BROKEN),
        (
            {"labels": ("toxic",), "parsed": "respectful"},
            lambda p, s: s.gold == "toxic" and p.outcome == "respectful",
        ),
        (
            {"search": "SOMETHING else 1", "parsed": "any"},
            lambda p, s: "something else 1" in (p.raw_text or "").lower(),
        ),
        (
            {"search": "text 3", "parsed": "invalid", "years": (2019,), "datasets": ("timed",)},
            lambda p, s: p.dataset == "timed" and s.year == 2019 and s.text == "text 3" and p.outcome == "invalid",
        ),
    ],
)
def test_filters(made: Made, filters: dict[str, Any], wanted: Any) -> None:
    truth = expected(made, wanted)
    assert found(made, **filters) == truth
    assert truth or filters.get("years") == (2019,)


@pytest.mark.parametrize("parser", ["strict", "lenient", "paper-contains"])
@pytest.mark.parametrize("parsed", ["toxic", "ambiguous"])
def test_another_policy(made: Made, parser: str, parsed: str) -> None:
    rules = {name: policy_for(settings["parser"], policy(parser)) for name, settings in made.models.items()}
    asked = {name for name, rule in rules.items() if rule.name == parser}
    texts = {p.raw_text or "" for p in made.predictions if p.model in asked}
    judged = dict(zip(texts, policy(parser).judge(visible(text) for text in texts), strict=True))

    def wanted(p: MadePrediction, _: MadeSentence) -> bool:
        if p.status != "answered":
            return False
        return (judged[p.raw_text or ""] if p.model in asked else p.outcome) == parsed

    assert found(made, parser=parser, parsed=parsed) == expected(made, wanted)


def test_pages_are_slices_of_the_whole(made: Made) -> None:
    with StoreView(made.path, Selection()) as view:
        whole = list(view.rows())
        assert len(whole) > 160
        for offset, limit in ((0, 7), (1, 1), (50, 100), (len(whole) - 3, 10), (len(whole), 5), (3, 0)):
            assert list(view.rows(offset, limit)) == whole[offset : offset + limit]


def test_chunks_and_what_was_learned_change_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = found(made), found(made, parsed="toxic")
    for rows, learned in ((40, 3), (10**6, 0)):
        monkeypatch.setattr(finding, "_FIRST_ROWS", rows)
        monkeypatch.setattr(finding, "_MOST_ROWS", max(400, rows))
        monkeypatch.setattr(finding, "_LEARNED", learned)
        monkeypatch.setattr(records, "_BATCH_BYTES", 30_000)
        assert (found(made), found(made, parsed="toxic")) == truth


def test_texts_that_are_equal_numbers_are_different_texts(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text('name = "numbers"\n[words]\ntoxic = ["1"]\nrespectful = ["0"]\nmatch = "exact"\n')
    said = ["1", "1.0", "01", " 1", "1", "0", "0.0", "1e0"] * 2
    made = spoken_store(
        tmp_path / "s.db", {"m": said}, sentences=[MadeSentence(id=f"s{n:02}") for n in range(len(said))]
    )
    broken = [key[2] for key in found(made, parser=str(file))]
    assert broken == [f"s{n:02}" for n, text in enumerate(said) if text not in ("0", "1")]


def test_hostile_texts_come_back_exactly(tmp_path: Path) -> None:
    made = hostile_store(tmp_path / "s.db")
    with StoreView(made.path, Selection()) as view:
        rows = {row.sentence: row for row in view.rows()}
        assert {name: row.raw_text for name, row in rows.items()} == dict(HOSTILE)
        assert {name: row.target for name, row in rows.items()} == dict(HOSTILE)
        assert rows["nul"].text == HOSTILE["nul"]
        assert view.row("hostile", "odd", "surrogate") == rows["surrogate"]
        assert view.row("hostile", "odd", "nothing") is None


@pytest.mark.parametrize(
    ("search", "names"),
    [
        ("AFTER", ["nul"]),  # behind a NUL character, where LIKE ends
        ("here", ["surrogate"]),  # in a BLOB
        ("\ud800 HERE", ["surrogate"]),
        ("＝1", ["wide"]),
        ("%", ["latex"]),  # no wildcard
        ("_x0041_", ["escape"]),
        ("'", ["link", "script", "attribute", "apostrophe"]),
        ("a" * 500, ["huge"]),
        ("\U0001f600", ["astral"]),
        ("nowhere to be found", []),
    ],
)
def test_search_is_literal_and_finds_everything(tmp_path: Path, search: str, names: list[str]) -> None:
    made = hostile_store(tmp_path / "s.db")
    assert {key[2] for key in found(made, search=search)} == set(names)


def test_search_folds_the_case_of_other_alphabets(tmp_path: Path) -> None:
    made = spoken_store(
        tmp_path / "s.db", {"m": ["ÄRGER", "arger"]}, sentences=[MadeSentence(id="a"), MadeSentence(id="b")]
    )
    assert [key[2] for key in found(made, search="ärger")] == ["a"]


def test_kinds_are_filtered_among_broken_answers(made: Made) -> None:
    with StoreView(made.path, Selection()) as view:
        rows = list(view.rows())
    for kind in ("empty", "label-marked", "other", "unmapped"):
        truth = [(row.model, row.dataset, row.sentence) for row in rows if kind in row.kinds]
        assert truth
        assert found(made, kinds=(kind,)) == truth
    assert found(made, kinds=("refusal", "truncated")) == []


def test_a_valid_answer_has_no_kind_and_a_refused_one_its_status(made: Made) -> None:
    with StoreView(made.path, Selection(parsed="any")) as view:
        for row in view.rows():
            assert bool(row.kinds) == (row.outcome in ("invalid", "ambiguous"))
            assert row.kind == (row.kinds[0] if row.kinds else None)
            assert (row.outcome == row.status) == (row.status != "answered")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"models": ("god-exact",)}, "There is no model 'god-exact' here (did you mean 'good-exact'?)"),
        ({"datasets": ("case",)}, "There is no data set 'case' here (did you mean 'cases'?)"),
        ({"kinds": ("ech",)}, "There is no kind 'ech' here (did you mean 'echo'?)"),
        ({"parser": "strikt"}, "There is no parse policy 'strikt' (did you mean 'strict'?)"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(made: Made, filters: Any, message: str) -> None:
    with pytest.raises(ConfigError, match="There is no") as error:
        StoreView(made.path, Selection(**filters))
    assert message in str(error.value)


def test_no_store_and_no_predictions(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store"):
        StoreView(tmp_path / "none.db", Selection())
    made = Maker(tmp_path / "s.db").done()
    assert found(made) == []


def test_a_view_is_of_one_moment_and_writes_nothing(tmp_path: Path) -> None:
    made = hostile_store(tmp_path / "s.db")
    before = made.path.read_bytes()
    with StoreView(made.path, Selection(models=("tame",), parsed="any")) as view:
        with sqlite3.connect(made.path) as writer:
            writer.execute("INSERT INTO models VALUES ('late', 9, 'late', 'f', '{}', '{}', (SELECT run FROM runs))")
            writer.execute(
                "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
                "SELECT 'late', dataset, sentence, status, raw_text, 1, run FROM predictions WHERE model = 'tame'"
            )
        writer.close()
        assert len(list(view.rows())) == len(HOSTILE)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            view.connection.execute("UPDATE models SET title = 'x'")
    with StoreView(made.path, Selection(parsed="any")) as view:
        assert len(list(view.rows())) == 3 * len(HOSTILE)
    assert len(before) > len(HUGE)


def test_a_store_from_before_the_verdicts_can_be_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StoreView(old_store(tmp_path / "s.db", monkeypatch), Selection()) as view:
        assert [row.sentence for row in view.rows()] == ["b"]
