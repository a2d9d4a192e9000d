"""Answers of batches in the store: the rows of a live run, whatever stands in the provider's files."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from batch_desk import ENVIRON, Desk
from fake_base import Fault, in_thread
from fake_openai import CONTEXT, FILTERED, QUOTA, RATE_LIMITED, FakeOpenAI, error_body
from fake_openai_batch import FakeOpenAIBatch, served
from run_files import KEY

from hatevolution.adapters.batch.files import Limits
from hatevolution.store.exchange.merging import merge_stores
from hatevolution.store.exchange.verifying import verify_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@pytest.fixture
def sentences() -> int:
    return 20


_ROWS = """
SELECT p.model, p.sentence, p.status, p.raw_text, p.scores, p.finish_reason, p.prompt_sha256, p.prompt_tokens,
       p.completion_tokens, p.truncated, p.response_index, r.http_status, r.served_model, r.system_fingerprint,
       r.prompt_tokens, r.completion_tokens, r.request_id IS NOT NULL OR r.http_status <> 200
FROM predictions AS p JOIN responses AS r USING (response) ORDER BY 1, 2
"""


def holds(part: str) -> Callable[[Sequence[str]], bool]:
    return lambda texts: any(part in text for text in texts)


def test_rows_are_those_of_a_live_run(tmp_path: Path) -> None:
    """Two projects, one asked live, one in batches, whose endpoint says the same: the same rows, but for the price."""
    kinds: dict[str, Fault] = {
        "number 3.": CONTEXT,
        "number 4.": FILTERED,
        "number 5.": Fault(status=400, body=error_body("no", "invalid_request_error", "weird")),
    }
    found: dict[str, list[Any]] = {}
    costs: dict[str, float] = {}
    for way in ("live", "batch"):
        folder = tmp_path / way
        folder.mkdir()
        desk = Desk(folder)
        desk.dataset(count=12, text=lambda n: f"sentence {chr(233)} number {n}.")
        with served(swift=True) as server:
            desk.chat(server.base_url)
            desk.moderation(server.base_url)
            for part, fault in kinds.items():
                server.fail_when(holds(part), fault)
                server.line_faults[part] = fault
            if way == "live":
                assert desk.run().pending == 2
            else:
                assert desk.submit().in_batches == 24
                assert desk.collect_all().pending == 2
        found[f"{way} rows"] = desk.rows(_ROWS)
        failures = "SELECT DISTINCT model, sentence, kind, http_status, code, message, body FROM failures ORDER BY 1, 2"
        found[f"{way} failures"] = desk.rows(failures)
        costs[way] = desk.rows("SELECT sum(cost_usd) FROM responses")[0][0]
        assert all(check.ok for check in verify_store(desk.store))
    assert len(found["live rows"]) == 22
    assert found["live rows"] == found["batch rows"]
    assert found["live failures"] == found["batch failures"]
    assert costs["batch"] == pytest.approx(costs["live"] / 2)


def test_a_batchs_answers_have_no_latency(desk: Desk) -> None:
    desk.submit()
    desk.collect_all()
    assert desk.rows("SELECT DISTINCT latency_s, base_url <> '', attempts FROM answers") == [(None, 1, 1)]


REFUSED: tuple[dict[str, Any], tuple[str, str, str]] = (
    {"content": None, "refusal": "I can't."},
    ("refused", "I can't.", "refusal"),
)
EMPTY: tuple[dict[str, Any], tuple[str, str, str]] = ({"content": ""}, ("answered", "", "stop"))


@pytest.mark.parametrize(("message", "expected"), [REFUSED, EMPTY], ids=["refused", "empty"])
def test_a_refusal_is_one_and_an_empty_answer_stays_empty(
    desk: Desk, server: FakeOpenAIBatch, message: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    server.message = message
    desk.submit()
    desk.collect_all()
    assert desk.rows("SELECT DISTINCT status, raw_text, finish_reason FROM predictions") == [expected]


# -- strange files ---------------------------------------------------------------------------------------------------


def shuffled(lines: list[bytes]) -> list[bytes]:
    random.Random(1).shuffle(lines)
    return lines


def rewritten(line: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n"


STRANGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], dict[str, int]]] = {
    "in any order": (shuffled, {}),
    "twice": (lambda lines: lines * 2, {"repeated": 20}),
    "without some": (lambda lines: lines[:15], {"missing": 5}),
    "nothing": (lambda lines: [], {"missing": 20}),
    "cut off": (lambda lines: [*lines[:-1], lines[-1][:60]], {"torn": 1, "failed": 1}),
    "of others": (
        lambda lines: [
            *lines,
            rewritten(lines[0], custom_id="request-7"),
            rewritten(lines[0], custom_id="hb000000000000-1"),
            rewritten(lines[0], custom_id=json.loads(lines[0])["custom_id"].split("-")[0] + "-999"),
        ],
        {"torn": 1, "strange": 2},
    ),
    "no JSON": (lambda lines: [b"\xff\xfe\n", b"[]\n", b"\n", *lines], {"torn": 2}),
    "two things of one": (
        lambda lines: [
            *lines,
            rewritten(
                lines[0],
                response={
                    "status_code": 200,
                    "request_id": "r",
                    "body": {"choices": [{"message": {"content": "another"}}]},
                },
            ),
        ],
        {"repeated": 1, "second": 1},
    ),
    "a failure after its answer": (
        lambda lines: [*lines, rewritten(lines[0], response=None, error={"code": "request_timeout", "message": "x"})],
        {"repeated": 1},
    ),
    "a failure before its answer": (
        lambda lines: [rewritten(lines[0], response=None, error={"code": "request_timeout", "message": "x"}), *lines],
        {},
    ),
    "absurd numbers and ids": (
        lambda lines: [
            rewritten(lines[0], response={"status_code": 2**70, "body": {}}),
            rewritten(lines[1], response={"status_code": -1, "body": {}}),
            rewritten(lines[2], id="\ud800" * 300),
            rewritten(lines[3], response=None, error={"code": "\ud800", "message": "\x1b[31m\ud800" * 500}),
            *lines[4:],
        ],
        {"torn": 2, "failed": 3},
    ),
    "empty bodies": (
        lambda lines: [
            rewritten(lines[0], response={"status_code": 200, "body": None}),
            rewritten(lines[1], response={"status_code": 200}),
            rewritten(lines[2], response={"status_code": 200, "body": "toxic"}),
            rewritten(lines[3], response={"status_code": 200, "body": {"choices": []}}),
            rewritten(lines[4], response=None),
            *lines[5:],
        ],
        {"failed": 5},
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_whatever_stands_in_the_output_is_told_apart(desk: Desk, server: FakeOpenAIBatch, name: str) -> None:
    server.change, counts = STRANGE[name]
    desk.submit()
    (item,) = desk.collect_all().collected
    taken = item.taken
    for count in ("second", "failed", "missing", "torn", "strange", "repeated"):
        assert getattr(taken, count) == counts.get(count, 0), count
    missing = counts.get("missing", 0) + counts.get("failed", 0)
    assert desk.statuses() == ({"answered": 20 - missing} if missing < 20 else {})
    assert taken.pending == missing
    # A result that never came, or can't be read, may have been paid for.
    assert desk.count("failures", "maybe_billed") >= missing - 1
    assert desk.count("second_answers") == counts.get("second", 0)
    assert all(check.ok for check in verify_store(desk.store))
    if not missing:
        return
    # What is pending again goes into a batch again, and only that.
    server.change = lambda lines: lines
    before = sum(server.sent.values())
    assert desk.submit().in_batches == missing
    desk.collect_all()
    assert sum(server.sent.values()) - before == missing
    assert desk.statuses() == {"answered": 20}


def test_odd_texts_of_models_come_through(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.answer = lambda said: "a\0b \ud800 \x1b[31m"
    desk.submit()
    desk.collect_all()
    ((raw,),) = desk.rows("SELECT DISTINCT raw_text FROM predictions")
    assert raw == "a\0b \ud800 \x1b[31m".encode("utf-8", "surrogatepass")


def test_what_sqlite_cannot_hold_becomes_a_failure_and_the_rest_is_kept(desk: Desk, server: FakeOpenAIBatch) -> None:
    def huge(lines: list[bytes]) -> list[bytes]:
        body = json.loads(lines[0])["response"]["body"]
        body["usage"] = {"prompt_tokens": 2**70, "completion_tokens": 1}
        return [rewritten(lines[0], response={"status_code": 200, "body": body}), *lines[1:]]

    server.change = huge
    desk.submit()
    (item,) = desk.collect_all().collected
    assert (item.taken.answers["answered"], item.taken.failed) == (19, 1)
    assert desk.statuses() == {"answered": 19}
    assert desk.count("failures", "message LIKE '%can''t be stored%' AND body LIKE '%choices%'") == 1


# -- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_was_done_before_the_end_is_kept_and_the_rest_is_pending(
    desk: Desk, server: FakeOpenAIBatch, end: str
) -> None:
    server.end, server.done_before_the_end = end, 8
    desk.submit()
    report = desk.collect_all()
    assert (report.pending, report.exit_code) == (12, 1)
    assert [(row.outcome, row.provider_status) for row in desk.batches()] == [(end, end)]
    assert desk.statuses() == {"answered": 8}
    assert desk.rows("SELECT DISTINCT kind, code, maybe_billed FROM failures") == [("transient", f"batch_{end}", 0)]
    server.end, server.done_before_the_end = "completed", None
    assert desk.submit().in_batches == 12
    desk.collect_all()
    assert desk.statuses() == {"answered": 20}
    assert max(server.sent.values()) == 1


def test_too_many_tokens_in_open_batches_is_said_plainly(desk: Desk, server: FakeOpenAIBatch) -> None:
    text = "Enqueued token limit reached for gpt-4o in organization org-X. Limit: 90,000 enqueued tokens."
    server.end, server.problems = "failed", [{"code": "token_limit_exceeded", "message": text, "line": None}]
    desk.submit()
    report = desk.collect_all()
    assert report.pending == 20
    (row,) = desk.batches()
    assert row.outcome == "failed"
    assert row.note is not None
    assert row.note.startswith("The account may not have so many tokens in open batches at once (Enqueued token limit")
    assert desk.count("failures") == 0
    assert desk.outcomes() == {"missing": 20}


def test_a_line_that_the_provider_turns_down_does_not_take_the_next_file_down_too(
    desk: Desk, server: FakeOpenAIBatch
) -> None:
    server.end = "failed"
    server.problems = [{"code": "invalid_json_line", "message": "This line is not parseable.", "line": 3}]
    desk.submit()
    desk.collect_all()
    assert desk.outcomes() == {"invalid": 1, "missing": 19}
    assert desk.rows("SELECT sentence, kind, code FROM failures") == [("s2", "permanent", "invalid_json_line")]
    server.end, server.problems = "completed", []
    again = desk.submit()
    assert (again.in_batches, again.pending) == (19, 1)
    assert "1 sentences can't stand in a batch file" in again.problems[0].why
    desk.collect_all()
    assert desk.run().pending == 0  # live
    assert desk.statuses() == {"answered": 20}


def test_a_model_that_is_none_there_blames_no_line(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.end = "failed"
    server.problems = [
        {"code": "model_not_found", "message": "The model is not supported by the Batch API.", "line": 1}
    ]
    desk.submit()
    desk.collect_all()
    assert desk.outcomes() == {"missing": 20}
    assert desk.batches()[0].note == (
        "The provider turned the batch down: The model is not supported by the Batch API. (line 1)"
    )


def test_a_batch_that_is_done_before_its_file_is_there_is_waited_for_a_while(
    desk: Desk, server: FakeOpenAIBatch
) -> None:
    desk.submit()
    batch = next(iter(server.batches.values()))
    batch.life = ["completed"]
    server._finish(batch)
    batch.output_file_id, kept = None, batch.output_file_id
    assert [row.provider_status for row in desk.collect().waiting] == ["completed"]
    batch.output_file_id = kept
    assert (desk.collect().exit_code, desk.statuses()) == (0, {"answered": 20})


def test_a_file_that_never_comes_is_not_waited_for_for_ever(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    batch = next(iter(server.batches.values()))
    batch.life = ["completed"]
    server._finish(batch)
    batch.output_file_id, batch.completed_at = None, batch.completed_at - 7200
    assert desk.collect().pending == 20
    assert desk.count("failures", "maybe_billed") == 20


# -- answers that are there already ----------------------------------------------------------------------------------


def test_an_answer_that_was_asked_live_meanwhile_stays(desk: Desk, server: FakeOpenAIBatch, tmp_path: Path) -> None:
    desk.submit()
    live = Desk(tmp_path / "live")
    live.folder.mkdir()
    live.dataset(count=20)
    with in_thread(FakeOpenAI(answer=lambda said: "toxic")) as other:
        live.chat(other.base_url)
        assert live.run(limit=7).exit_code == 0
    merge_stores([live.store], desk.store)
    before = desk.snapshot()
    (item,) = desk.collect_all().collected
    assert (item.taken.answers["answered"], item.taken.second) == (13, 7)
    assert {key: desk.snapshot()[key] for key in before} == before
    agreeing = desk.count("second_answers", "agrees")
    assert (desk.count("second_answers"), desk.count("conflicts")) == (7, 7 - agreeing)
    assert desk.rows("SELECT DISTINCT source FROM second_answers") == [(f"batch {item.row.name}",)]
    assert desk.outcomes() == {"answered": 13, "second": 7}
    assert all(check.ok for check in verify_store(desk.store))


# -- what nobody may see ---------------------------------------------------------------------------------------------


def test_the_key_is_nowhere(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.line_faults["number 2."] = Fault(status=401, body=error_body(f"bad key {KEY}", "x", "invalid_api_key"))
    server.change = lambda lines: [*lines[1:], rewritten(lines[0], response=None, error={"code": "c", "message": KEY})]
    server.answer = lambda said: f"toxic {KEY}"
    desk.submit(limits=Limits(7, 10**6))
    report = desk.collect_all()
    for path in desk.folder.iterdir():
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in repr([item.taken for item in report.collected])


def test_custom_ids_say_nothing_of_the_sentence(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    (file,) = server.files.values()
    (row,) = desk.batches()
    ids = [json.loads(line)["custom_id"] for line in file.content.splitlines()]
    assert ids == [f"{row.name}-{line}" for line in range(20)]
    assert (row.input_bytes, file.filename) == (len(file.content), f"hatevolution-{row.name}.jsonl")


@pytest.mark.parametrize("fault", [QUOTA, RATE_LIMITED], ids=["quota", "rate limit"])
def test_a_line_that_failed_for_the_accounts_sake_is_pending_again(
    desk: Desk, server: FakeOpenAIBatch, fault: Fault
) -> None:
    server.line_faults["number 1"] = fault
    desk.submit()
    report = desk.collect_all()
    assert report.pending == 11  # 1 and 10 to 19
    kind = "quota" if fault is QUOTA else "rate_limit"
    assert desk.rows("SELECT kind, count(*) FROM failures GROUP BY 1") == [(kind, 11)]
    assert ENVIRON["OPENAI_API_KEY"] == KEY
