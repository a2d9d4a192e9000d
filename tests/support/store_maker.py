"""Stores made for tests of the analysis: by hand, row by row, and by a seeded generator with every edge case.

The generator decides for each prediction what it shall come to (``toxic``, ``respectful``, ``invalid``, ``refused``,
...) and only then spells it as that kind of model would, so that a test knows the truth without parsing anything.
"""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hatevolution.store.migrations import migrate
from hatevolution.store.text import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

RUN = "20250101T000000-test"


@dataclass(frozen=True, kw_only=True)
class MadeSentence:
    id: str
    text: str = "some words"
    gold: str | None = "respectful"
    year: int | None = None
    pair: str | None = None
    role: str | None = None
    type: str | None = None
    functionality: str | None = None
    target: str | None = None


@dataclass(frozen=True, kw_only=True)
class MadePrediction:
    model: str
    dataset: str
    sentence: str
    outcome: str
    """What it comes to: toxic, respectful, invalid, refused, rejected."""
    raw_text: str | None = None
    scores: str | None = None

    @property
    def status(self) -> str:
        return self.outcome if self.outcome in ("refused", "rejected") else "answered"


@dataclass
class Made:
    """What a store holds, as its maker knows it."""

    path: Path
    datasets: dict[str, list[MadeSentence]] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    predictions: list[MadePrediction] = field(default_factory=list)

    def outcome(self, model: str, dataset: str) -> list[str]:
        """Outcomes of one model for one set, in the order of its sentences."""
        known = {p.sentence: p.outcome for p in self.predictions if p.model == model and p.dataset == dataset}
        return [known.get(sentence.id, "missing") for sentence in self.datasets[dataset]]


class Maker:
    """Writes a store, table by table."""

    def __init__(self, path: Path) -> None:
        self.made = Made(path)
        self.years: dict[str, tuple[int, int] | None] = {}
        self.connection = sqlite3.connect(path)
        migrate(self.connection, str(path))
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(
            "INSERT INTO runs (run, started_at, who, command, configuration, versions) VALUES (?, ?, ?, ?, ?, ?)",
            (RUN, "2025-01-01T00:00:00+00:00", "tester@here", "[]", "{}", "{}"),
        )

    def dataset(
        self,
        name: str,
        sentences: Sequence[MadeSentence],
        *,
        title: str | None = None,
        years: tuple[int, int] | None = None,
    ) -> None:
        self.connection.execute(
            "INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (name, len(self.made.datasets), title or name, "https://example.org", None, "[]", "{}",
             len(sentences), "0" * 64, RUN),
        )  # fmt: skip
        self.connection.executemany(
            "INSERT INTO sentences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            [
                (name, position, s.id, encode(s.text), s.gold, s.gold, s.year, s.pair, s.role, s.type,
                 s.functionality, s.target if s.target is None else encode(s.target))
                for position, s in enumerate(sentences)
            ],
        )  # fmt: skip
        self.made.datasets[name] = list(sentences)
        self.years[name] = years
        self.connection.execute(
            "UPDATE runs SET configuration = ?",
            [json.dumps({"datasets": [{"name": key, "years": value} for key, value in self.years.items()]})],
        )

    def model(self, name: str, *, title: str | None = None, **configuration: Any) -> None:
        settings = {"name": name, "adapter": "scripted", "model": name, "parser": "paper-exact", **configuration}
        self.connection.execute(
            "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?)",
            (name, len(self.made.models), title or name, "f" * 64, "{}", json.dumps(settings), RUN),
        )
        self.made.models[name] = settings

    def predictions(self, rows: Iterable[MadePrediction]) -> None:
        rows = list(rows)
        self.connection.executemany(
            "INSERT INTO predictions (model, dataset, sentence, status, raw_text, scores, attempts, run)"
            " VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
            [
                (
                    r.model,
                    r.dataset,
                    r.sentence,
                    r.status,
                    None if r.raw_text is None else encode(r.raw_text),
                    r.scores,
                    RUN,
                )
                for r in rows
            ],
        )
        self.made.predictions += rows

    def answers(self, model: str, dataset: str, outcomes: Sequence[str]) -> None:
        """Give one outcome per sentence of a set, spelled for the rule ``paper-exact``; ``missing`` gives no row."""
        self.predictions(
            MadePrediction(
                model=model,
                dataset=dataset,
                sentence=sentence.id,
                outcome=outcome,
                raw_text={"refused": None, "rejected": None, "invalid": "no idea"}.get(outcome, outcome),
            )
            for sentence, outcome in zip(self.made.datasets[dataset], outcomes, strict=True)
            if outcome != "missing"
        )

    def done(self) -> Made:
        self.connection.commit()
        self.connection.close()
        return self.made


# -- spelling ------------------------------------------------------------------------------------------------------

_ODD = (
    "",
    " ",
    "no idea",
    "Error",
    "toxic.",
    "TOXIC ",
    "a\0b",
    "\ud800 broken",
    "\x1b[31mred",
    "=1+1",
    "[bold]x[/bold]",
    "x" * 3000,
)


def _spell_exact(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    if outcome == "invalid":
        return rng.choice((*_ODD, f"something else {rng.randrange(20)}")), None
    return rng.choice((outcome, f"'{outcome}'", outcome.title(), f"'{outcome.title()}'")), None


def _spell_stripped(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    text, _ = _spell_exact(rng, outcome)
    return (text if outcome == "invalid" else f" {text}\n"), None


def _spell_contains(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    if outcome == "invalid":
        return rng.choice(("", "I can not say", "hateful", "\ud800")), None
    return rng.choice((f"It is {outcome.upper()}.", outcome, f"not {outcome}", f"{outcome}\nInput")), None


def _spell_threshold(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    if outcome == "invalid":
        return None, rng.choice(("{}", '{"other": 0.9}', '{"TOXICITY": null}'))
    score = rng.choice((0.5000001, 0.93, 1.0)) if outcome == "toxic" else rng.choice((0.5, 0.2, 0.0, 1e-9))
    return None, json.dumps({"TOXICITY": score})


def _spell_flagged(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    text = {"toxic": "true", "respectful": "false"}.get(outcome, "null")
    return text, json.dumps({"hate": rng.random(), "hate/threatening": rng.random()})


def _spell_class(rng: random.Random, outcome: str) -> tuple[str | None, str | None]:
    text = rng.choice({"toxic": ("hate", "LABEL_2"), "respectful": ("nothate",)}.get(outcome, ("other",)))
    return text, json.dumps({text: 0.7})


_SPELLING = {
    "paper-exact": _spell_exact,
    "paper-exact-stripped": _spell_stripped,
    "paper-contains": _spell_contains,
    "paper-threshold": _spell_threshold,
    "paper-flagged": _spell_flagged,
    "class-label": _spell_class,
}
CLASS_NAMES = {"toxic": ["hate", "LABEL_2"], "respectful": ["nothate"]}


# -- the generator -------------------------------------------------------------------------------------------------


def _years(rng: random.Random, size: int, *, lacking: int | None) -> list[MadeSentence]:
    """Years 2016 (outside) to 2021, one of them lacking toxic sentences; a sentence without a year; repeated texts."""
    found = []
    for index in range(size):
        year = None if index == 3 else 2016 + index % 6
        gold = "respectful" if year == lacking else rng.choice(("toxic", "respectful", "respectful"))
        found.append(MadeSentence(id=f"s-{index}", text=f"text {index % 7}", gold=gold, year=year))
    return found


def _pairs(rng: random.Random, count: int) -> list[MadeSentence]:
    found = []
    for index in range(count):
        gold = "toxic" if index % 9 == 0 else "respectful"
        year = None if index % 11 == 0 else rng.choice((2020, 2021, 2022))
        kind = rng.choice(("lexical", "morphological", "semantic"))
        found += [
            MadeSentence(
                id=f"{index}-{role}", gold=gold, year=year, pair=f"p{index}", role=role, type=kind,
                text="same" if index == 2 else f"{role} {index}",
            )
            for role in ("original", "neologism")
            if not (index == 1 and role == "neologism")  # one pair has lost its partner
        ]  # fmt: skip
    rng.shuffle(found)
    return found


def _functional(rng: random.Random, size: int) -> list[MadeSentence]:
    functions = ("slur_h", "negate_nh", "profanity_h", "quote_nh")
    return [
        MadeSentence(
            id=f"case {index}",
            gold="toxic" if functions[index % 4].endswith("_h") else "respectful",
            functionality=functions[index % 4],
            target=rng.choice(("women", "Muslims", "trans \ud800 people", None)),
        )
        for index in range(size)
    ]


def _plain(rng: random.Random, size: int, *, golds: Sequence[str | None]) -> list[MadeSentence]:
    return [MadeSentence(id=f"r{index}", gold=rng.choice(golds), text=f"text {index % 5}") for index in range(size)]


def _outcomes(rng: random.Random, sentences: Sequence[MadeSentence], kind: str) -> list[str]:
    golds = [sentence.gold or "respectful" for sentence in sentences]
    if kind in ("toxic", "respectful", "invalid", "missing"):
        return [kind] * len(golds)
    flip = {"toxic": "respectful", "respectful": "toxic"}
    skill = {"good": 0.9, "fair": 0.65, "poor": 0.45, "gappy": 0.7}[kind]
    right = [gold if rng.random() < skill else flip[gold] for gold in golds]
    if kind == "gappy":
        odd = ("invalid", "invalid", "refused", "rejected", "missing")
        right = [rng.choice(odd) if rng.random() < 0.4 else label for label in right]
    return right


_MODELS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("good-exact", "paper-exact", "good", {}),
    ("gappy-exact", "paper-exact", "gappy", {}),
    ("gappy-chat", "paper-exact-stripped", "gappy", {}),
    ("fair-base", "paper-contains", "fair", {}),
    ("scores", "paper-threshold", "gappy", {}),
    ("flags", "paper-flagged", "fair", {}),
    ("classes", "class-label", "poor", {"labels": CLASS_NAMES}),
    ("always-respectful", "paper-exact", "respectful", {}),
    ("always-toxic", "paper-exact", "toxic", {}),
    ("never-valid", "paper-exact", "invalid", {}),
    ("never-asked", "paper-exact", "missing", {}),
    ("member-a", "class-label", "fair", {"labels": CLASS_NAMES, "composite": "Together"}),
    ("member-b", "class-label", "gappy", {"labels": CLASS_NAMES, "composite": "Together"}),
)


def generate(path: Path, seed: int, *, size: int = 120) -> Made:
    """Make a store with every edge case: absent classes, no valid answer, ties, constants, gaps, odd texts."""
    rng = random.Random(seed)
    maker = Maker(path)
    maker.dataset("timed", _years(rng, 3 * size, lacking=None), title="Timed Set", years=(2017, 2021))
    maker.dataset("timed-gap", _years(rng, size, lacking=2018), years=(2017, 2021))
    maker.dataset("paired", _pairs(rng, max(12, size // 3)), title="Paired Set", years=(2020, 2022))
    maker.dataset("cases", _functional(rng, size), title="Case Set")
    maker.dataset("plain", _plain(rng, size, golds=("toxic", "respectful")))
    maker.dataset("one-class", _plain(rng, 20, golds=("toxic",)))
    maker.dataset("unlabelled", _plain(rng, 10, golds=(None,)))
    maker.dataset("empty", [])
    rows = []
    for name, parser, kind, more in _MODELS:
        maker.model(name, parser=parser, **more)
        for dataset, sentences in maker.made.datasets.items():
            for sentence, outcome in zip(sentences, _outcomes(rng, sentences, kind), strict=True):
                if outcome == "missing":
                    continue
                answered = outcome not in ("refused", "rejected")
                raw, scores = _SPELLING[parser](rng, outcome) if answered else (None, None)
                rows.append(
                    MadePrediction(
                        model=name, dataset=dataset, sentence=sentence.id, outcome=outcome, raw_text=raw, scores=scores
                    )
                )
    # A twin of the first model: every metric of the two is tied.
    maker.model("twin-exact", parser="paper-exact")
    rows += [
        MadePrediction(**{**vars(row), "model": "twin-exact"}) for row in rows if row.model == "good-exact"
    ]  # fmt: skip
    rng.shuffle(rows)
    maker.predictions(rows)
    return maker.done()
