"""OpenAI's errors in their documented forms, and what they mean."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from typing import Any

import pytest
from fake_base import Fault
from fake_openai import CONTEXT, FILTERED, QUOTA, RATE_LIMITED, TOO_LARGE, FakeOpenAI, error_body
from fake_setup import CHAT_PROMPT, items, model, opened

from hatevolution.adapters.models.faults import ErrorBody
from hatevolution.adapters.models.openai_endpoint import meaning
from hatevolution.configs.schema import Retirement
from hatevolution.errors import FailureKind, RequestFailure

K = FailureKind
KEY = "sk-fake-canary-0123456789"
ENVIRON = {"OPENAI_API_KEY": KEY}


def configured(server: FakeOpenAI, **fields: Any) -> Any:
    return model("openai-chat", **{"model": "gpt-4o", "base_urls": (server.base_url,), "timeout_s": 5.0, **fields})


async def failure_of(fault: Fault, **fields: Any) -> RequestFailure:
    async with FakeOpenAI() as server, opened(configured(server, **fields), CHAT_PROMPT, ENVIRON) as adapter:
        server.fail(fault)
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
        assert server.requests == 1, "the package's own retries are off"
    return caught.value


def error(status: int, code: str | None = None, type_: str = "invalid_request_error", message: str = "m") -> Fault:
    return Fault(status=status, body=error_body(message, type_, code))


MEANINGS: list[tuple[Fault, FailureKind, str | None]] = [
    (RATE_LIMITED, K.RATE_LIMIT, "rate_limit_exceeded"),
    (QUOTA, K.QUOTA, "insufficient_quota"),
    (TOO_LARGE, K.TOO_LONG, "rate_limit_exceeded"),
    (CONTEXT, K.TOO_LONG, "context_length_exceeded"),
    (FILTERED, K.FILTERED, "content_filter"),
    (error(429, None, "insufficient_quota"), K.QUOTA, "insufficient_quota"),
    (error(429, "billing_not_active"), K.QUOTA, "billing_not_active"),
    (error(400, "billing_hard_limit_reached"), K.QUOTA, "billing_hard_limit_reached"),
    (error(429, "something_new"), K.RATE_LIMIT, "something_new"),
    (Fault(status=429, body="slow down"), K.RATE_LIMIT, None),
    (error(400, "string_above_max_length"), K.TOO_LONG, "string_above_max_length"),
    (error(400, "content_policy_violation"), K.FILTERED, "content_policy_violation"),
    (error(400, None), K.PERMANENT, "invalid_request_error"),
    (error(422), K.PERMANENT, "invalid_request_error"),
    (error(401, "invalid_api_key"), K.AUTH, "invalid_api_key"),
    (error(403, "unsupported_country_region_territory"), K.AUTH, "unsupported_country_region_territory"),
    (error(403, "model_not_found"), K.RETIRED, "model_not_found"),
    (error(404, "model_not_found"), K.RETIRED, "model_not_found"),
    (error(404, None), K.RETIRED, "invalid_request_error"),
    (Fault(status=410), K.RETIRED, None),
    (Fault(status=408), K.TRANSIENT, None),
    (Fault(status=409), K.TRANSIENT, None),
    (Fault(status=413), K.TOO_LONG, None),
    (Fault(status=500, body="<html>"), K.TRANSIENT, None),
    (error(500, None, "server_error"), K.TRANSIENT, "server_error"),
    (Fault(status=502), K.TRANSIENT, None),
    (Fault(status=503), K.TRANSIENT, None),
    (Fault(status=529), K.TRANSIENT, None),
]


@pytest.mark.parametrize(("fault", "kind", "code"), MEANINGS)
async def test_errors(fault: Fault, kind: FailureKind, code: str | None) -> None:
    failure = await failure_of(fault)
    assert (failure.kind, failure.http_status, failure.code) == (kind, fault.status, code)
    assert not failure.maybe_billed


def test_the_wording_decides_only_where_no_code_does() -> None:
    too_large = "Request too large for gpt-4o"
    assert meaning(429, ErrorBody(too_large, code="rate_limit_exceeded")) is K.TOO_LONG
    assert meaning(429, ErrorBody(too_large, code="insufficient_quota")) is K.QUOTA
    assert meaning(400, ErrorBody(too_large)) is K.PERMANENT
    assert meaning(429, ErrorBody("You exceeded your current quota", code="rate_limit_exceeded")) is K.RATE_LIMIT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.644),  # the text alone says it
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after-ms": "50", "Retry-After": "2"}, 0.05),
        ({"Retry-After": "Sun, 29 Nov 2026 20:00:05 GMT", "Date": "Sun, 29 Nov 2026 20:00:00 GMT"}, 5.0),
    ],
)
async def test_how_long_to_wait(headers: dict[str, str], seconds: float) -> None:
    failure = await failure_of(Fault(status=429, headers=headers, body=RATE_LIMITED.body))
    assert failure.retry_after_s == pytest.approx(seconds)


async def test_a_wait_in_minutes_is_read_from_the_text() -> None:
    message = "Rate limit reached for gpt-4o on requests per day (RPD). Please try again in 7m12s. Visit us."
    failure = await failure_of(error(429, "rate_limit_exceeded", "requests", message))
    assert failure.retry_after_s == pytest.approx(432)


async def test_a_retired_model_names_its_successor() -> None:
    retired = Retirement(date=dt.date(2026, 10, 23), successor="gpt-4o-mini")
    async with FakeOpenAI() as server:
        config = configured(server, model="gpt-3.5-turbo", retired=retired)
        async with opened(config, CHAT_PROMPT, ENVIRON) as adapter:
            for attempt in (adapter.ask(items("x"), server.base_url), adapter.probe(server.base_url)):
                with pytest.raises(
                    RequestFailure, match=r"shut down on 2026-10-23; use 'gpt-4o-mini' instead"
                ) as caught:
                    await attempt
                assert (caught.value.kind, caught.value.http_status) == (K.RETIRED, 404)


async def test_timeouts_may_have_been_billed() -> None:
    failure = await failure_of(Fault(action="hang", seconds=5), timeout_s=0.3)
    assert (failure.kind, failure.maybe_billed, failure.http_status) == (K.TIMEOUT, True, None)


@pytest.mark.parametrize("action", ["drop", "cut"])
async def test_broken_connections_may_have_been_billed(action: str) -> None:
    failure = await failure_of(Fault(action=action))
    assert (failure.kind, failure.maybe_billed, failure.http_status) == (K.TRANSIENT, True, None)


async def test_nobody_listens_and_nobody_is_called_so() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"):
        async with opened(model("openai-chat", model="gpt-4o", base_urls=(url,)), CHAT_PROMPT, ENVIRON) as adapter:
            for attempt in (adapter.ask(items("x"), url), adapter.probe(url)):
                with pytest.raises(RequestFailure, match="can't be reached") as caught:
                    await attempt
                assert (caught.value.kind, caught.value.maybe_billed) == (K.UNREACHABLE, False)


async def test_a_cancelled_request_leaves_the_adapter_usable() -> None:
    async with FakeOpenAI() as server, opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter:
        server.fail(Fault(action="hang", seconds=5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(adapter.ask(items("x"), server.base_url), 0.2)
        assert (await adapter.ask(items("x"), server.base_url)).answers


async def test_a_wrong_key_is_told_without_being_shown() -> None:
    environ = {"OPENAI_API_KEY": "sk-canary-wrong-0123456789"}
    async with FakeOpenAI() as server, opened(configured(server), CHAT_PROMPT, environ) as adapter:
        for attempt in (adapter.ask(items("x"), server.base_url), adapter.probe(server.base_url)):
            with pytest.raises(RequestFailure, match="Incorrect API key") as caught:
                await attempt
            assert caught.value.kind is K.AUTH
            assert "canary" not in f"{caught.value}{caught.value.body}"


async def test_a_probe_costs_nothing_and_needs_no_right_to_list_models() -> None:
    async with FakeOpenAI() as server, opened(configured(server), CHAT_PROMPT, ENVIRON) as adapter:
        assert (await adapter.probe(server.base_url)).models == ("gpt-4o",)
        server.may_list = False
        assert (await adapter.probe(server.base_url)).models is None
        assert server.requests == 0
