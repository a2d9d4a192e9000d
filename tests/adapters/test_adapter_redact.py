from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.redact import MASK, Redactor

CANARY = "canary-secret-0123456789"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("GET https://x/v1?key=abc123&alt=json failed", "abc123"),
        ('{"url": "https://x?api_key=abc123"}', "abc123"),
        ("Authorization: Bearer abc.DEF-123_456", "abc.DEF-123_456"),
        ("authorization: bearer abcdef123456", "abcdef123456"),
        ("Incorrect API key provided: sk-proj-abcdEFGH1234.", "abcdEFGH1234"),
        ("Incorrect API key provided: sk-pr*****************3456.", "3456"),
        ("returned for AIzaSyD-0123456789abcdef", "SyD-0123456789abcdef"),
        ("http://user:hunter2@host/v1", "hunter2"),
    ],
)
def test_shapes_of_secrets_are_masked_whoever_they_belong_to(text: str, hidden: str) -> None:
    masked = Redactor().text(text)
    assert hidden not in masked
    assert MASK in masked


def test_what_is_no_secret_stays() -> None:
    text = "HTTP 400 (context_length_exceeded): 'key' must be a string, see https://platform.openai.com/docs"
    assert Redactor().text(text) == text


def test_environment_values_are_masked_by_name_and_by_being_named() -> None:
    environ = {
        "MY_ENDPOINT": CANARY,
        "HF_TOKEN": "hf-value-777777",
        "DB_PASSWORD": "pass-word-1",
        "PATH": "/usr/bin:/usr/sbin",
        "TOKENIZERS_PARALLELISM": "disabled",
        "SHORT_KEY": "x",
    }
    redactor = Redactor.of(environ, "MY_ENDPOINT")
    text = f"{CANARY} hf-value-777777 pass-word-1 /usr/bin:/usr/sbin disabled x"
    assert redactor.text(text) == f"{MASK} {MASK} {MASK} /usr/bin:/usr/sbin disabled x"


def test_other_spellings_of_a_secret_are_masked() -> None:
    secret = 'se/cr+et"\\ 123'
    redactor = Redactor([secret])
    assert "cr" not in redactor.text("?k=se%2Fcr%2Bet%22%5C%20123")
    assert "cr" not in redactor.text('{"k": "se/cr+et\\"\\\\ 123"}')


def test_a_longer_secret_that_begins_with_a_shorter_one_leaves_no_rest() -> None:
    redactor = Redactor(["abcdef", "abcdef-and-more"])
    assert redactor.text("<abcdef-and-more>") == f"<{MASK}>"


def test_bodies_of_successes_lose_the_endpoints_own_key_and_nothing_else() -> None:
    redactor = Redactor.of({"K": CANARY, "HF_TOKEN": "hf-value-777777"}, "K")
    body = b'{"text": "key=abc Bearer abcdefgh hf-value-777777"}'
    assert redactor.exact(body) is body
    assert redactor.exact(b"<" + CANARY.encode() + b">") == b"<***>"


@given(st.text(), st.text())
def test_a_known_secret_never_survives(before: str, after: str) -> None:
    assert CANARY not in Redactor([CANARY]).text(f"{before}{CANARY}{after}")


def test_masking_takes_linear_time() -> None:
    redactor = Redactor([CANARY])
    started = time.perf_counter()
    for hostile in ("key=" * 30_000, "sk-" * 40_000, "://" * 40_000, "Bearer " * 20_000, "bearer " + " " * 120_000):
        redactor.text(hostile)
    assert time.perf_counter() - started < 3
