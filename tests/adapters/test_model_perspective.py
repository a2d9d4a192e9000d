from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import logging
from typing import Any

import pytest
from fake_base import Fault
from fake_perspective import FakePerspective, comment_error, google_error, rate_limited, score
from fake_setup import items, model, opened

from hatevolution.adapters.models.perspective import GoogleError, meaning, read_google_error
from hatevolution.adapters.registry import create
from hatevolution.configs.schema import Retirement
from hatevolution.domain import Status, TokenEstimate
from hatevolution.errors import FailureKind, RequestFailure

K = FailureKind
KEY = "AIzaFakeCanary0123456789"
ENVIRON = {"PERSPECTIVE_API_KEY": KEY}


def configured(server: FakePerspective, **fields: Any) -> Any:
    return model("perspective", **{"base_urls": (server.root,), "timeout_s": 5.0, **fields})


async def failure_of(fault: Fault, **fields: Any) -> RequestFailure:
    async with FakePerspective() as server, opened(configured(server, **fields), None, ENVIRON) as adapter:
        server.fail(fault)
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.root)
    return caught.value


async def test_one_sentence() -> None:
    async with FakePerspective() as server, opened(configured(server), None, ENVIRON) as adapter:
        reply = await adapter.ask(items("hello"), server.root)
        assert server.bodies[0] == {
            "comment": {"text": "hello", "type": "PLAIN_TEXT"},
            "languages": ["en"],
            "requestedAttributes": {"TOXICITY": {}},
            "doNotStore": True,
        }
        assert server.headers[0]["X-Goog-Api-Key"] == KEY
    (answer,) = reply.answers
    assert (answer.status, answer.raw_text) == (Status.ANSWERED, None)
    assert answer.scores == {"TOXICITY": score("TOXICITY", "hello")}
    assert answer.prompt_sha256 == hashlib.sha256(b"hello").hexdigest()
    assert '"detectedLanguages"' in str(reply.body)
    assert reply.http_status == 200


async def test_several_attributes_and_languages() -> None:
    options = {"attributes": ["TOXICITY", "IDENTITY_ATTACK"], "languages": ["en", "de"]}
    async with (
        FakePerspective(languages=("en", "de")) as server,
        opened(configured(server, options=options), None, ENVIRON) as adapter,
    ):
        reply = await adapter.ask(items("hello"), server.root)
        assert server.bodies[0]["languages"] == ["en", "de"]
    assert reply.answers[0].scores is not None
    assert list(reply.answers[0].scores) == ["TOXICITY", "IDENTITY_ATTACK"]


@pytest.mark.parametrize("text", ["\0 nul", "\ud800 lone", "é漢🎉", '"\\{}%s\n', "x" * 20_480])
async def test_hard_texts_arrive(text: str) -> None:
    async with FakePerspective() as server, opened(configured(server), None, ENVIRON) as adapter:
        reply = await adapter.ask(items(text), server.root)
        assert server.sent == {text: 1}
    assert reply.answers[0].scores == {"TOXICITY": score("TOXICITY", text)}


async def test_a_success_without_the_score_is_malformed() -> None:
    async with (
        FakePerspective(drop_scores=True) as server,
        opened(configured(server), None, ENVIRON) as adapter,
    ):
        with pytest.raises(RequestFailure, match="no score for TOXICITY") as caught:
            await adapter.ask(items("x"), server.root)
    assert (caught.value.kind, caught.value.http_status) == (K.MALFORMED, 200)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        '{"attributeScores": {"TOXICITY": null}}',
        '{"attributeScores": {"TOXICITY": {"summaryScore": {"value": "0.5"}}}}',
        '{"attributeScores": {"TOXICITY": {"summaryScore": {"value": NaN}}}}',
        '{"attributeScores": {"TOXICITY": {"summaryScore": {"value": true}}}}',
        b"\xff",
        "[" * 100_000,
    ],
)
async def test_what_holds_no_score_is_malformed(body: Any) -> None:
    failure = await failure_of(Fault(status=200, body=body))
    assert failure.kind is K.MALFORMED


def fault(code: int, message: str = "m", status: str = "INVALID_ARGUMENT", *details: Any) -> Fault:
    return Fault(status=code, body=google_error(code, message, status, *details))


def reason(word: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": word, "domain": "googleapis.com"}


def comment(error_type: str, message: str = "m") -> Fault:
    return Fault(status=400, body=comment_error(error_type, message))


MEANINGS: list[tuple[Fault, FailureKind, str | None]] = [
    (comment("COMMENT_EMPTY"), K.UNSENDABLE, "COMMENT_EMPTY"),
    (comment("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"), K.UNSENDABLE, "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"),
    (comment("LANGUAGE_DETECTION_FAILED"), K.UNSENDABLE, "LANGUAGE_DETECTION_FAILED"),
    (comment("COMMENT_TOO_LONG"), K.TOO_LONG, "COMMENT_TOO_LONG"),
    (comment("NO_REQUESTED_ATTRIBUTES", "Comment must be non-empty."), K.PERMANENT, "NO_REQUESTED_ATTRIBUTES"),
    (fault(400, "Comment text was too many bytes. Value (23368) exceeded limit (20480)."), K.TOO_LONG, None),
    (fault(400, "Comment must be non-empty."), K.UNSENDABLE, None),
    (fault(400, "Attribute TOXICITY does not support request languages: ja"), K.UNSENDABLE, None),
    (fault(400, "Unable to detect language."), K.UNSENDABLE, None),
    (fault(400, "Invalid JSON payload received."), K.PERMANENT, None),
    (fault(400, "API key not valid.", "INVALID_ARGUMENT", reason("API_KEY_INVALID")), K.AUTH, "API_KEY_INVALID"),
    (fault(403, "blocked", "PERMISSION_DENIED", reason("SERVICE_DISABLED")), K.AUTH, "SERVICE_DISABLED"),
    (fault(403, "m", "PERMISSION_DENIED", reason("RATE_LIMIT_EXCEEDED")), K.RATE_LIMIT, "RATE_LIMIT_EXCEEDED"),
    (fault(401, "m", "UNAUTHENTICATED"), K.AUTH, None),
    (rate_limited(), K.RATE_LIMIT, "RATE_LIMIT_EXCEEDED"),
    (rate_limited("AnalyzeRequestsPerDayPerProject"), K.QUOTA, "RATE_LIMIT_EXCEEDED"),
    (Fault(status=429, body="<html>"), K.RATE_LIMIT, None),
    (fault(404, "m", "NOT_FOUND"), K.RETIRED, None),
    (Fault(status=410, body="Gone"), K.RETIRED, None),
    (Fault(status=413), K.TOO_LONG, None),
    (fault(500, "m", "INTERNAL"), K.TRANSIENT, None),
    (fault(503, "The service is currently unavailable.", "UNAVAILABLE"), K.TRANSIENT, None),
    (Fault(status=504, body="<html>"), K.TRANSIENT, None),
    (Fault(status=408), K.TRANSIENT, None),
]


@pytest.mark.parametrize(("fault", "kind", "code"), MEANINGS)
async def test_errors(fault: Fault, kind: FailureKind, code: str | None) -> None:
    failure = await failure_of(fault)
    assert (failure.kind, failure.http_status) == (kind, fault.status)
    if code is not None:
        assert failure.code == code


def test_the_wording_decides_only_where_no_error_type_does() -> None:
    assert meaning(400, GoogleError("Comment must be non-empty.")) is K.UNSENDABLE
    assert meaning(400, GoogleError("Comment must be non-empty.", error_types=frozenset({"X"}))) is K.PERMANENT


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"error": "x"}', b'{"error": {"details": "x"}}', b'{"error": {"details": [1, null]}}'],
)
def test_errors_of_other_shapes(body: bytes) -> None:
    assert read_google_error(body).reasons == frozenset()


async def test_without_a_header_the_wait_lasts_to_the_next_minute() -> None:
    moment = rate_limited()
    failure = await failure_of(Fault(status=429, body=moment.body, headers={"Date": "Sun, 29 Nov 2026 20:00:42 GMT"}))
    assert failure.retry_after_s == pytest.approx(18.0)
    failure = await failure_of(Fault(status=429, body=moment.body, headers={"Retry-After": "7"}))
    assert failure.retry_after_s == 7.0
    failure = await failure_of(moment)
    assert failure.retry_after_s is not None
    assert 0 < failure.retry_after_s <= 60


async def test_its_end_names_the_successor() -> None:
    retired = Retirement(date=dt.date(2027, 1, 1), successor="omni-moderation")
    async with (
        FakePerspective(gone=True) as server,
        opened(configured(server, retired=retired), None, ENVIRON) as adapter,
    ):
        for attempt in (adapter.ask(items("x"), server.root), adapter.probe(server.root)):
            with pytest.raises(RequestFailure, match="use 'omni-moderation' instead") as caught:
                await attempt
            assert caught.value.kind is K.RETIRED


async def test_the_key_is_in_no_address_failure_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = {"PERSPECTIVE_API_KEY": "AIzaCanaryWrong0123456789"}
    async with FakePerspective() as server, opened(configured(server), None, wrong) as adapter:
        for attempt in (adapter.ask(items("x"), server.root), adapter.probe(server.root)):
            with pytest.raises(RequestFailure, match="API key not valid") as caught:
                await attempt
            assert caught.value.kind is K.AUTH
            assert "Canary" not in f"{caught.value}{caught.value.body}"
    assert "Canary" not in caplog.text
    assert any(record.name.startswith("googleapiclient") for record in caplog.records), "the client logs addresses"


@pytest.mark.parametrize(("action", "kind"), [("drop", K.TRANSIENT), ("cut", K.TRANSIENT), ("hang", K.TIMEOUT)])
async def test_faults_of_the_transport(action: str, kind: FailureKind) -> None:
    failure = await failure_of(Fault(action=action, seconds=5), timeout_s=0.5)
    assert (failure.kind, failure.maybe_billed, failure.http_status) == (kind, True, None)


async def test_the_event_loop_goes_on_while_it_waits() -> None:
    async with FakePerspective(latency_s=0.2) as server, opened(configured(server), None, ENVIRON) as adapter:
        loop = asyncio.get_running_loop()
        started = loop.time()
        replies = await asyncio.gather(*(adapter.ask(items(str(number)), server.root) for number in range(20)))
        assert server.peak == 20
        assert loop.time() - started < 1.5
    assert len({reply.answers[0].scores["TOXICITY"] for reply in replies if reply.answers[0].scores}) == 20


async def test_a_probe_asks_for_no_score() -> None:
    async with FakePerspective() as server, opened(configured(server), None, ENVIRON) as adapter:
        served = await adapter.probe(server.root)
        assert (served.models, served.version) == (None, "20250901")
        assert server.requests == 0
        assert adapter.estimate(items("x")[0]) == TokenEstimate(0, 0, 0)


def test_the_default_address_is_googles_own() -> None:
    adapter = create(model("perspective"), None, ENVIRON)
    assert adapter.base_urls == ("https://commentanalyzer.googleapis.com",)
    assert adapter.batch_size == 1
