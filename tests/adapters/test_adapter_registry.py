from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from fake_setup import CHAT_PROMPT, PROMPT, model

from hatevolution.adapters.registry import Registry, create, kinds
from hatevolution.adapters.secrets import Secrets
from hatevolution.configs.prompts import Prompt
from hatevolution.configs.schema import AdapterKind
from hatevolution.errors import ConfigError

URL = "http://127.0.0.1:8000/v1"
KEYS = {"OPENAI_API_KEY": "sk-test-0123456789", "PERSPECTIVE_API_KEY": "AIzaTest0123456789"}

# A configuration that each kind accepts.
FINE: dict[str, tuple[dict[str, object], Prompt | None]] = {
    "vllm-completions": ({"base_urls": (URL,), "max_tokens": 20, "temperature": 0.0}, PROMPT),
    "vllm-chat": ({"base_urls": (URL,), "max_tokens": 20}, CHAT_PROMPT),
    "vllm-classify": ({"base_urls": (URL,), "truncate_prompt_tokens": 512}, None),
    "seq2seq": ({"base_urls": (URL,), "max_tokens": 20}, PROMPT),
    "openai-chat": ({"max_tokens": 10}, CHAT_PROMPT),
    "openai-moderation": ({}, None),
    "perspective": ({"options": {"languages": ["en"]}}, None),
    "embedded": ({"model": "always-toxic"}, None),
    "scripted": ({"options": {"failures": ["429 every 50 retry_after=2"]}}, PROMPT),
}


def test_every_kind_that_a_file_may_name_has_an_adapter() -> None:
    assert kinds() == sorted(get_args(AdapterKind)) == sorted(FINE)


@pytest.mark.parametrize("kind", sorted(FINE))
def test_each_kind_is_made_without_connecting_to_anything(kind: str) -> None:
    fields, prompt = FINE[kind]
    adapter = create(model(kind, **fields), prompt, KEYS)
    assert adapter.base_urls
    assert adapter.batch_size == 1


@pytest.mark.parametrize("kind", sorted(FINE))
async def test_closing_is_safe_without_opening_and_twice(kind: str) -> None:
    fields, prompt = FINE[kind]
    adapter = create(model(kind, **fields), prompt, KEYS)
    await adapter.close()
    await adapter.open()
    await adapter.close()
    await adapter.close()


@pytest.mark.parametrize("kind", sorted(FINE))
def test_an_unknown_option_is_told_with_the_nearest_known_one(kind: str) -> None:
    fields, prompt = FINE[kind]
    options = {**fields.get("options", {}), "sede": 1}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="'tested' has an unknown option 'sede'"):
        create(model(kind, **{**fields, "options": options}), prompt, KEYS)


WRONG: list[tuple[str, dict[str, object], Prompt | None, str]] = [
    ("vllm-completions", {"base_urls": (URL,)}, None, "names no prompt"),
    ("vllm-chat", {"base_urls": (URL,)}, None, "names no prompt"),
    ("openai-chat", {}, None, "names no prompt"),
    ("seq2seq", {}, PROMPT, "has no address"),
    ("vllm-completions", {"base_urls": ("127.0.0.1:8000",)}, PROMPT, "not an address"),
    ("vllm-completions", {"base_urls": ("http://host:port/v1",)}, PROMPT, "not an address"),
    ("vllm-completions", {"base_urls": ("http://host/v1?key=1",)}, PROMPT, "not an address"),
    ("vllm-completions", {"base_urls": ("http://me:secret@host/v1",)}, PROMPT, "user name or password"),
    ("vllm-completions", {"base_urls": (URL, URL)}, PROMPT, "twice"),
    ("vllm-completions", {"base_urls": (URL,)}, CHAT_PROMPT, "system message"),
    ("vllm-completions", {"base_urls": (URL,), "extra": {"n": 2}}, PROMPT, r"decoding\.extra\.n"),
    ("vllm-completions", {"base_urls": (URL,), "extra": {"stream": True}}, PROMPT, r"decoding\.extra\.stream"),
    ("vllm-chat", {"base_urls": (URL,), "extra": {"messages": "x"}}, CHAT_PROMPT, r"decoding\.extra\.messages"),
    ("vllm-chat", {"base_urls": (URL,), "options": {"enable_thinking": "no"}}, CHAT_PROMPT, "wrong option"),
    ("vllm-classify", {"base_urls": (URL,), "temperature": 0.0}, None, r"decoding\.temperature, which has no effect"),
    ("vllm-classify", {"base_urls": (URL,), "options": {"classes": ["a", "a"]}}, None, "class twice"),
    ("openai-chat", {"truncate_prompt_tokens": 5}, CHAT_PROMPT, r"decoding\.truncate_prompt_tokens"),
    ("openai-chat", {"options": {"max_tokens_field": "limit"}}, CHAT_PROMPT, "wrong option"),
    ("openai-moderation", {"max_tokens": 5}, None, r"decoding\.max_tokens"),
    ("openai-moderation", {}, CHAT_PROMPT, "system message"),
    ("perspective", {"options": {"languages": "en"}}, None, "wrong option"),
    ("embedded", {"model": "always-toxik"}, None, "did you mean 'always-toxic'"),
    ("embedded", {"model": "always-toxic"}, PROMPT, "names a prompt"),
    ("embedded", {"model": "always-toxic", "base_urls": (URL,)}, None, "base URLs"),
    ("embedded", {"model": "always-toxic", "options": {"seed": 1}}, None, "unknown option 'seed'"),
    ("embedded", {"model": "seeded-random", "options": {"seed": "x"}}, None, "wrong option"),
    ("scripted", {"options": {"answers": []}}, None, "wrong option"),
    ("scripted", {"options": {"failures": ["sometimes"]}}, None, "does not read WHAT WHEN"),
    ("scripted", {"options": {"failures": ["oops always"]}}, None, "'oops' is none of"),
    ("scripted", {"truncate_prompt_tokens": 5}, None, "cuts its inputs"),
]


@pytest.mark.parametrize(("kind", "fields", "prompt", "says"), WRONG)
def test_wrong_combinations_are_one_sentence(
    kind: str, fields: dict[str, object], prompt: Prompt | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        create(model(kind, **fields), prompt, KEYS)
    assert "'tested'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value).replace("secrets come", "")


@pytest.mark.parametrize(
    ("kind", "prompt", "variable"),
    [
        ("openai-chat", CHAT_PROMPT, "OPENAI_API_KEY"),
        ("openai-moderation", None, "OPENAI_API_KEY"),
        ("perspective", None, "PERSPECTIVE_API_KEY"),
    ],
)
def test_a_missing_key_names_the_variable_and_the_model(kind: str, prompt: Prompt | None, variable: str) -> None:
    with pytest.raises(ConfigError, match=f"'tested' needs the environment variable {variable}.*not set"):
        create(model(kind), prompt, {})
    with pytest.raises(ConfigError, match=f"{variable}.*empty"):
        create(model(kind), prompt, {variable: " "})
    with pytest.raises(ConfigError, match="MY_KEY"):
        create(model(kind, api_key_env="MY_KEY"), prompt, {variable: "other"})


def test_a_dry_run_needs_no_key() -> None:
    adapter = create(model("openai-chat", max_tokens=10), CHAT_PROMPT, {}, dry=True)
    from hatevolution.domain import Item

    assert adapter.estimate(Item("d", "s", "text")).completion_most == 10


def test_a_vllm_server_needs_a_key_only_where_one_is_named() -> None:
    create(model("vllm-completions", base_urls=(URL,)), PROMPT, {})
    with pytest.raises(ConfigError, match="VLLM_API_KEY"):
        create(model("vllm-completions", base_urls=(URL,), api_key_env="VLLM_API_KEY"), PROMPT, {})


def test_a_kind_is_registered_once() -> None:
    registry = Registry()
    registry.register("scripted", "hatevolution.adapters.models.scripted:Scripted")
    with pytest.raises(ValueError, match="twice"):
        registry.register("scripted", "elsewhere:Other")


def test_an_unregistered_kind_lists_the_known_ones() -> None:
    registry = Registry()
    registry.register("scripted", "hatevolution.adapters.models.scripted:Scripted")
    with pytest.raises(ConfigError, match="known: scripted"):
        registry.create(model("embedded", model="always-toxic"), None, Secrets({}))


def test_a_missing_package_names_the_extra() -> None:
    registry = Registry()
    registry.register("openai-chat", "a_package_that_is_not_there:X", extra="openai")
    with pytest.raises(ConfigError, match=r"'a_package_that_is_not_there'.*pip install 'hatevolution\[openai\]'"):
        registry.create(model("openai-chat"), CHAT_PROMPT, Secrets({}))


def test_the_projects_own_missing_module_is_no_missing_package() -> None:
    registry = Registry()
    registry.register("openai-chat", "hatevolution.adapters.models.nowhere:X", extra="openai")
    with pytest.raises(ModuleNotFoundError):
        registry.create(model("openai-chat"), CHAT_PROMPT, Secrets({}))


def test_the_registry_imports_no_client_library() -> None:
    heavy = "{'aiohttp', 'openai', 'pycurl', 'googleapiclient', 'profanity_check', 'sklearn', 'numpy'}"
    code = f"import sys, hatevolution.adapters.registry; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
