"""What came of importing answers that others made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hatevolution.store.exchange.merging import Conflict

__all__ = ["ForeignReport", "Left"]


class Left(NamedTuple):
    """A record that was not imported."""

    row: int
    why: str


@dataclass(kw_only=True)
class ForeignReport:
    """What came of an import."""

    store: str
    file: str
    sha256: str
    run: str
    model: str
    dataset: str
    rows: int = 0
    """Records of the file."""
    matched: int = 0
    """Sentences of the set that the file has an answer to."""
    answers: int = 0
    """New answers in the store."""
    agreeing: int = 0
    conflicting: int = 0
    unmatched: list[Left] = field(default_factory=list)
    """Records whose sentence was not found."""
    failures: list[Left] = field(default_factory=list)
    """Records that are no answer: failed requests, empty cells."""
    other_prompts: int = 0
    """Records that tell of another prompt than the model's configuration has; their prompt's checksum is left out."""
    missing: int = 0
    """Sentences of the set that the file has no answer to."""
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every record became an answer, every sentence has one, and nothing disagreed."""
        return not (self.unmatched or self.failures or self.conflicting or self.missing)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("unmatched", "failures", "conflicts")},
            "unmatched": [left._asdict() for left in self.unmatched],
            "failures": [left._asdict() for left in self.failures],
            "conflicts": [vars(conflict) for conflict in self.conflicts],
        }
