"""A chat about one sentence: what OpenAI's and vLLM's adapters share, from the request to the reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from hatevolution.adapters.models.chat_wire import DEFAULT_MAX_TOKENS, read_chat
from hatevolution.adapters.models.wire import BROKEN_OFF, Unreadable, kept
from hatevolution.domain import Reply
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.models.chat_wire import ChatBody
    from hatevolution.adapters.models.faults import Arrived, Faults
    from hatevolution.adapters.models.said import Said
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, RateWindow, TokenEstimate

__all__ = ["ChatRoute"]


class ChatRoute(ABC):
    """Added to the class of an endpoint, which sends, tells successes from failures, and sets what is declared here."""

    batch_url = "/v1/chat/completions"

    _path: ClassVar[str]
    """The route, below the address that the endpoint's class posts to."""
    _frame_most: ClassVar[int]
    """Tokens that the endpoint puts around system and user message, at most."""

    _model: ModelConfig
    _said: Said
    _faults: Faults
    _body: ChatBody
    _truncated_at: int | None = None
    """The number of prompt tokens that means that the input was cut; None: none is."""

    @abstractmethod
    async def _post(self, base_url: str, path: str, body: str) -> Arrived: ...

    @abstractmethod
    def _success(self, arrived: Arrived) -> Arrived: ...

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Ask about one sentence.

        Raises:
            RequestFailure: No answer came.
        """
        return self._read(items, await self._post(base_url, self._path, self.write(items)))

    def write(self, items: Sequence[Item]) -> str:
        """Return the request body, JSON in ASCII, that asks about one sentence."""
        (item,) = items
        return self._body.write(item)

    def receive(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        """Return what a response of a batch says about one sentence.

        Raises:
            RequestFailure: It is no answer.
        """
        return self._read(items, self._success(arrived))

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of both messages and the most that are generated."""
        most = self._model.decoding.max_tokens or DEFAULT_MAX_TOKENS
        return self._said.estimate(item.text, overhead=self._frame_most, completion=most)

    def _rate_window(self, arrived: Arrived) -> RateWindow | None:
        """Return what a response says of the rate limits; None where the endpoint has none."""
        return None

    def _read(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        (item,) = items
        try:
            spoken = read_chat(arrived.body, self._said.sha256(item.text), truncated_at=self._truncated_at)
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        answer = spoken.answer
        if answer.finish_reason in BROKEN_OFF:
            raise self._faults.make(
                FailureKind.TRANSIENT, "The server broke off in the middle of an answer", arrived, maybe_billed=True
            )
        return Reply(
            (answer,),
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or spoken.id,
            spoken.model,
            spoken.system_fingerprint,
            answer.prompt_tokens,
            answer.completion_tokens,
            self._rate_window(arrived),
        )
