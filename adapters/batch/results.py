"""Output and error files of batches -> what came of each request, whatever stands in them.

A line is ``{"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}``. OpenAI puts the body of
an HTTP error into ``response.body``; vLLM leaves that null and puts it into ``error``. A request that was never sent
(the batch expired, or was cancelled) has no response and an error with a code.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hatevolution.adapters.batch.files import read_custom_id
from hatevolution.adapters.models.faults import Arrived, ErrorBody, read_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Result", "Torn", "read_results"]

_NOTHING: Final = msgspec.Raw(b"null")
_ID_IN_TORN: Final = re.compile(rb'"custom_id"\s*:\s*"([^"\\]{1,64})"')


class Result(NamedTuple):
    """What came of one request."""

    name: str
    """Of the batch."""
    line: int
    result_id: str | None
    """The provider's id of the result."""
    arrived: Arrived | None
    """The response; None where there was none."""
    error: ErrorBody
    """Why there was none."""
    raw: bytes
    """The line."""


class Torn(NamedTuple):
    """A line that is no result of a request of ours."""

    number: int
    """In its file, from 1."""
    name: str | None
    """Of the batch, where the custom id can be read."""
    line: int | None
    raw: bytes


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = _NOTHING
    request_id: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    id: str | None = None
    response: _Response | None = None
    error: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Line).decode


def read_results(path: Path) -> Iterator[Result | Torn]:
    """Yield what stands in an output or error file, line by line; blank lines are passed over."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield _read(number, raw.strip())


def _read(number: int, raw: bytes) -> Result | Torn:
    line = _line(raw)
    if line is None:
        return _torn(number, raw)
    known = read_custom_id(line.custom_id)
    if known is None:
        return Torn(number, None, None, raw)
    response, error = line.response, bytes(line.error)
    if response is not None and not 100 <= response.status_code <= 599:
        return Torn(number, *known, raw)
    if response is None:
        return Result(*known, line.id, None, read_error(_wrapped(error)), raw)
    body = bytes(response.body)
    if error != b"null":
        # vLLM: the error is the body. A success with an error beside it is no success.
        body = _wrapped(error) if body == b"null" or response.status_code == 200 else body
        status = 500 if response.status_code == 200 else response.status_code
    else:
        status = response.status_code
    headers = {} if response.request_id is None else {"x-request-id": response.request_id}
    return Result(*known, line.id, Arrived(status, headers, _plain(body)), ErrorBody(), raw)


def _line(raw: bytes) -> _Line | None:
    """Return a line's parts, the body with its bytes as they came; None where it is no such line."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass
    # msgspec refuses unpaired surrogates, which a body may hold; the standard library does not.
    try:
        data: Any = json.loads(raw)
        response = data.get("response")
        if isinstance(response, dict) and "body" in response:
            data["response"] = {**response, "body": msgspec.Raw(json.dumps(response["body"]).encode())}
        if data.get("error") is not None:
            data["error"] = msgspec.Raw(json.dumps(data["error"]).encode())
        else:
            data.pop("error", None)
        return msgspec.convert(data, _Line, strict=True)
    except (ValueError, AttributeError, RecursionError):  # of msgspec and json too
        return None


def _torn(number: int, raw: bytes) -> Torn:
    found = _ID_IN_TORN.search(raw)
    known = None if found is None else read_custom_id(found[1].decode("ascii", "replace"))
    return Torn(number, None, None, raw) if known is None else Torn(number, *known, raw)


def _wrapped(error: bytes) -> bytes:
    """Return an error as the body of an HTTP error has it: a text gets ``{"error": ...}`` around it."""
    if error.startswith(b'"'):
        return b'{"error":' + error + b"}"
    return error


def _plain(body: bytes) -> bytes:
    """Return a body as it came to the provider: one that was no JSON stands in the line as a text."""
    if not body.startswith(b'"'):
        return body
    text = json.loads(body)
    return str(text).encode("utf-8", "surrogatepass")
