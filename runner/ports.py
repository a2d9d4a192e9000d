"""What a lane needs of its surroundings: where sentences come from, and where what came of them goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hatevolution.domain import Item
    from hatevolution.store.rows import AnswerRecord, FailureRecord

__all__ = ["Sentences", "Sink"]


class Sentences(Protocol):
    """Gives a lane its sentences, a request's worth at a time, each with a token to settle them with."""

    def take(self) -> tuple[list[Item], Any] | None:
        """Return the next ones if they are at hand."""

    async def next(self) -> tuple[list[Item], Any] | None:
        """Return the next ones; None when there are no more."""

    def settled(self, page: Any, sentences: int) -> None:
        """Say that sentences are recorded, or will not be asked in this run."""

    async def close(self) -> None:
        """Let go of what was never handed out."""


class Sink(Protocol):
    """Takes what came; :class:`hatevolution.store.writer.GroupCommitWriter` says what each member means."""

    trouble: str | None
    disk_full: bool

    @property
    def full(self) -> bool:
        """Whether callers should wait for :meth:`room`."""

    async def room(self) -> None:
        """Wait until there is room again."""

    def put(self, operation: AnswerRecord | FailureRecord) -> None:
        """Take an answer or a failure."""

    def intend(self, model: str, dataset: str, sentences: list[str], at: str) -> int:
        """Take what is about to be sent and return its number."""

    def settle(self, intent: int) -> None:
        """Everything of an intent is recorded (or was never sent)."""

    async def committed(self) -> None:
        """Wait until everything taken so far is safe."""
