"""Output and error files of batches: whatever stands in them becomes a result, or a line that is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.batch.results import Result, Torn, read_results
from hatevolution.adapters.models.faults import ErrorBody

if TYPE_CHECKING:
    from pathlib import Path

ID = "hb0123456789ab-3"


def read(folder: Path, *lines: bytes) -> list[Result | Torn]:
    path = folder / "out.jsonl"
    path.write_bytes(b"\n".join(lines))
    return list(read_results(path))


def one(folder: Path, line: bytes) -> Result:
    (result,) = read(folder, line)
    assert isinstance(result, Result)
    return result


def line(response: Any, error: Any = None, custom_id: str = ID) -> bytes:
    return json.dumps({"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": error}).encode()


def test_a_body_keeps_its_bytes(tmp_path: Path) -> None:
    raw = b'{"id":"b","custom_id":"%s","response":{"status_code":200,"request_id":"r","body": {"a" : [1, 2.50]} }}'
    result = one(tmp_path, raw % ID.encode())
    assert (result.name, result.line, result.result_id) == ("hb0123456789ab", 3, "b")
    assert result.arrived is not None
    assert result.arrived == (200, {"x-request-id": "r"}, b'{"a" : [1, 2.50]}')


def test_an_unpaired_surrogate_survives(tmp_path: Path) -> None:
    result = one(tmp_path, line({"status_code": 200, "body": {"a": "\ud800"}}))
    assert result.arrived is not None
    assert json.loads(result.arrived.body) == {"a": "\ud800"}


def test_an_http_error_is_that_of_the_endpoint_wherever_it_stands(tmp_path: Path) -> None:
    error = {"message": "too long", "type": "t", "param": "p", "code": "context_length_exceeded"}
    openai = one(tmp_path, line({"status_code": 400, "request_id": "r", "body": {"error": error}}))
    vllm = one(tmp_path, line({"status_code": 400, "request_id": "r", "body": None}, {"error": error}))
    for result in (openai, vllm):
        assert result.arrived is not None
        assert result.arrived.status == 400
        assert json.loads(result.arrived.body) == {"error": error}
    text = one(tmp_path, line({"status_code": 400, "body": None}, "no such URL"))
    assert text.arrived is not None
    assert json.loads(text.arrived.body) == {"error": "no such URL"}


def test_a_body_that_is_no_json_is_its_text(tmp_path: Path) -> None:
    result = one(tmp_path, line({"status_code": 502, "body": "<html>é\ud800"}))
    assert result.arrived is not None
    assert result.arrived.body == "<html>é\ud800".encode("utf-8", "surrogatepass")


def test_a_success_with_an_error_beside_it_is_none(tmp_path: Path) -> None:
    result = one(tmp_path, line({"status_code": 200, "body": {"choices": []}}, {"code": "x", "message": "y"}))
    assert result.arrived is not None
    assert result.arrived.status == 500


def test_a_request_that_was_never_sent(tmp_path: Path) -> None:
    result = one(tmp_path, line(None, {"code": "batch_expired", "message": "too late"}))
    assert result.arrived is None
    assert result.error == ErrorBody("too late", None, "batch_expired", None)


@pytest.mark.parametrize("raw", [b"[1]", b"{}", b'"x"', b'{"custom_id": 3}', b"\xff\xfe", b"nonsense", b"[" * 100_000,
                                 line(None, custom_id="somebody-1"),
                                 line({"status_code": "200"}, custom_id="x")])  # fmt: skip
def test_a_line_of_something_else_is_torn(tmp_path: Path, raw: bytes) -> None:
    (result,) = read(tmp_path, raw)
    assert result == Torn(1, None, None, raw)


def test_a_line_that_was_cut_off_may_tell_which_request_it_was_about(tmp_path: Path) -> None:
    whole = line({"status_code": 200, "body": {"choices": "x" * 50}})
    for end in range(1, len(whole)):
        (result,) = read(tmp_path, whole[:end])
        assert isinstance(result, Torn)
        known = whole[:end].find(ID.encode() + b'"') >= 0
        assert (result.name, result.line) == (("hb0123456789ab", 3) if known else (None, None))


def test_blank_lines_and_order_do_not_matter(tmp_path: Path) -> None:
    lines = [line({"status_code": 200, "body": {}}, custom_id=f"hb0123456789ab-{n}") for n in (5, 0, 5)]
    assert [result.line for result in read(tmp_path, b"", lines[0], b"  ", *lines[1:], b"")] == [5, 0, 5]


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(["custom_id", "response", "error", "id", "body", "status_code"])
                                      | st.text(max_size=3), inner, max_size=4), max_leaves=12))  # fmt: skip
def test_no_line_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(value) + "\n" + json.dumps({"custom_id": ID, "response": value, "error": value}))
    for result in read_results(path):
        assert isinstance(result, (Result, Torn))
