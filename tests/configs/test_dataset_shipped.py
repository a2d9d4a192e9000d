"""The data sets that the project ships: their descriptions, and the made-up sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from urllib.parse import quote, unquote, urlsplit

import pytest

from hatevolution.adapters.datasets import LocatedDataset, locate
from hatevolution.adapters.datasets.pairs import IDENTICAL
from hatevolution.configs.dataset_schema import STUDY, load_dataset
from hatevolution.configs.load import load_experiment, shipped, shipped_names
from hatevolution.domain import Label, Role, Sentence

NAMES = shipped_names("datasets")
LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "nl", "pl", "pt", "zh")


def test_the_sets_are_those_that_were_promised() -> None:
    expected = {
        *STUDY,
        *(f"sample-{name}" for name in STUDY),
        *(f"multilingual-hatecheck-{code}" for code in LANGUAGES),
    }
    assert set(NAMES) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_set_describes_itself(name: str) -> None:
    config, path = load_dataset(name)
    assert config.name == name == path.stem
    assert config.title
    assert config.labels is not None or config.columns.annotators
    if name.startswith("sample-"):
        assert config.path is not None
        return
    assert config.source is not None
    assert urlsplit(config.source).scheme == "https"
    assert config.citation
    for layout in (config, *config.alternatives):
        for source in layout.files:
            assert source.url is not None
            parts = urlsplit(source.url)
            assert (parts.scheme, parts.netloc) == ("https", "raw.githubusercontent.com")
            owner, repository, commit, *rest = parts.path[1:].split("/")
            assert owner and repository and len(commit) == 40  # a commit's files never change
            assert unquote(rest[-1]) == source.name
            assert parts.path == quote(unquote(parts.path))


def test_sizes_are_those_of_the_files_and_of_the_paper() -> None:
    sizes = {name: load_dataset(name)[0] for name in STUDY}
    assert {name: config.expected.sentences for name, config in sizes.items()} == {
        "singapore-online-attacks": 3000,
        "neobench": 680,
        "hatexplain": 1924,
        "implicit-hate": 2148,
        "hatecheck": 3728,
        "dynabench": None,
    }
    assert {name: config.published.sentences for name, config in sizes.items()} == {
        "singapore-online-attacks": 3000,
        "neobench": 682,
        "hatexplain": 1924,
        "implicit-hate": 2149,
        "hatecheck": 3729,
        "dynabench": 4120,
    }
    assert (sizes["neobench"].expected.pairs, sizes["neobench"].published.pairs) == (340, 341)
    languages = [load_dataset(f"multilingual-hatecheck-{code}")[0] for code in LANGUAGES]
    assert sum(config.expected.sentences or 0 for config in languages) == 36_582
    for config in (*sizes.values(), *languages):
        if config.expected.toxic is not None and config.expected.respectful is not None:
            assert config.expected.toxic + config.expected.respectful == config.expected.sentences


@pytest.mark.parametrize("name", STUDY)
def test_a_sample_is_read_as_its_original_is(name: str) -> None:
    original, sample = load_dataset(name)[0], load_dataset(f"sample-{name}")[0]
    for key in ("loader", "columns", "labels", "filters", "replace", "no_year", "years"):
        assert getattr(sample, key) == getattr(original, key)


def sample(name: str) -> tuple[LocatedDataset, list[Sentence]]:
    found = locate(*load_dataset(f"sample-{name}"), None)
    sentences = list(found.sentences())
    assert found.warnings == []  # the counts in its description are right
    assert len({sentence.id for sentence in sentences}) == len(sentences)
    return found, sentences


def test_the_sample_has_toxic_and_respectful_sentences_in_each_year() -> None:
    _, sentences = sample("singapore-online-attacks")
    labels = defaultdict(Counter)  # type: ignore[var-annotated]  # year -> label -> sentences
    for sentence in sentences:
        labels[sentence.year][sentence.gold] += 1
    assert sorted(labels) == [2017, 2018, 2019, 2020, 2021, 2022]
    assert all(min(counts["toxic"], counts["respectful"]) >= 5 for counts in labels.values())
    assert 60 <= len(sentences) <= 120


def test_the_sample_of_pairs_has_years_types_and_divided_annotators() -> None:
    _, sentences = sample("neobench")
    originals = [sentence for sentence in sentences if sentence.role is Role.ORIGINAL]
    assert len(originals) >= 24
    assert {sentence.year for sentence in originals} == {2020, 2021, 2022, 2023, None}
    assert {sentence.type for sentence in originals} == {"lexical", "morphological", "semantic"}
    votes = [Counter(sentence.meta[f"Annotator {n}"] for n in (1, 2, 3)) for sentence in originals]
    assert any(len(counts) == 2 for counts in votes)
    assert {sentence.gold for sentence in originals if sentence.year == 2023} == {"toxic", "respectful"}
    assert sum(IDENTICAL in sentence.meta for sentence in originals) == 1


@pytest.mark.parametrize("name", ["hatexplain", "implicit-hate", "hatecheck", "dynabench"])
def test_the_static_samples_have_both_labels(name: str) -> None:
    _, sentences = sample(name)
    counts = Counter(sentence.gold for sentence in sentences)
    assert len(sentences) >= 40
    assert min(counts[label] for label in Label) >= 15


def test_the_sample_of_hatecheck_has_functionalities_and_targets() -> None:
    _, sentences = sample("hatecheck")
    assert len({sentence.functionality for sentence in sentences}) >= 10
    assert {sentence.target for sentence in sentences} > {None}
    assert all(str(s.functionality).endswith("_h") == (s.gold == "toxic") for s in sentences)
    assert sum(sentence.text.endswith(" ") for sentence in sentences) > 40  # as in the original


def test_the_sample_of_dynabench_has_other_splits_that_are_left_out() -> None:
    found, sentences = sample("dynabench")
    lines = found.files[0].path.read_text(encoding="utf-8").splitlines()
    assert len(lines) - 1 > len(sentences)
    assert {sentence.meta["round"] for sentence in sentences} == {"1", "2a", "2b", "3a", "3b", "4a", "4b"}


def test_the_sample_is_text_that_a_person_can_read() -> None:
    for path in shipped("sample").iterdir():
        text = path.read_bytes().decode("utf-8")
        assert path.suffix == ".csv"
        assert "\r" not in text and text.endswith("\n")


def test_experiments_on_the_sample_and_on_the_real_sets() -> None:
    quickstart, _ = load_experiment("quickstart")
    embedded, _ = load_experiment("embedded")
    assert set(quickstart.datasets) == {f"sample-{name}" for name in STUDY}
    assert embedded.datasets == STUDY
    models = ("alt-profanity-check", "always-respectful", "always-toxic", "seeded-random")
    assert quickstart.models == embedded.models == models
