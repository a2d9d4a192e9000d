"""What the adapters of OpenAI's API share: channel, probe, and what its errors mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from hatevolution.adapters.models.faults import Arrived, ErrorBody, Faults, read_error
from hatevolution.adapters.models.headers import parse_duration
from hatevolution.adapters.models.openai_channel import OpenAIChannel
from hatevolution.adapters.models.said import Said
from hatevolution.adapters.models.settings import base_urls
from hatevolution.domain import Served
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.errors import RequestFailure

__all__ = ["DEFAULT_KEY", "OpenAIAdapter", "meaning"]

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"

_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
# No code tells this one from a rate limit: type and code of both are "tokens" and "rate_limit_exceeded".
_TOO_LARGE_TEXT = re.compile(r"^\s*request too large", re.IGNORECASE)
_WAIT_TEXT = re.compile(r"try again in ([0-9hms.]{1,30}?)\.?(?:\s|$)", re.IGNORECASE)
_NO_SCOPE_TEXT = "api.model.read"


def meaning(status: int, error: ErrorBody) -> FailureKind:
    """Return what an error of OpenAI's API means for the runner."""
    codes = {error.code, error.type}
    if codes & _QUOTA:
        return FailureKind.QUOTA
    if status in (404, 410) or (status == 403 and error.code == "model_not_found"):
        return FailureKind.RETIRED
    if status in (401, 403):
        return FailureKind.AUTH
    if status == 413 or codes & _TOO_LONG or (status == 429 and _TOO_LARGE_TEXT.search(error.message or "")):
        return FailureKind.TOO_LONG
    if status == 429:
        return FailureKind.RATE_LIMIT
    if codes & _FILTERED:
        return FailureKind.FILTERED
    if status in (408, 409) or status >= 500:
        return FailureKind.TRANSIENT
    return FailureKind.PERMANENT


class OpenAIAdapter:
    """One model behind OpenAI's API."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets, *, lists: bool) -> None:
        self._model = model
        self._said = Said(prompt)
        self._base_urls = base_urls(model, DEFAULT_URL)
        self._batch_size = model.endpoint.batch_size if lists else 1
        self._redactor = secrets.redactor(model, DEFAULT_KEY)
        self._faults = Faults(model, self._redactor)
        self._channel = OpenAIChannel(
            self._faults,
            base_urls=self._base_urls,
            api_key=secrets.api_key(model, DEFAULT_KEY) or "",
            timeout_s=model.endpoint.timeout_s,
        )

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The configured addresses, or OpenAI's own."""
        return self._base_urls

    @property
    def batch_size(self) -> int:
        """Sentences per request, as configured; 1 for routes that take no lists."""
        return self._batch_size

    async def open(self) -> None:
        """Make the client."""
        await self._channel.open()

    async def close(self) -> None:
        """Close the client."""
        await self._channel.close()

    async def probe(self, base_url: str) -> Served:
        """Ask ``/models/ID``, which costs nothing and tells a retired model from a living one.

        Raises:
            RequestFailure: The endpoint is unreachable or failing, refuses the key, or has not got the model.
        """
        arrived = await self._channel.get(base_url, f"/models/{quote(self._model.model, safe='')}")
        error = read_error(arrived.body)
        if arrived.status == 200:
            return Served((self._model.model,))
        if arrived.status == 403 or (arrived.status == 401 and _NO_SCOPE_TEXT in (error.message or "")):
            # A restricted key that may ask models but not list them; the first answer will tell.
            return Served(None)
        raise self._failure(arrived)

    async def _post(self, base_url: str, path: str, body: str) -> Arrived:
        """Send a request (JSON in ASCII) and return its success.

        Raises:
            RequestFailure: Anything but a success.
        """
        return self._success(await self._channel.post(base_url, path, body.encode("ascii")))

    def _success(self, arrived: Arrived) -> Arrived:
        """Return a response without the endpoint's key in it.

        Raises:
            RequestFailure: It is anything but a success.
        """
        if arrived.status != 200:
            raise self._failure(arrived)
        clean = self._redactor.exact(arrived.body)
        return arrived if clean is arrived.body else arrived._replace(body=clean)

    def _failure(self, arrived: Arrived) -> RequestFailure:
        error = read_error(arrived.body)
        kind = meaning(arrived.status, error)
        if kind is FailureKind.RETIRED:
            return self._faults.retired(arrived, error)
        wait = None
        if kind is FailureKind.RATE_LIMIT and (told := _WAIT_TEXT.search(error.message or "")):
            wait = parse_duration(told[1])  # used where no header says it
        return self._faults.make(
            kind, self._faults.answered(arrived, error), arrived, code=error.code or error.type, retry_after=wait
        )
