"""Google's Perspective API: one sentence per request, attribute scores between 0 and 1.

Options: ``languages`` (default ``["en"]``; without them short or misspelt English is taken for another language) and
``attributes`` (default ``["TOXICITY"]``). ``scoreThreshold`` is never sent: below it the API answers without a score.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hatevolution.adapters.models.channel import Channel
from hatevolution.adapters.models.faults import Arrived, ErrorBody, Faults
from hatevolution.adapters.models.headers import server_time
from hatevolution.adapters.models.perspective_service import DEFAULT_URL, PerspectiveService
from hatevolution.adapters.models.said import Said
from hatevolution.adapters.models.settings import base_urls, check_decoding, check_no_system, read_options
from hatevolution.adapters.models.wire import kept, plain
from hatevolution.domain import Answer, Reply, Served, Status, TokenEstimate
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item
    from hatevolution.errors import RequestFailure

__all__ = ["DEFAULT_KEY", "GoogleError", "Perspective", "meaning", "read_google_error"]

DEFAULT_KEY = "PERSPECTIVE_API_KEY"
_PROBE_PATH = "/$discovery/rest?version=v1alpha1"

_UNSENDABLE = frozenset({"COMMENT_EMPTY", "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE", "LANGUAGE_DETECTION_FAILED"})
_RATE_REASONS = frozenset({"RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "userRateLimitExceeded"})
_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})
# For the size of a comment the API gives an error without an errorType; of the others old versions gave none.
_TOO_LONG_TEXT = re.compile(r"too many bytes", re.IGNORECASE)
_UNSENDABLE_TEXT = re.compile(
    r"comment must be non-empty|does not support request languages|unable to detect language", re.IGNORECASE
)


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    languages: list[str] = msgspec.field(default_factory=lambda: ["en"])
    attributes: list[str] = msgspec.field(default_factory=lambda: ["TOXICITY"])


class GoogleError(NamedTuple):
    """The parts of an error of a Google API that decisions are made from."""

    message: str = ""
    status: str | None = None
    error_types: frozenset[str] = frozenset()
    """Perspective's own ``errorType`` of each detail."""
    reasons: frozenset[str] = frozenset()
    """``reason`` of each ``google.rpc.ErrorInfo``."""
    limits: frozenset[str] = frozenset()
    """Names of the limits that were hit."""


def read_google_error(raw: bytes) -> GoogleError:
    """Read ``{"error": {"code", "message", "status", "details": [...]}}``; empty where it is something else."""
    data = plain(raw)
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return GoogleError()
    details = [detail for detail in _list(error.get("details")) if isinstance(detail, dict)]
    older = [detail for detail in _list(error.get("errors")) if isinstance(detail, dict)]
    metadata = [detail["metadata"] for detail in details if isinstance(detail.get("metadata"), dict)]
    return GoogleError(
        str(error.get("message", "")),
        error.get("status") if isinstance(error.get("status"), str) else None,
        frozenset(str(detail["errorType"]) for detail in details if "errorType" in detail),
        frozenset(str(detail["reason"]) for detail in (*details, *older) if "reason" in detail),
        frozenset(str(data["quota_limit"]) for data in metadata if "quota_limit" in data),
    )


def meaning(status: int, error: GoogleError) -> FailureKind:
    """Return what an error of Perspective means for the runner."""
    told = bool(error.error_types)
    if error.reasons & _KEY_REASONS:
        return FailureKind.AUTH
    if status == 429 or (status == 403 and error.reasons & _RATE_REASONS):
        daily = any("PerDay" in limit for limit in error.limits)
        return FailureKind.QUOTA if daily else FailureKind.RATE_LIMIT
    if status in (401, 403):
        return FailureKind.AUTH
    if status in (404, 410):
        return FailureKind.RETIRED
    if status in (408, 409) or status >= 500:
        return FailureKind.TRANSIENT
    if status == 413 or "COMMENT_TOO_LONG" in error.error_types or _TOO_LONG_TEXT.search(error.message):
        return FailureKind.TOO_LONG
    if error.error_types & _UNSENDABLE or (not told and _UNSENDABLE_TEXT.search(error.message)):
        return FailureKind.UNSENDABLE
    return FailureKind.PERMANENT


class Perspective:
    """The Perspective API. Its model can't be named or pinned; the date of an answer stands in the store."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        options = read_options(model, _Options)
        check_decoding(model, ())
        check_no_system(model, prompt)
        self._model = model
        self._said = Said(prompt)
        self._base_urls = base_urls(model, DEFAULT_URL)
        self._attributes = options.attributes
        self._languages = options.languages
        self._redactor = secrets.redactor(model, DEFAULT_KEY)
        self._faults = Faults(model, self._redactor)
        key = secrets.api_key(model, DEFAULT_KEY)
        self._channel = Channel(
            self._faults,
            timeout_s=model.endpoint.timeout_s,
            headers={} if key is None else {"X-Goog-Api-Key": key},
            through_proxy=True,
        )
        self._services: dict[str, PerspectiveService] = {}

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The configured addresses, or Google's own."""
        return self._base_urls

    @property
    def batch_size(self) -> int:
        """One: the API takes no lists."""
        return 1

    async def open(self) -> None:
        """Make the HTTP session and the request builders."""
        self._services = {url: PerspectiveService(url) for url in self._base_urls}
        await self._channel.open()

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._channel.close()

    async def probe(self, base_url: str) -> Served:
        """Ask for the service's own description, which costs no quota; it says whether the API is still there.

        Raises:
            RequestFailure: It is unreachable, failing or gone, or refuses the key.
        """
        arrived = await self._channel.get(base_url.rstrip("/"), _PROBE_PATH)
        if arrived.status != 200:
            raise self._failure(arrived)
        document = plain(arrived.body)
        revision = document.get("revision") if isinstance(document, dict) else None
        return Served(None, revision if isinstance(revision, str) else None)

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Ask for the scores of one sentence.

        Raises:
            RequestFailure: No answer came.
        """
        (item,) = items
        request = self._services[base_url].analyze(self._body(self._said.text(item.text)))
        arrived = await self._channel.post(base_url.rstrip("/"), request.path, request.body)
        if arrived.status != 200:
            # The client would raise too, and log the body first, which may quote the key.
            raise self._failure(arrived)
        body = self._redactor.exact(arrived.body)
        try:
            scores = _scores(request.read(body), self._attributes)
        except (ValueError, RecursionError) as error:
            raise self._faults.malformed(arrived, error) from None
        answer = Answer(Status.ANSWERED, None, scores, prompt_sha256=self._said.sha256(item.text))
        return Reply((answer,), kept(body), 200)

    def estimate(self, item: Item) -> TokenEstimate:
        """Return zeros: the API counts requests."""
        return TokenEstimate(0, 0, 0)

    def _body(self, text: str) -> dict[str, Any]:
        return {
            "comment": {"text": text, "type": "PLAIN_TEXT"},
            "languages": self._languages,
            "requestedAttributes": {name: {} for name in self._attributes},
            "doNotStore": True,
        }

    def _failure(self, arrived: Arrived) -> RequestFailure:
        error = read_google_error(arrived.body)
        kind = meaning(arrived.status, error)
        code = next(iter(sorted(error.error_types) or sorted(error.reasons)), error.status)
        shape = ErrorBody(error.message or None, code=code)
        if kind is FailureKind.RETIRED:
            return self._faults.retired(arrived, shape)
        wait = _to_next_minute(server_time(arrived.headers)) if kind is FailureKind.RATE_LIMIT else None
        return self._faults.make(kind, self._faults.answered(arrived, shape), arrived, code=code, retry_after=wait)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _to_next_minute(now: float) -> float:
    """Return the seconds until the next full minute: the quota is per minute, and no header says when it is back."""
    return 60.0 - now % 60.0


def _scores(document: Any, attributes: list[str]) -> dict[str, float]:
    """Return the summary score of each attribute asked for.

    Raises:
        ValueError: One is missing (a 200 without scores is possible) or no finite number.
    """
    found: dict[str, float] = {}
    for name in attributes:
        try:
            value = document["attributeScores"][name]["summaryScore"]["value"]
        except (KeyError, TypeError, IndexError):
            raise ValueError(f"it has no score for {name}") from None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"its score for {name} is not a number")
        found[name] = float(value)
    return found
