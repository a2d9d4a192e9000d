"""TOML files -> configurations: what is accepted, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.analysis.parsers import policy
from hatevolution.configs.dataset_schema import DatasetConfig
from hatevolution.configs.fingerprint import differences, fingerprint, specification
from hatevolution.configs.load import find, load_experiment, load_model, load_toml
from hatevolution.configs.prompts import Prompt, load_prompt
from hatevolution.configs.schema import ExperimentConfig, ModelConfig
from hatevolution.errors import ConfigError

MODEL = """
name = "mine"
adapter = "vllm-completions"
model = "org/name"
prompt = "paper-open"
[decoding]
max_tokens = 20
temperature = 0.0
[endpoint]
base_urls = ["http://127.0.0.1:8000/v1"]
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_model_is_read_typed_and_frozen(tmp_path: Path) -> None:
    model, _ = load_model(str(write(tmp_path, MODEL)))
    assert model.decoding.max_tokens == 20
    assert model.endpoint.base_urls == ("http://127.0.0.1:8000/v1",)
    with pytest.raises(AttributeError):
        model.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('promt = "paper-open"', ["mine.toml", "'promt'", "did you mean 'prompt'"]),
        ("[endpoint]\nmax_concurency = 3", ["mine.toml", "[endpoint]", "'max_concurency'", "'max_concurrency'"]),
        ("[decoding]\nmax_tokens = 0", ["mine.toml", "'decoding.max_tokens': needs to be at least 1."]),
        ("[endpoint]\nrequests_per_minute = 1e-300", ["'endpoint.requests_per_minute': needs to be at least 0.001."]),
        (
            "[endpoint]\nrequests_per_minute = 1e300",
            ["'endpoint.requests_per_minute': needs to be at most 1000000000."],
        ),
        ("[endpoint]\ntokens_per_minute = 0.5", ["'endpoint.tokens_per_minute': needs to be at least 1."]),
        ("[endpoint]\ntokens_per_minute = 1e13", ["'endpoint.tokens_per_minute': needs to be at most 1000000000000."]),
        ("[endpoint]\nmax_concurrency = 1000001", ["'endpoint.max_concurrency': needs to be at most 1000000."]),
        ("[endpoint]\nbatch_size = 1000001", ["'endpoint.batch_size': needs to be at most 1000000."]),
        ("[endpoint]\nmax_attempts = 1000001", ["'endpoint.max_attempts': needs to be at most 1000000."]),
        ("[endpoint]\ntimeout_s = 1e-300", ["'endpoint.timeout_s': needs to be at least 0.001."]),
        ("[endpoint]\ntimeout_s = 1e300", ["'endpoint.timeout_s': needs to be at most 31536000."]),
        ("[endpoint]\nmax_retry_after_s = 1e300", ["'endpoint.max_retry_after_s': needs to be at most 31536000."]),
        ("[endpoint]\ngive_up_after_s = 1e300", ["'endpoint.give_up_after_s': needs to be at most 31536000."]),
        ("[endpoint]\ngive_up_after_s = -1", ["'endpoint.give_up_after_s': needs to be at least 0."]),
        ("[server]\nstartup_timeout_s = 1e300", ["'server.startup_timeout_s': needs to be at most 31536000."]),
        ("[decoding]\ntop_p = 0", ["'decoding.top_p': needs to be more than 0."]),
        ('[decoding]\nmax_tokens = "20"', ["mine.toml", "max_tokens", "a whole number"]),
        ("[endpoint]\ntimeout_s = -1.0", ["mine.toml", "timeout_s"]),
        ("[endpoint\n", ["mine.toml", "not valid TOML"]),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(tmp_path: Path, line: str, expected: list[str]) -> None:
    text = f'name = "mine"\nadapter = "scripted"\nmodel = "m"\n{line}\n'
    with pytest.raises(ConfigError) as caught:
        load_toml(write(tmp_path, text), ModelConfig)
    for part in expected:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_adapter_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapter"):
        load_toml(write(tmp_path, 'name = "a"\nadapter = "vlm"\nmodel = "m"\n'), ModelConfig)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapter"):
        load_toml(write(tmp_path, 'name = "a"\nmodel = "m"\n'), ModelConfig)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_toml(path, ModelConfig)


def test_a_name_with_a_slip_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'quickstart'"):
        load_experiment("quikstart")


def test_a_path_is_relative_to_the_file_that_holds_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner, MODEL)
    assert find("./mine.toml", "models", inner) == inner / "mine.toml"
    with pytest.raises(ConfigError, match="There is no file"):
        find("./mine.toml", "models", tmp_path)


def test_the_shipped_spelling_works_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment, _ = load_experiment("configs/experiments/quickstart.toml")
    assert experiment.name == "quickstart"


def test_an_experiment_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="models"):
        load_toml(write(tmp_path, 'name = "e"\nmodels = []\ndatasets = ["a"]\n'), ExperimentConfig)


def test_a_prompt_needs_its_place_exactly_once(tmp_path: Path) -> None:
    for user in ("no place", "{text} and {text}"):
        write(tmp_path, f'name = "p"\nversion = 1\nuser = "{user}"\n', "p.toml")
        with pytest.raises(ConfigError, match="exactly once"):
            load_prompt("./p.toml", tmp_path)


@given(st.text(st.characters()))
def test_a_sentence_is_put_in_as_it_is(text: str) -> None:
    prompt = load_prompt("paper-open")
    said = prompt.render(text)
    assert said.startswith("Classify the input text as 'respectful' or 'toxic'.\nInput text: ")
    assert said.removeprefix(prompt.before).removesuffix(prompt.after) == text


@pytest.mark.parametrize("text", ["{text}", "{0}", "%s %d", "  outer blanks  ", "{{}}", "a\0b", "\ud800"])
def test_braces_percent_signs_blanks_and_worse_survive(text: str) -> None:
    assert Prompt("p", 1, "a ", " b").render(text) == f"a {text} b"


def test_the_published_prompts_are_word_for_word() -> None:
    opened = load_prompt("paper-open")
    assert opened.system is None
    assert opened.render("X") == "Classify the input text as 'respectful' or 'toxic'.\nInput text: X.\nAnswer: "
    chat = load_prompt("paper-chat")
    assert chat.system == "You are a helpful assistant specialized in text classification."
    assert chat.render("X") == (
        "Classify the input text as 'respectful' or 'toxic'.\nInput text: X.\n"
        "Answer with only one word, 'respectful' or 'toxic': "
    )


def test_what_changes_answers_changes_the_fingerprint_and_what_does_not_does_not(tmp_path: Path) -> None:
    model, _ = load_model(str(write(tmp_path, MODEL)))
    prompt = load_prompt("paper-open")
    stored = specification(model, prompt)

    faster, _ = load_model(str(write(tmp_path, MODEL + "max_concurrency = 99\ntimeout_s = 5.0\n", "faster.toml")))
    assert fingerprint(specification(faster, prompt)) == fingerprint(stored)
    renamed, _ = load_model(str(write(tmp_path, 'title = "Mine"\nparser = "strict"\n' + MODEL, "renamed.toml")))
    assert fingerprint(specification(renamed, prompt)) == fingerprint(stored)

    warmer, _ = load_model(str(write(tmp_path, MODEL.replace("temperature = 0.0", "temperature = 0.7"), "warm.toml")))
    asked = specification(warmer, prompt)
    assert fingerprint(asked) != fingerprint(stored)
    assert differences(stored, asked) == ["decoding.temperature: 0.0 -> 0.7"]
    assert differences(stored, specification(model, None)) == [
        f"prompt: {fingerprintable(stored['prompt'])} -> null",
    ]


@pytest.mark.parametrize(
    ("adapter", "served", "parser", "reads"),
    [
        ("vllm-completions", "org/name", "lenient", "text"),
        ("vllm-chat", "org/name", "lenient", "text"),
        ("seq2seq", "org/name", "lenient", "text"),
        ("openai-chat", "gpt-x", "lenient", "text"),
        ("scripted", "anything", "lenient", "text"),
        ("vllm-classify", "org/name", "class-label", "classifier"),
        ("openai-moderation", "omni", "paper-flagged", "classifier"),
        ("perspective", "TOXICITY", "paper-threshold", "classifier"),
        ("embedded", "alt-profanity-check", "paper-threshold", "classifier"),
        ("embedded", "always-toxic", "paper-exact", "text"),
    ],
)
def test_a_parser_that_is_left_out_reads_what_the_adapter_gives(
    tmp_path: Path, adapter: str, served: str, parser: str, reads: str
) -> None:
    text = f'name = "mine"\nadapter = "{adapter}"\nmodel = "{served}"\n'
    model, _ = load_model(str(write(tmp_path, text)))
    assert (model.parser, policy(model.parser).reads) == (parser, reads)
    named, _ = load_model(str(write(tmp_path, text + 'parser = "strict"\n', "named.toml")))
    assert named.parser == "strict"
    assert fingerprint(specification(named, None)) == fingerprint(specification(model, None))


@pytest.mark.parametrize(
    ("text", "said"),
    [('name = "two words"\n', "'name': a name has letters, .*: no blank"),
     ('name = "a"\n[[files]]\nname = "x"\nsha256 = "abc"\n', "sha256': needs to be 64 hexadecimal digits")],
)  # fmt: skip
def test_what_a_pattern_forbids_is_said_in_words(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_toml(write(tmp_path, 'format = "csv"\n' + text), DatasetConfig)


def test_a_parser_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="parser"):
        load_model(str(write(tmp_path, 'parser = ""\n' + MODEL)))


def fingerprintable(value: object) -> str:
    import json

    return json.dumps(value)
