"""What the adapters of vLLM's routes share: channel, probe, and what vLLM's errors mean.

Formats and errors as seen on vLLM 0.32; the project's seq2seq server speaks the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.channel import Channel
from hatevolution.adapters.models.faults import Arrived, ErrorBody, Faults, read_error
from hatevolution.adapters.models.said import Said
from hatevolution.adapters.models.settings import base_urls
from hatevolution.adapters.models.wire import Unreadable, decoder, plain
from hatevolution.domain import Served
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.errors import RequestFailure

__all__ = ["VllmAdapter", "meaning"]

_TOO_LONG_PARAMETERS = frozenset({"input_text", "input_tokens"})
_TOO_LONG_TEXT = re.compile(
    r"maximum (?:context|model|input) length|longer than the maximum|max_model_len", re.IGNORECASE
)


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    root: str | None = None
    """Path or id of the weights behind the name (of a snapshot's path the commit is a part), and their revision."""


class _Models(msgspec.Struct):
    data: list[_Card]


_read_models = decoder(_Models)


def meaning(status: int, error: ErrorBody) -> FailureKind:
    """Return what an error of vLLM means for the runner."""
    if status in (401, 403):
        return FailureKind.AUTH
    if status == 404:
        # An unknown model, or a route that this kind of server has not got (/classify on a generating one).
        return FailureKind.WRONG_MODEL
    if status == 429 or (status == 503 and error.type == "Service Unavailable" and error.code == "503"):
        # vLLM's admission control (--max-num-queued-reqs) answers 503 in its own error format: too much, not broken.
        return FailureKind.RATE_LIMIT
    if status in (408, 409) or status >= 500:
        return FailureKind.TRANSIENT
    if status == 413 or error.param in _TOO_LONG_PARAMETERS:
        return FailureKind.TOO_LONG
    if status == 400 and error.param is None and _TOO_LONG_TEXT.search(error.message or ""):
        # Older releases name no parameter; there the text is all there is.
        return FailureKind.TOO_LONG
    if status == 400 and error.param == "prompt":
        # The prompt itself can't be taken: it is empty, or the tokeniser does not get through it.
        return FailureKind.UNSENDABLE
    return FailureKind.PERMANENT


class VllmAdapter:
    """One model behind one or more servers of vLLM's format."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets, *, lists: bool) -> None:
        self._model = model
        self._said = Said(prompt)
        self._base_urls = base_urls(model)
        # The routes outside /v1 (/health, /classify) start from the same address without it.
        self._roots = {url: url.rstrip("/").removesuffix("/v1") for url in self._base_urls}
        self._batch_size = model.endpoint.batch_size if lists else 1
        self._redactor = secrets.redactor(model)
        self._faults = Faults(model, self._redactor)
        key = secrets.api_key(model)
        self._channel = Channel(
            self._faults,
            timeout_s=model.endpoint.timeout_s,
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            tagged=True,
        )
        self._windows: dict[str, int | None] = {}
        self._weights: dict[str, str] = {}
        """Base URL -> what stood behind the model's name when it was first probed."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The configured addresses."""
        return self._base_urls

    @property
    def batch_size(self) -> int:
        """Sentences per request, as configured; 1 for routes that take no lists."""
        return self._batch_size

    async def open(self) -> None:
        """Make the HTTP session."""
        await self._channel.open()

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._channel.close()

    async def probe(self, base_url: str) -> Served:
        """Ask ``/health``, ``/v1/models`` and ``/version``.

        Raises:
            RequestFailure: The server is unreachable or unhealthy, refuses the key, serves another model, or has other
                weights under its name than at an earlier probe.
        """
        root = self._roots[base_url]
        health = await self._channel.get(root, "/health")
        if health.status not in (200, 404):  # 404: a server of this format that has no such route
            raise self._failure(health)
        arrived = await self._channel.get(root, "/v1/models")
        if arrived.status != 200:
            raise self._failure(arrived)
        try:
            cards = {card.id: card for card in _read_models(arrived.body).data}
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        if self._model.model not in cards:
            raise self._faults.make(
                FailureKind.WRONG_MODEL,
                f"{root} does not serve {self._model.model!r} but {', '.join(map(repr, cards)) or 'nothing'}",
                arrived,
            )
        card = cards[self._model.model]
        self._check_weights(base_url, card, arrived)
        self._windows[base_url] = card.max_model_len
        return Served(tuple(cards), await self._version(root))

    def _check_weights(self, base_url: str, card: _Card, arrived: Arrived) -> None:
        before = self._weights.setdefault(base_url, card.root) if card.root else None
        if before is not None and before != card.root:
            raise self._faults.make(
                FailureKind.WRONG_MODEL,
                f"{base_url} has other weights under the name {self._model.model!r} than when this run first saw it: "
                f"{card.root!r}, not {before!r}",
                arrived,
            )

    async def _version(self, root: str) -> str | None:
        arrived = await self._channel.get(root, "/version")
        document = plain(arrived.body) if arrived.status == 200 else None
        version = document.get("version") if isinstance(document, dict) else None
        return version if isinstance(version, str) else None

    async def _post(self, base_url: str, path: str, body: str) -> Arrived:
        """Send a request (JSON in ASCII) and return its success.

        Raises:
            RequestFailure: Anything but a success.
        """
        return self._success(await self._channel.post(self._roots[base_url], path, body.encode("ascii")))

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
        return self._faults.make(kind, self._faults.answered(arrived, error), arrived, code=error.code or error.type)
