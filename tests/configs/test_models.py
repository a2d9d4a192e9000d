"""Every model, experiment and prompt that the project ships can be loaded, and says what the study says."""

from __future__ import annotations

import csv
import io
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from hatevolution.adapters.registry import create
from hatevolution.configs.load import load_experiment, load_model, shipped, shipped_names
from hatevolution.configs.prompts import Prompt, load_prompt
from hatevolution.domain import Item

if TYPE_CHECKING:
    from hatevolution.configs.schema import ModelConfig

MODELS = shipped_names("models")
KEYS = {"OPENAI_API_KEY": "sk-test-0123456789", "PERSPECTIVE_API_KEY": "AIzaTest0123456789"}

# The rows of the study's Table 3, in its order (TimeLMs is a mean over its members).
TABLE_3 = [
    "FLAN-Alpaca-base",
    "FLAN-Alpaca-large",
    "FLAN-Alpaca-xl",
    "FLAN-T5-small",
    "FLAN-T5-base",
    "FLAN-T5-large",
    "FLAN-T5-xl",
    "mT0-small",
    "mT0-base",
    "mT0-large",
    "mT0-xl",
    "RoBERTa-dyna-r1",
    "RoBERTa-dyna-r2",
    "RoBERTa-dyna-r3",
    "RoBERTa-dyna-r4",
    "GPT-3.5-turbo",
    "GPT-4o",
    "Moderation API",
    "Perspective API",
    "DeepSeek LLM-7b",
]
SIX = ("singapore-online-attacks", "neobench", "hatexplain", "implicit-hate", "hatecheck", "dynabench")
EMBEDDED = ("alt-profanity-check", "always-respectful", "always-toxic", "seeded-random")


def loaded(name: str) -> tuple[ModelConfig, Prompt | None]:
    model, path = load_model(name)
    return model, None if model.prompt is None else load_prompt(model.prompt, path.parent)


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_what_its_file_is_called_and_has_an_adapter(name: str) -> None:
    model, prompt = loaded(name)
    assert model.name == name
    assert model.title
    adapter = create(model, prompt, KEYS)
    assert adapter.base_urls == model.endpoint.base_urls
    estimate = adapter.estimate(Item("set", "s", "a sentence"))
    assert estimate.prompt_likely <= estimate.prompt_most


@pytest.mark.parametrize("name", MODELS)
def test_successors_are_models_too(name: str) -> None:
    model, _ = loaded(name)
    if model.retired is not None:
        assert model.retired.successor in MODELS
        assert model.retired.note


@pytest.mark.parametrize("name", MODELS)
def test_classes_and_labels_go_together(name: str) -> None:
    model, _ = loaded(name)
    if model.adapter != "vllm-classify":
        assert not model.labels
        return
    toxic, respectful = model.labels["toxic"], model.labels["respectful"]
    assert set(model.labels) == {"toxic", "respectful"}
    assert not set(toxic) & set(respectful)
    classes = model.options.get("classes", [])
    assert isinstance(classes, list)
    assert set(classes) <= {*toxic, *respectful}
    assert model.decoding.truncate_prompt_tokens == 512
    assert model.server is not None
    assert model.server.max_model_len == 512


def test_titles_are_different() -> None:
    titles = [loaded(name)[0].label for name in MODELS]
    assert len(set(titles)) == len(titles)


def test_the_whole_study() -> None:
    experiment, _ = load_experiment("hatevolution")
    models = [loaded(name)[0] for name in experiment.models]
    singles = [model for model in models if model.composite is None]
    assert [model.title for model in singles] == TABLE_3
    members = [model for model in models if model.composite is not None]
    assert {model.composite for model in members} == {"TimeLMs"}
    assert len(members) == 4
    assert experiment.datasets == SIX


def test_the_commercial_part() -> None:
    experiment, _ = load_experiment("openai")
    assert experiment.models == ("gpt-3.5-turbo", "gpt-4o", "moderation-api", "perspective-api")
    assert experiment.datasets == SIX


@pytest.mark.parametrize("name", shipped_names("experiments"))
def test_each_experiment_names_what_there_is(name: str) -> None:
    experiment, path = load_experiment(name)
    assert experiment.name == name
    for model in experiment.models:
        load_model(model, path.parent)
    for dataset in experiment.datasets:
        assert dataset in shipped_names("datasets")


@pytest.mark.parametrize("name", ["quickstart", "embedded"])
def test_what_runs_everywhere_asks_the_embedded_models(name: str) -> None:
    experiment, _ = load_experiment(name)
    assert experiment.models == EMBEDDED


@pytest.mark.parametrize(
    ("pattern", "adapter", "prompt", "parser", "max_tokens", "temperature"),
    [
        ("flan-", "seq2seq", "paper-open", "paper-exact", 20, 0.0),
        ("mt0-", "seq2seq", "paper-open", "paper-exact", 20, 0.0),
        ("deepseek-", "vllm-completions", "paper-open", "paper-contains", 20, 0.0),
        ("roberta-dyna-", "vllm-classify", None, "class-label", None, None),
        ("timelms-", "vllm-classify", None, "class-label", None, None),
        ("gpt-", "openai-chat", "paper-chat", "paper-exact-stripped", 10, None),
        ("moderation-api", "openai-moderation", "paper-moderation", "paper-flagged", None, None),
        ("omni-moderation", "openai-moderation", None, "paper-flagged", None, None),
        ("perspective-api", "perspective", None, "paper-threshold", None, None),
        ("alt-", "embedded", None, "paper-threshold", None, None),
        ("always-", "embedded", None, "paper-exact", None, None),
        ("seeded-", "embedded", None, "paper-exact", None, None),
    ],
)
def test_how_each_family_is_asked(
    pattern: str, adapter: str, prompt: str | None, parser: str, max_tokens: int | None, temperature: float | None
) -> None:
    found = [loaded(name)[0] for name in MODELS if name.startswith(pattern)]
    assert found
    for model in found:
        assert (model.adapter, model.prompt, model.parser) == (adapter, prompt, parser)
        assert (model.decoding.max_tokens, model.decoding.temperature) == (max_tokens, temperature)


@pytest.mark.parametrize("name", ["flan-alpaca-xl", "flan-t5-xl", "mt0-xl"])
def test_xl_sizes_are_loaded_in_8_bit(name: str) -> None:
    model, _ = loaded(name)
    assert model.server is not None
    assert model.server.quantization == "int8"


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("gpt-3.5-turbo", "2026-10-23"),
        ("moderation-api", "2025-10-27"),
        ("perspective-api", "2027-01-01"),
        ("gpt-4o", "2027-01-14"),
        ("gpt-4o-mini", "2027-01-14"),
    ],
)
def test_ends_that_are_known(name: str, date: str) -> None:
    model, _ = loaded(name)
    assert model.retired is not None
    assert model.retired.date.isoformat() == date


# US dollars per million tokens, in and out.
@pytest.mark.parametrize(("name", "price"), [("gpt-3.5-turbo", (0.5, 1.5)), ("gpt-4o", (2.5, 10.0))])
def test_prices(name: str, price: tuple[float, float]) -> None:
    model, _ = loaded(name)
    assert model.price is not None
    assert (model.price.input_usd_per_million_tokens, model.price.output_usd_per_million_tokens) == price


def test_the_whole_protocol_costs_a_few_dollars_on_gpt_4o() -> None:
    """Some 16 000 calls of some 85 tokens are about four dollars."""
    model, prompt = loaded("gpt-4o")
    assert model.price is not None
    estimate = create(model, prompt, KEYS).estimate(Item("set", "s", "x" * 100))
    likely = 16_000 * (estimate.prompt_likely * model.price.input_usd_per_million_tokens) / 1e6
    assert 2 < likely < 6


def test_no_file_names_a_key_or_a_place_of_one_machine() -> None:
    for folder in ("models", "experiments", "prompts"):
        for path in shipped(folder).glob("*.toml"):
            text = path.read_text(encoding="utf-8")
            assert "sk-" not in text
            assert "AIza" not in text
            assert "/home/" not in text


def test_titles_are_those_of_the_published_tables() -> None:
    published = files("hatevolution.analysis") / "published" / "table3_time_sensitive_f1.csv"
    if not published.is_file():
        pytest.skip("the published tables are not in this tree")
    rows = csv.DictReader(io.StringIO(published.read_text(encoding="utf-8")))
    assert [row["Model"] for row in rows] == [*TABLE_3, "TimeLMs"]
