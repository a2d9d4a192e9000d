from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from hatevolution.adapters.models.headers import parse_duration, rate_window, retry_after_s
from hatevolution.domain import RateWindow

# https://pkg.go.dev/time#ParseDuration, and values that OpenAI was seen to send.
DURATIONS = [
    ("1s", 1.0),
    ("6m0s", 360.0),
    ("12ms", 0.012),
    ("3.362s", 3.362),
    ("1h2m3.5s", 3723.5),
    ("1m30s", 90.0),
    ("0", 0.0),
    ("0s", 0.0),
    ("250us", 0.00025),
    ("1.5h", 5400.0),
    (".5s", 0.5),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1x", "1s x", "-1s", "1 s", "1m 30s", "nan", "inf", "9" * 400 + "s"])
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_durations_add_up(hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{milliseconds}ms"
    assert parse_duration(text) == pytest.approx(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"Retry-After": " 20 "}, 20.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "86400"}, 86400.0),
        ({"Retry-After": "1m30s"}, 90.0),
        ({"retry-after-ms": "644"}, 0.644),
        ({"retry-after-ms": "644", "Retry-After": "1"}, 0.644),
        ({"retry-after-ms": "soon", "Retry-After": "1"}, 1.0),
        ({"Retry-After": "Sun, 29 Nov 2026 20:00:30 GMT", "Date": "Sun, 29 Nov 2026 20:00:00 GMT"}, 30.0),
        ({"Retry-After": "Sun, 29 Nov 2026 20:00:00 GMT", "Date": "Sun, 29 Nov 2026 20:00:30 GMT"}, 0.0),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "later"}, None),
        ({"Retry-After": ""}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(CIMultiDict(headers)) == seconds


def test_a_date_without_the_servers_clock_counts_from_ours() -> None:
    headers = CIMultiDict({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"})
    assert retry_after_s(headers, now=40.0) == 60.0


def test_rate_window_as_openai_documents_it() -> None:
    headers = CIMultiDict(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )
    assert rate_window(headers) == RateWindow(60, 59, 1.0, 150_000, 149_984, 360.0)


def test_rate_window_keeps_what_it_can_read() -> None:
    headers = CIMultiDict({"x-ratelimit-remaining-requests": "many", "x-ratelimit-remaining-tokens": "7"})
    assert rate_window(headers) == RateWindow(remaining_tokens=7)
    assert rate_window(CIMultiDict({"x-ratelimit-reset-tokens": "?"})) is None
    assert rate_window(CIMultiDict()) is None
