"""What came of a batch, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Taken"]


@dataclass(kw_only=True)
class Taken:
    """What came of a batch's lines."""

    answers: Counter[str] = field(default_factory=Counter)
    """By status: answered, refused, rejected."""
    second: int = 0
    """Answers to sentences that have theirs already (asked live meanwhile); kept apart."""
    failed: int = 0
    """Lines without an answer, for a reason that is recorded."""
    missing: int = 0
    """Sentences about which no line says anything."""
    torn: int = 0
    """Lines that can't be read."""
    strange: int = 0
    """Lines about no request of the batch."""
    repeated: int = 0
    """Lines about a request that another line answers."""
    cost_usd: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    """Of the failed lines."""

    @property
    def pending(self) -> int:
        """Sentences that are pending again."""
        return self.failed + self.missing
