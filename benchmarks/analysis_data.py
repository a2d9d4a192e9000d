"""Stores of the study's shape and any size, for the benchmarks of the analysis (seeded)."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from store_maker import CLASS_NAMES, RUN, MadeSentence, Maker

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = {"singapore": 3000, "neobench": 680, "hatexplain": 1924, "implicit": 2148, "hatecheck": 3728, "dynabench": 4120}
"""15,600 sentences."""
MODELS = 21


def _sentences(rng: random.Random, dataset: str, size: int) -> list[MadeSentence]:
    if dataset == "neobench":
        found = []
        for index in range(size // 2):
            # Year and type are the neologism's, so that both sentences of a pair have them.
            year, kind = rng.choice((2020, 2021, 2022, 2023)), rng.choice(("lexical", "morphological", "semantic"))
            gold = "toxic" if index % 16 == 0 else "respectful"
            found += [
                MadeSentence(id=f"row-{index}-{role}", pair=f"row-{index}", role=role, year=year, gold=gold, type=kind)
                for role in ("original", "neologism")
            ]
        return found
    found = []
    for index in range(size):
        gold = "toxic" if rng.random() < 0.4 else "respectful"
        found.append(
            MadeSentence(
                id=f"sample_{index}",
                gold=gold,
                year=2017 + index % 6 if dataset == "singapore" else None,
                functionality=f"function_{index % 29}" if dataset == "hatecheck" else None,
                target=f"group {index % 8}" if dataset == "hatecheck" else None,
            )
        )
    return found


def _rows(rng: random.Random, maker: Maker, names: list[str]) -> Iterator[tuple[object, ...]]:
    digest = "ab" * 32
    for dataset, sentences in maker.made.datasets.items():
        for sentence in sentences:
            for number, name in enumerate(names):
                right = rng.random() < 0.55 + 0.4 * number / len(names)
                label = (
                    sentence.gold if right else {"toxic": "respectful", "respectful": "toxic"}[sentence.gold or "toxic"]
                )
                raw, scores = label, None
                if number == 0:
                    score = rng.random() / 2
                    raw, scores = None, f'{{"TOXICITY": {score + 0.5 * (label == "toxic")}}}'
                elif number in (1, 2, 3, 4):
                    raw, scores = {"toxic": "hate", "respectful": "nothate"}[label or ""], '{"hate": 0.75}'
                elif rng.random() < 0.03:
                    raw = f"The input text is number {rng.randrange(400)}"
                yield name, dataset, sentence.id, "answered", raw, scores, "stop", digest, 1, RUN


def build(path: Path, *, factor: int = 1, seed: int = 1) -> int:
    """Make a store of ``21 x 15,600 x factor`` predictions and return their number."""
    path.unlink(missing_ok=True)
    rng = random.Random(seed)
    maker = Maker(path)
    for dataset, size in SHAPE.items():
        maker.dataset(dataset, _sentences(rng, dataset, size * factor))
    names = [f"model-{number:02}" for number in range(MODELS)]
    for number, name in enumerate(names):
        parser = "paper-threshold" if number == 0 else "class-label" if number < 5 else "paper-exact"
        maker.model(name, parser=parser, labels=CLASS_NAMES if parser == "class-label" else {})
    maker.connection.executemany(
        "INSERT INTO predictions (model, dataset, sentence, status, raw_text, scores, finish_reason, prompt_sha256,"
        " attempts, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        _rows(rng, maker, names),
    )
    count = int(maker.connection.execute("SELECT count(*) FROM predictions").fetchone()[0])
    maker.done()
    return count
