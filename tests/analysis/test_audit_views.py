"""Pairs, disagreements, two readings, counts of kinds."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from audit_maker import HUGE, spoken_store
from hypothesis import given
from hypothesis import strategies as st
from store_maker import Made, MadeSentence, generate

from hatevolution.analysis.audit.kinds import count_kinds
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.analysis.audit.views import document, open_view
from hatevolution.analysis.audit.words import differing_words, marked
from hatevolution.analysis.parsers import POLICIES, policy_for
from hatevolution.errors import ConfigError
from hatevolution.store.text import visible

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("audit") / "s.db", 5, size=60)


def rows_of(made: Made, name: Any, *, changes: Any = None, second: str | None = None, **filters: Any) -> list[Any]:
    with StoreView(made.path, Selection(**{"parsed": "any", **filters})) as store:
        return list(open_view(store, name, changes=changes, second=second).rows(0, None))


# -- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("He is a big dog.", "He is a smol dog.", ("big", "smol")),
        ("I won't go", "I won’t go", ("won't", "won’t")),
        ("the same", "the same", ("", "")),
        ("", "new", ("", "new")),
        ("a b c d", "a x c y", ("b | d", "x | y")),
        ("too much online", "doomscrolling", ("too much online", "doomscrolling")),
    ],
)
def test_differing_words_by_hand(first: str, second: str, words: tuple[str, str]) -> None:
    sides = differing_words(first, second)
    assert (marked(sides[0]), marked(sides[1])) == words


WORDY = st.lists(st.sampled_from(["a", "b", "c", " ", "  ", "\n", "don't", ".", "\ud800", "é"]), max_size=25).map(
    "".join
)


@given(WORDY, WORDY)
def test_differing_words_lose_nothing(first: str, second: str) -> None:
    left, right = differing_words(first, second)
    assert "".join(piece.text for piece in left) == first
    assert "".join(piece.text for piece in right) == second
    common = ["".join(piece.text for piece in side if not piece.differs) for side in (left, right)]
    assert common[0] == common[1]


def test_differing_words_of_huge_texts_take_no_time() -> None:
    left, right = differing_words("x " * 20_000 + "end", "y " * 20_000 + "end")
    assert ("".join(piece.text for piece in left), right[-1].text.endswith("end")) == ("x " * 20_000 + "end", True)
    assert marked(differing_words(HUGE, HUGE + "b")[1]) == HUGE + "b"


# -- pairs ------------------------------------------------------------------------------------------------------


def sentence(pair: int, role: str, **fields: Any) -> MadeSentence:
    return MadeSentence(id=f"{pair}-{role}", pair=f"p{pair}", role=role, text=f"a {role} word", **fields)


def test_pairs_by_hand(tmp_path: Path) -> None:
    sentences = [
        sentence(number, role, year=2020 + number, type="lexical")
        for number in range(7)
        for role in ("neologism", "original")
    ]
    said = [
        "toxic", "toxic",  # neologism, original
        "toxic", "respectful",
        "no idea", "toxic",
        "toxic", "no idea",
        "", "...",
        None, "toxic",
        None, None,
    ]  # fmt: skip
    made = spoken_store(tmp_path / "s.db", {"m": said}, sentences=sentences)
    rows = rows_of(made, "pairs")
    assert [(row.pair, row.change) for row in rows] == [
        ("p0", "same"),
        ("p1", "flip"),
        ("p2", "hallucination"),
        ("p3", "recovery"),
        ("p4", "both-broken"),
        ("p5", "incomplete"),
    ]
    flip = rows[1]
    assert (flip.original.raw_text, flip.neologism.raw_text) == ("respectful", "toxic")
    assert (flip.original_text, flip.neologism_text) == ("a original word", "a neologism word")
    assert [marked(side) for side in flip.pieces] == ["original", "neologism"]
    assert (flip.type, flip.year, flip.gold) == ("lexical", 2021, "respectful")
    assert rows[5].neologism is None
    assert [row.pair for row in rows_of(made, "pairs", changes=["flip", "recovery"])] == ["p1", "p3"]
    assert [row.pair for row in rows_of(made, "pairs", kinds=("punctuation", "other"))] == ["p2", "p3", "p4"]
    assert [row.pair for row in rows_of(made, "pairs", parsed="broken")] == ["p2", "p3", "p4"]
    assert [row.pair for row in rows_of(made, "pairs", search="IDEA")] == ["p2", "p3"]
    assert [row.pair for row in rows_of(made, "pairs", years=(2020, 2024))] == ["p0", "p4"]


def test_pairs_of_generated_stores_have_the_outcomes_that_were_made(made: Made) -> None:
    outcomes = {(p.model, p.sentence): p.outcome for p in made.predictions if p.dataset == "paired"}
    ids: dict[str, dict[str, str]] = defaultdict(dict)
    for row in made.datasets["paired"]:
        ids[row.pair or ""][row.role or ""] = row.id
    whole = {pair: roles for pair, roles in ids.items() if len(roles) == 2}
    counted: Counter[tuple[str, str, str]] = Counter()
    for model in made.models:
        for roles in whole.values():
            first, second = (outcomes.get((model, roles[role])) for role in ("original", "neologism"))
            if first in ("toxic", "respectful", "invalid") and second in ("toxic", "respectful", "invalid"):
                counted[model, first, second] += 1
    rows = [row for row in rows_of(made, "pairs", datasets=("paired",)) if row.change != "incomplete"]
    assert Counter((row.model, row.original.outcome, row.neologism.outcome) for row in rows) == counted
    for row in rows:
        first, second = row.original.outcome, row.neologism.outcome
        assert (row.change == "flip") == ({first, second} == {"toxic", "respectful"})
        assert (row.change == "hallucination") == (second == "invalid" and first != "invalid")


# -- disagreements ------------------------------------------------------------------------------------------------


def test_disagreements_are_those_of_the_outcomes_that_were_made(made: Made) -> None:
    said: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in made.predictions:
        said[row.dataset, row.sentence][row.outcome].add(row.model)
    expected = [
        (dataset, row.id)
        for dataset, rows in made.datasets.items()
        for row in rows
        if said[dataset, row.id]["toxic"] and said[dataset, row.id]["respectful"]
    ]
    found = rows_of(made, "disagreements")
    assert [(row.dataset, row.sentence) for row in found] == expected
    for row in found:
        truth = said[row.dataset, row.sentence]
        assert (set(row.toxic), set(row.respectful), set(row.broken)) == (
            truth["toxic"],
            truth["respectful"],
            truth["invalid"],
        )
        assert len(row.answers) == sum(len(models) for models in truth.values())


def test_disagreements_of_some_models(made: Made) -> None:
    found = rows_of(made, "disagreements", models=("always-toxic", "always-respectful"), datasets=("plain",))
    assert [row.sentence for row in found] == [row.id for row in made.datasets["plain"]]
    assert rows_of(made, "disagreements", models=("good-exact", "twin-exact")) == []
    years = {row.sentence for row in rows_of(made, "disagreements", datasets=("timed",), years=(2018,))}
    assert years <= {row.id for row in made.datasets["timed"] if row.year == 2018}
    assert years


# -- two readings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"), [("paper", "lenient"), ("strict", "paper-contains"), ("lenient", "lenient")]
)
def test_answers_that_two_policies_read_differently(made: Made, first: str, second: str) -> None:
    expected = set()
    for model, settings in made.models.items():
        if settings["parser"] in ("paper-threshold", "paper-flagged", "class-label"):
            continue  # both policies leave these to the model's own
        texts = sorted(
            {visible(p.raw_text or "") for p in made.predictions if p.model == model and p.status == "answered"}
        )
        judged = []
        for name in (first, second):
            rule = policy_for(settings["parser"], None if name == "paper" else POLICIES[name])
            judged.append(["none" if o in ("invalid", "ambiguous") else o for o in rule.judge(texts)])
        expected |= {(model, text) for text, one, two in zip(texts, *judged, strict=True) if one != two}
    rows = rows_of(made, "differ", parser=first, second=second)
    assert {(row.answer.model, visible(row.answer.raw_text or "")) for row in rows} == expected
    for row in rows:
        assert row.first_policy != row.second_policy
        assert row.answer.outcome == row.first_outcome
    assert bool(rows) == (first != second)


def test_a_policy_that_is_not_there(made: Made) -> None:
    with pytest.raises(ConfigError, match="no parse policy 'lenint'"):
        rows_of(made, "differ", second="lenint")


# -- kinds ------------------------------------------------------------------------------------------------------------


def test_counts_of_kinds_are_those_of_the_answers(made: Made) -> None:
    with StoreView(made.path, Selection(years=(2017, 2018, 2019))) as view:
        rows = list(view.rows())
        counts = count_kinds(view, examples=2)
    first = Counter((row.model, row.dataset, row.kind) for row in rows)
    members = Counter((row.model, row.dataset, kind) for row in rows for kind in row.kinds)
    assert {(c.model, c.dataset, c.kind): c.of_kind for c in counts} == dict(members)
    assert {(c.model, c.dataset, c.kind): c.primary for c in counts if c.primary} == dict(first)
    years = {(d, s.id) for d, s_ in made.datasets.items() for s in s_ if s.year in (2017, 2018, 2019)}
    answered = Counter(
        (p.model, p.dataset) for p in made.predictions if p.status == "answered" and (p.dataset, p.sentence) in years
    )
    cells = Counter((row.model, row.dataset) for row in rows)
    for count in counts:
        assert count.answered == answered[count.model, count.dataset]
        assert count.broken == cells[count.model, count.dataset]
        assert len(count.examples) <= 2
        assert bool(count.examples) == bool(count.primary)
        for example in count.examples:
            assert (example.model, example.dataset, example.kind) == (count.model, count.dataset, count.kind)


# -- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["answers", "kinds", "pairs", "disagreements", "differ"])
def test_pages_and_documents(made: Made, name: Any) -> None:
    parsed: Any = "broken" if name in ("answers", "kinds") else "any"
    with StoreView(made.path, Selection(parsed=parsed)) as store:
        view = open_view(store, name, second="lenient")
        rows = list(view.rows(0, None))
        first, second = view.page(1, 4), view.page(2, 4)
        assert [row.as_json() for row in first.rows + second.rows] == [row.as_json() for row in rows[:8]]
        assert (first.more, first.first, second.first) == (True, 1, 5)
        assert view.count() == first.total == second.total == len(rows)
        last = view.page(-(-len(rows) // 4), 4)
        assert not last.more
        assert not view.page(10**6, 4).rows
        said = document(view, first, store)
        assert said["view"] == name
        assert len(said["rows"]) == 4
        flat = list(view.flat_rows())
        assert flat
        assert all(set(row) <= set(view.columns) for row in flat)
