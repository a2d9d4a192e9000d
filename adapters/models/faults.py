"""Makes :class:`~hatevolution.errors.RequestFailure` out of what went wrong: readable, bounded, without secrets."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.models.headers import retry_after_s
from hatevolution.adapters.models.wire import plain
from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.adapters.redact import Redactor
    from hatevolution.configs.schema import ModelConfig

__all__ = ["BODY_BYTES", "NO_RESOURCES", "Arrived", "ErrorBody", "Faults", "printable", "read_error"]

BODY_BYTES = 64 * 1024
"""Most of an error's body that is kept, in UTF-8."""
NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Errors of the operating system that are this machine's, not an endpoint's."""
_MESSAGE_CHARACTERS = 400
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


class Arrived(NamedTuple):
    """A response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """By names whose case does not matter."""
    body: bytes


class ErrorBody(NamedTuple):
    """The parts of an error body that decisions are made from; None where it has them not."""

    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def read_error(raw: bytes) -> ErrorBody:
    """Read an error body: ``{"error": {...}}`` as OpenAI and vLLM write it, and the other shapes that servers use.

    Those are: the same fields without ``error`` around them (older vLLM), ``{"error": "text"}`` (vLLM's key check) and
    ``{"detail": "text"}`` (FastAPI).
    """
    data = plain(raw)
    if not isinstance(data, dict):
        return ErrorBody()
    error = data.get("error", data)
    if isinstance(error, str):
        return ErrorBody(message=error)
    if not isinstance(error, dict):
        return ErrorBody()
    message = error.get("message", error.get("detail"))
    return ErrorBody(_word(message), _word(error.get("type")), _word(error.get("code")), _word(error.get("param")))


def printable(text: str, most: int = _MESSAGE_CHARACTERS) -> str:
    """Return a text from outside as one bounded line without control characters."""
    line = _CONTROL.sub(" ", text[: 2 * most]).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."


class Faults:
    """Makes the failures of one model.

    Args:
        model: Whose failures these are.
        redactor: What takes secrets out of them.
    """

    def __init__(self, model: ModelConfig, redactor: Redactor) -> None:
        self._model = model
        self._redactor = redactor

    def make(
        self,
        kind: FailureKind,
        message: str,
        arrived: Arrived | None = None,
        *,
        code: str | None = None,
        retry_after: float | None = None,
        maybe_billed: bool = False,
    ) -> RequestFailure:
        """Return a failure.

        Args:
            kind: What it means for the runner.
            message: What happened, in a sentence; may hold untrusted text.
            arrived: The response, where there was one.
            code: The endpoint's structured error code or type.
            retry_after: Seconds to wait, where the response's headers don't say.
            maybe_billed: True where the work may have been done and charged for.
        """
        if arrived is None:
            return RequestFailure(kind, self.text(message), code=code, maybe_billed=maybe_billed)
        asked = retry_after_s(arrived.headers)
        return RequestFailure(
            kind,
            self.text(message),
            http_status=arrived.status,
            code=None if code is None else self.text(code),
            body=self._body(arrived.body),
            retry_after_s=retry_after if asked is None else asked,
            request_id=self.request_id(arrived),
            maybe_billed=maybe_billed,
        )

    def request_id(self, arrived: Arrived) -> str | None:
        """Return the id that the endpoint's headers give the request; None where they give none."""
        value = arrived.headers.get("x-request-id")
        return None if value is None else self.text(value)

    def text(self, message: str) -> str:
        """Return a message as one bounded line without secrets."""
        return printable(self._redactor.text(message[: 4 * _MESSAGE_CHARACTERS]))

    def answered(self, arrived: Arrived, error: ErrorBody) -> str:
        """Return the sentence that says how an endpoint declined a request."""
        why = error.message or arrived.body[: 4 * _MESSAGE_CHARACTERS].decode("utf-8", "replace")
        code = f" ({error.code or error.type})" if error.code or error.type else ""
        return f"HTTP {arrived.status}{code}: {why}" if why.strip() else f"HTTP {arrived.status} with an empty body"

    def malformed(self, arrived: Arrived, why: object) -> RequestFailure:
        """Return the failure of a success that does not hold an answer. Whatever it cost is spent."""
        message = f"HTTP {arrived.status}, but the body does not hold an answer: {why}"
        return self.make(FailureKind.MALFORMED, message, arrived, maybe_billed=True)

    def retired(self, arrived: Arrived, error: ErrorBody) -> RequestFailure:
        """Return the failure of a model that its endpoint has not got, naming the successor where one is known."""
        retirement = self._model.retired
        advice = (
            ""
            if retirement is None
            else f"it was shut down on {retirement.date.isoformat()}; use {retirement.successor!r} instead. "
        )
        message = f"The endpoint has no model {self._model.model!r}; {advice}{self.answered(arrived, error)}"
        return self.make(FailureKind.RETIRED, message, arrived, code=error.code or error.type)

    def _body(self, raw: bytes) -> str:
        # Masked before it is cut, with some room: a secret that the cut would halve could not be recognised any more.
        text = self._redactor.text(raw[: 2 * BODY_BYTES].decode("utf-8", "replace"))
        return text.encode("utf-8")[:BODY_BYTES].decode("utf-8", "ignore")
