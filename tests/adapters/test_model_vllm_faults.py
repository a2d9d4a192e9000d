"""What goes wrong between an adapter and a server of vLLM's format, and what it means."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from fake_base import Fault
from fake_setup import PROMPT, items, model, opened, until
from fake_vllm import FakeVllm

from hatevolution.adapters.models.faults import BODY_BYTES, ErrorBody, read_error
from hatevolution.adapters.models.vllm import meaning
from hatevolution.errors import FailureKind, RequestFailure

CANARY = "canary-key-0123456789"
ENVIRON = {"TEST_VLLM": CANARY, "HF_TOKEN": "hf-canary-0123456789"}


def configured(server: FakeVllm, **fields: Any) -> Any:
    return model("vllm-completions", **{"base_urls": (server.base_url,), "timeout_s": 5.0, **fields})


async def failure_of(server: FakeVllm, fault: Fault | None = None, **fields: Any) -> RequestFailure:
    async with opened(configured(server, **fields), PROMPT, ENVIRON) as adapter:
        if fault is not None:
            server.fail(fault)
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
    return caught.value


def vllm_error(code: int, type_: str = "BadRequestError", param: str | None = None, message: str = "m") -> Any:
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


K = FailureKind
MEANINGS: list[tuple[int, Any, FailureKind]] = [
    (400, vllm_error(400, param="input_text"), K.TOO_LONG),
    (400, vllm_error(400, param="input_tokens"), K.TOO_LONG),
    (400, vllm_error(400, param="prompt", message="The decoder prompt cannot be empty"), K.UNSENDABLE),
    (400, vllm_error(400, "Bad Request", message="[{'loc': ...}]"), K.PERMANENT),
    (400, {"object": "error", "message": "This model's maximum context length is 9 tokens.", "code": 400}, K.TOO_LONG),
    (400, "not json", K.PERMANENT),
    (401, {"error": "Unauthorized"}, K.AUTH),
    (403, "", K.AUTH),
    (404, vllm_error(404, "NotFoundError", "model"), K.WRONG_MODEL),
    (404, {"detail": "Not Found"}, K.WRONG_MODEL),
    (408, "", K.TRANSIENT),
    (409, "", K.TRANSIENT),
    (413, "", K.TOO_LONG),
    (422, {"detail": [{"loc": ["body"]}]}, K.PERMANENT),
    (429, "", K.RATE_LIMIT),
    (500, vllm_error(500, "InternalServerError", message="EngineCore encountered an issue."), K.TRANSIENT),
    (502, "<html>Bad Gateway</html>", K.TRANSIENT),
    (503, vllm_error(503, "Service Unavailable"), K.RATE_LIMIT),
    (503, "", K.TRANSIENT),
    (504, "", K.TRANSIENT),
    (307, "", K.PERMANENT),
]


@pytest.mark.parametrize(("status", "body", "kind"), MEANINGS)
async def test_errors_of_the_server(status: int, body: Any, kind: FailureKind) -> None:
    async with FakeVllm() as server:
        failure = await failure_of(server, Fault(status=status, body=body))
    assert failure.kind is kind
    assert failure.http_status == status
    assert str(status) in str(failure)
    assert failure.retry_after_s is None
    assert not failure.maybe_billed


async def test_codes_and_waits_are_kept() -> None:
    async with FakeVllm() as server:
        fault = Fault(
            status=429,
            headers={"Retry-After": "2", "x-request-id": "r-1"},
            body={"error": {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}},
        )
        failure = await failure_of(server, fault)
    assert (failure.kind, failure.code, failure.retry_after_s) == (K.RATE_LIMIT, "rate_limit_exceeded", 2.0)
    assert failure.request_id == "r-1"
    assert failure.body is not None
    assert "slow down" in failure.body


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error": {"message": "m", "type": "t", "code": 400, "param": "p"}}', ErrorBody("m", "t", "400", "p")),
        (b'{"error": "Unauthorized"}', ErrorBody("Unauthorized")),
        (b'{"detail": "Not Found"}', ErrorBody("Not Found")),
        (b'{"detail": [{"loc": []}]}', ErrorBody()),
        (b'{"error": {"message": {"deep": 1}, "type": null, "code": true}}', ErrorBody()),
        (b'{"error": null}', ErrorBody()),
        (b"[1]", ErrorBody()),
        (b"", ErrorBody()),
        (b"[" * 100_000, ErrorBody()),
        (b"\xff", ErrorBody()),
    ],
)
def test_error_bodies_of_all_shapes(body: bytes, error: ErrorBody) -> None:
    assert read_error(body) == error


def test_the_wording_decides_only_where_no_parameter_is_named() -> None:
    wording = "This model's maximum context length is 9 tokens"
    assert meaning(400, ErrorBody(wording)) is K.TOO_LONG
    assert meaning(400, ErrorBody(wording, param="temperature")) is K.PERMANENT
    assert meaning(500, ErrorBody(wording)) is K.TRANSIENT


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_nobody_listens() -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    async with opened(model("vllm-completions", base_urls=(url,)), PROMPT) as adapter:
        for attempt in (adapter.ask(items("x"), url), adapter.probe(url)):
            with pytest.raises(RequestFailure, match="can't be reached") as caught:
                await attempt
            assert caught.value.kind is K.UNREACHABLE
            assert not caught.value.maybe_billed


async def test_a_name_that_does_not_resolve() -> None:
    url = "http://no-such-host.invalid:8000/v1"
    async with opened(model("vllm-completions", base_urls=(url,)), PROMPT) as adapter:
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), url)
    assert caught.value.kind is K.UNREACHABLE


async def test_a_host_that_takes_no_connection() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        # Fill the queue, so that the next connection is never taken.
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            url = f"http://127.0.0.1:{address[1]}/v1"
            async with opened(model("vllm-completions", base_urls=(url,), timeout_s=0.6), PROMPT) as adapter:
                with pytest.raises(RequestFailure) as caught:
                    await adapter.ask(items("x"), url)
        finally:
            for filler in fillers:
                filler.close()
    assert caught.value.kind is K.UNREACHABLE
    assert not caught.value.maybe_billed


async def test_no_answer_in_time() -> None:
    async with FakeVllm() as server:
        failure = await failure_of(server, Fault(action="hang", seconds=5), timeout_s=0.3)
    assert failure.kind is K.TIMEOUT
    assert failure.maybe_billed
    assert failure.http_status is None
    assert "within 0.3 s" in str(failure)


@pytest.mark.parametrize("action", ["drop", "cut"])
async def test_a_broken_connection(action: str) -> None:
    async with FakeVllm() as server:
        failure = await failure_of(server, Fault(action=action))
    assert failure.kind is K.TRANSIENT
    assert failure.maybe_billed
    assert failure.http_status is None


async def test_a_server_that_stops_with_requests_in_flight() -> None:
    async with FakeVllm(latency_s=5) as server, opened(configured(server), PROMPT) as adapter:
        asking = asyncio.gather(*(adapter.ask(items("x"), server.base_url) for _ in range(4)), return_exceptions=True)
        await until(lambda: server.requests == 4)
        await server.stop()
        outcomes = await asyncio.wait_for(asking, 3)
        failures = [outcome for outcome in outcomes if isinstance(outcome, RequestFailure)]
        assert [failure.kind for failure in failures] == [K.TRANSIENT] * 4
        with pytest.raises(RequestFailure) as caught:
            await adapter.ask(items("x"), server.base_url)
        assert caught.value.kind is K.UNREACHABLE
        server.latency_s = 0
        await server.start()
        assert (await adapter.ask(items("x"), server.base_url)).answers


async def test_a_cancelled_request_leaves_the_adapter_usable() -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        server.fail(Fault(action="hang", seconds=5))
        asking = asyncio.ensure_future(adapter.ask(items("x"), server.base_url))
        await until(lambda: server.requests == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await adapter.ask(items("x"), server.base_url)).answers


async def test_a_wrong_key_and_none() -> None:
    async with FakeVllm(api_key="another") as server:
        for fields in ({}, {"api_key_env": "TEST_VLLM"}):
            async with opened(configured(server, **fields), PROMPT, ENVIRON) as adapter:
                for attempt in (adapter.ask(items("x"), server.base_url), adapter.probe(server.base_url)):
                    with pytest.raises(RequestFailure, match="Unauthorized") as caught:
                        await attempt
                    assert caught.value.kind is K.AUTH


async def test_the_right_key() -> None:
    async with (
        FakeVllm(api_key=CANARY) as server,
        opened(configured(server, api_key_env="TEST_VLLM"), PROMPT, ENVIRON) as adapter,
    ):
        await adapter.probe(server.base_url)
        assert (await adapter.ask(items("x"), server.base_url)).answers


async def test_secrets_are_in_no_failure_and_no_body() -> None:
    said = f"who sent Bearer {CANARY}, key={CANARY} and hf-canary-0123456789?"
    async with FakeVllm(answer=lambda prompt: f"<{CANARY}>") as server:
        fields = {"api_key_env": "TEST_VLLM"}
        headers = {"x-request-id": CANARY}
        fault = Fault(status=500, headers=headers, body={"error": {"message": said, "code": said, "type": CANARY}})
        failure = await failure_of(server, fault, **fields)
        malformed = await failure_of(server, Fault(status=200, body=said), **fields)
        async with opened(configured(server, **fields), PROMPT, ENVIRON) as adapter:
            reply = await adapter.ask(items("x"), server.base_url)
    for text in (str(failure), failure.body, failure.code, failure.request_id, str(malformed), malformed.body):
        assert text is not None
        assert "canary" not in text
    assert "canary" not in str(reply.body)
    assert reply.answers[0].raw_text == "<***>"


async def test_huge_error_bodies_are_cut_and_a_secret_at_the_cut_is_masked() -> None:
    body = "é" * (BODY_BYTES // 2 - 5) + CANARY + "x" * 5_000_000
    async with FakeVllm() as server:
        failure = await failure_of(server, Fault(status=500, body=body), api_key_env="TEST_VLLM")
    assert failure.body is not None
    assert len(failure.body.encode()) <= BODY_BYTES
    assert "canary" not in failure.body
    assert len(str(failure)) < 600


async def test_control_characters_stay_out_of_messages() -> None:
    async with FakeVllm() as server:
        message = "\x1b[31mred\x00\nnext\u2028line \ud800"
        failure = await failure_of(server, Fault(status=500, body={"error": {"message": message}}))
    assert str(failure).isprintable()
    assert "red" in str(failure)


# -- probing --------------------------------------------------------------------------------------------------------


async def test_a_probe_says_what_is_served() -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        served = await adapter.probe(server.base_url)
    assert served.models == ("fake/model",)
    assert served.version == "0.32.0"
    assert server.requests == 0


async def test_another_model_is_served() -> None:
    async with FakeVllm(model="other/model") as server, opened(configured(server), PROMPT) as adapter:
        with pytest.raises(RequestFailure, match="does not serve 'fake/model' but 'other/model'") as caught:
            await adapter.probe(server.base_url)
        assert caught.value.kind is K.WRONG_MODEL
        with pytest.raises(RequestFailure, match="does not exist") as caught:
            await adapter.ask(items("x"), server.base_url)
        assert caught.value.kind is K.WRONG_MODEL


async def test_other_weights_under_the_same_name() -> None:
    """A server that comes back as another revision would give this name answers of two models."""
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        server.root_of_weights = None  # another server of this format may not say
        await adapter.probe(server.base_url)
        for root in ("/hub/snapshots/abc", "/hub/snapshots/abc"):
            server.root_of_weights = root
            await adapter.probe(server.base_url)
        server.root_of_weights = "/hub/snapshots/def"
        with pytest.raises(RequestFailure, match="'/hub/snapshots/def', not '/hub/snapshots/abc'") as caught:
            await adapter.probe(server.base_url)
        assert caught.value.kind is K.WRONG_MODEL
        server.root_of_weights = "/hub/snapshots/abc"
        await adapter.probe(server.base_url)


async def test_an_unhealthy_server() -> None:
    async with FakeVllm() as server, opened(configured(server), PROMPT) as adapter:
        server.healthy = False
        with pytest.raises(RequestFailure, match="HTTP 503") as caught:
            await adapter.probe(server.base_url)
    assert caught.value.kind is K.TRANSIENT


async def test_overload_is_a_rate_limit() -> None:
    async with FakeVllm(max_queued=2, latency_s=0.1) as server, opened(configured(server), PROMPT) as adapter:
        outcomes = await asyncio.gather(
            *(adapter.ask(items(str(number)), server.base_url) for number in range(6)), return_exceptions=True
        )
    kinds = {outcome.kind for outcome in outcomes if isinstance(outcome, RequestFailure)}
    assert kinds == {K.RATE_LIMIT}


async def test_several_addresses() -> None:
    async with FakeVllm() as one, FakeVllm() as two:
        config = model("vllm-completions", base_urls=(one.base_url, f"{two.base_url}/"))
        async with opened(config, PROMPT) as adapter:
            assert adapter.base_urls == (one.base_url, f"{two.base_url}/")
            await adapter.ask(items("a"), adapter.base_urls[0])
            await adapter.ask(items("b"), adapter.base_urls[1])
        assert (one.asked("a}"), two.asked("b}")) == (1, 1)
