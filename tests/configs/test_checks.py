"""Names and addresses that have the right type and make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.configs.checks import check_addresses, check_model_name
from hatevolution.configs.load import load_model, shipped_names
from hatevolution.errors import ConfigError

SECRET = "hunter2"


def written(folder: Path, name: str = "mine", urls: tuple[str, ...] = ()) -> str:
    path = folder / "mine.toml"
    # JSON's escapes are TOML's, but for those of characters outside the first plane.
    spelled = "".join(char if ord(char) > 0xFFFF else json.dumps(char)[1:-1] for char in name)
    path.write_text(
        f'name = "{spelled}"\nadapter = "openai-chat"\nmodel = "m"\n[endpoint]\nbase_urls = {json.dumps(list(urls))}\n',
        encoding="utf-8",
    )
    return str(path)


@pytest.mark.parametrize(
    "name",
    [
        *shipped_names("models"),
        "google/flan-t5-xl",
        "GPT-4o (NLTK)",
        "gpt-4o@2026-12",
        "ft:gpt-4o:org::id_1+a.b",
        "модель 3",
        "模型",
        "modèle é",
        "🙂",
        "*",
        "x" * 200,
    ],
)
def test_people_are_free_in_how_they_name_models(tmp_path: Path, name: str) -> None:
    model, _ = load_model(written(tmp_path, name))
    assert model.name == name


@pytest.mark.parametrize(
    "char",
    [*"\0\a\b\t\n\v\f\r\x1b\x7f\x85\x9b", "\xa0", "\xad", "\u200b", "\u200e", "\u2028", "\u202e", "\u2067", "\ufeff"],
)
def test_nothing_hidden_stands_in_a_name(tmp_path: Path, char: str) -> None:
    for name in (char, f"gpt{char}4o"):
        with pytest.raises(ConfigError, match=rf"mine.toml.* holds U\+{ord(char):04X}") as caught:
            load_model(written(tmp_path, name))
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [" ", " gpt", "gpt "])
def test_no_blank_stands_at_the_end_of_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="begins or ends with a blank"):
        load_model(written(tmp_path, name))


@given(st.text(min_size=1, max_size=20))
def test_a_name_is_shown_as_it_is_or_refused_in_words_that_can_be_shown(name: str) -> None:
    try:
        check_model_name(name, "here")
    except ConfigError as error:
        assert str(error).isprintable()
    else:
        assert name.isprintable()
        assert name.strip() == name


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://api.openai.com/v1",
        "http://[::1]:8000",
        "HTTP://host/",
        "https://gateway.example/accounts/@mine/v1",
        "http://host:65535/v1",
        "http://bücher.example/v1",
    ],
)
def test_addresses(tmp_path: Path, url: str) -> None:
    model, _ = load_model(written(tmp_path, urls=(url,)))
    assert model.endpoint.base_urls == (url,)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "does not begin with http"),
        (SECRET, "does not begin with http"),
        ("127.0.0.1:8000", "does not begin with http"),
        ("ftp://host/v1", "does not begin with http"),
        ("http:host/v1", "names no host"),
        (f"http:/me:{SECRET}@host/v1", "names no host"),
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://:8000/v1", "names no host"),
        ("http://host:port/v1", "makes no sense"),
        ("http://host:65536/v1", "makes no sense"),
        ("http://host:-1/v1", "makes no sense"),
        ("http://[::1/v1", "makes no sense"),
        ("http://host:0/v1", "port 0"),
        ("http://my host/v1", "holds a blank"),
        (" http://host/v1", "holds a blank"),
        ("http://host/v1\n", "holds a blank"),
        ("http://ho\tst/v1", "holds a blank"),
        ("http://host/v1\u202e", "holds a blank"),
        ("http://host\\v1", "holds a blank"),
        (f"http://host/v1?key={SECRET}", "query"),
        ("http://host/v1?", "query"),
        (f"http://host/v1#{SECRET}", "query"),
        (f"http://me:{SECRET}@host/v1", "user name or password"),
        (f"http://{SECRET}@host:port/v1", "user name or password"),
        (f"http://me:{SECRET} @host/v1", "user name or password"),
        (f"ftp://me:{SECRET}@host/v1", "user name or password"),
        (f"http://me:{SECRET}@[::1/v1", "user name or password"),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(tmp_path: Path, url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        load_model(written(tmp_path, urls=("http://fine/v1", url)))
    said = str(caught.value)
    assert "mine.toml" in said
    assert "base URL 2 " in said
    assert SECRET not in said
    assert said.isprintable()


def test_an_address_stands_there_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="base URL 3 stands there twice"):
        load_model(written(tmp_path, urls=("http://a/v1", "http://b/v1", "http://a/v1")))


@pytest.mark.parametrize(("adapter", "fine"), [("embedded", True), ("scripted", True), ("openai-chat", False)])
def test_only_who_asks_nobody_has_no_address(tmp_path: Path, adapter: str, fine: bool) -> None:
    path = tmp_path / "mine.toml"
    text = Path(written(tmp_path, urls=("in-process",))).read_text().replace("openai-chat", adapter)
    path.write_text(text)
    if fine:
        load_model(str(path))
        return
    with pytest.raises(ConfigError, match="not an address"):
        load_model(str(path))


@given(st.text(max_size=30) | st.text("htp:/[]@?#a1. ", max_size=30).map("http://".__add__))
def test_any_text_is_an_address_or_not(url: str) -> None:
    try:
        check_addresses([url], "here")
    except ConfigError as error:
        assert str(error).isprintable()
