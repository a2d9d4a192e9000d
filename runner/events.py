"""What a run tells whoever watches: the state of its lanes, and things that happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LaneState", "Listener", "Listeners"]

_REASONS = 5
"""Different reasons of sentences that stay pending that are kept for the summary."""


@dataclass(slots=True)
class LaneState:
    """One model of a run, as it stands now. Written by its lane, read by displays."""

    model: str
    title: str
    total: int
    """Sentences that were pending when the run began."""
    done: int = 0
    """Of those, answered, refused or rejected (handed to the store)."""
    given_up: int = 0
    """Sentences that stay pending in this run."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why they do, in words, and how many for each reason; at most a few different ones are kept."""
    failures: int = 0
    """Failed attempts."""
    in_flight: int = 0
    limit: int = 0
    """How many may be in flight now."""
    spent_usd: float = 0.0
    phase: str = "waiting"
    """waiting | starting (its server) | running | paused | done | stopped"""
    why: str = ""
    """Why it is paused or stopped, in words."""
    paused_until: float | None = None
    """Event loop time at which the pause ends, where that is known."""
    started_at: float | None = None
    ended_at: float | None = None
    datasets: list[str] = field(default_factory=list)

    def give_up(self, sentences: int, why: str) -> None:
        """Count sentences that stay pending in this run, and why."""
        self.given_up += sentences
        why = why if why in self.reasons or len(self.reasons) < _REASONS else "other reasons"
        self.reasons[why] = self.reasons.get(why, 0) + sentences

    def account(self) -> dict[str, Any]:
        """Return how the lane ended, for a log: counts, seconds of asking (without its server's start), money."""
        seconds = None
        if self.started_at is not None and self.ended_at is not None:
            seconds = self.ended_at - self.started_at
        return {
            "model": self.model,
            "phase": self.phase,
            "why": self.why,
            "recorded": self.done,
            "pending": self.total - self.done,
            "given_up": self.given_up,
            "failed_attempts": self.failures,
            "seconds": None if seconds is None else round(seconds, 3),
            "per_second": round(self.done / seconds, 3) if seconds else None,
            "spent_usd": self.spent_usd,
        }


class Listener(Protocol):
    """Somebody who is told what happens (a log, a display)."""

    def __call__(self, event: str, **fields: Any) -> None:
        """Take note of an event."""


class Listeners:
    """Tells several listeners."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = list(listeners)

    def __call__(self, event: str, **fields: Any) -> None:
        """Pass an event on. A listener that can't write any more (its terminal is gone) is left out from then on."""
        for listener in list(self._listeners):
            try:
                listener(event, **fields)
            except OSError:
                self._listeners.remove(listener)
