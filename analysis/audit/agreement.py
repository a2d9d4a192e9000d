"""How often parse policies agree with what a person said an answer says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.analysis.audit.readers import BROKEN, outcomes, readers
from hatevolution.analysis.parsers import PAPER, POLICIES
from hatevolution.store.text import visible

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from hatevolution.analysis.audit.records import AnswerRow

__all__ = ["CONFIDENCE", "Agreement", "Interval", "agreements", "wilson"]

CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A share and its confidence interval, as fractions."""

    value: float
    low: float
    high: float


class Agreement(NamedTuple):
    """One policy against one person."""

    policy: str
    judged: int
    """Answers that the policy applies to and that the person decided on."""
    agreed: int
    share: Interval | None
    """None where nothing was judged."""
    confusion: dict[str, dict[str, int]]
    """What the person said -> what the policy says -> answers; both of toxic, respectful, invalid."""

    @property
    def lost(self) -> int:
        """Answers with a label, as the person says, that the policy calls invalid."""
        return sum(said["invalid"] for person, said in self.confusion.items() if person != "invalid")

    @property
    def invented(self) -> int:
        """Answers without a label, as the person says, to which the policy gives one."""
        return sum(count for policy, count in self.confusion["invalid"].items() if policy != "invalid")

    @property
    def reversed(self) -> int:
        """Answers to which the policy gives the opposite label."""
        return self.confusion["toxic"]["respectful"] + self.confusion["respectful"]["toxic"]

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {
            **self._asdict(),
            "share": None if self.share is None else self.share._asdict(),
            "lost": self.lost,
            "invented": self.invented,
            "reversed": self.reversed,
        }


def wilson(successes: int, n: int) -> Interval | None:
    """Return a share with Wilson's score interval; None of nothing.

    Wilson, E. B. (1927), "Probable inference, the law of succession, and statistical inference", JASA 22, 209-212;
    computed by ``scipy.stats.binomtest``.

    >>> [round(value, 4) for value in wilson(9, 10)]
    [0.9, 0.5958, 0.9821]
    """
    if n == 0:
        return None
    from scipy.stats import binomtest

    bounds = binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(successes / n, float(bounds.low), float(bounds.high))


_DECISIONS: Final = ("toxic", "respectful", "invalid")


def agreements(
    connection: sqlite3.Connection, judged: Sequence[tuple[AnswerRow, str]], more: Sequence[str] = ()
) -> list[Agreement]:
    """Compare every policy with a person.

    Args:
        connection: The store's, for its models and their own parsers.
        judged: Answers and what the person said of them; ``undecided`` ones are left out.
        more: Names or TOML paths of further policies.

    Returns:
        ``paper`` (each model's own rule) first, then every policy that applies to any of the answers: one for free
        text to models that answer in text, one for classifiers to those.

    Raises:
        ConfigError: There is no such policy.
    """
    decided = [(row, said) for row, said in judged if said in _DECISIONS]
    own = readers(connection, PAPER)
    kinds = {own[row.model].policy.reads for row, _ in decided}
    names = (PAPER, *(name for name, policy in POLICIES.items() if policy.reads in kinds), *more)
    return [_agreement(name, connection, decided) for name in dict.fromkeys(names)]


def _agreement(name: str, connection: sqlite3.Connection, decided: Sequence[tuple[AnswerRow, str]]) -> Agreement:
    known = readers(connection, name)
    if name == PAPER:
        identity, rows = PAPER, list(decided)
    else:
        from hatevolution.analysis.parsers import policy

        identity = policy(name).identity
        rows = [(row, said) for row, said in decided if known[row.model].policy.identity == identity]
    parsed = outcomes(
        known,
        [row.model for row, _ in rows],
        [visible(row.raw_text or "") for row, _ in rows],
        [row.scores or "" for row, _ in rows],
    )
    pairs = Counter(
        (said, "invalid" if outcome in BROKEN else outcome) for (_, said), outcome in zip(rows, parsed, strict=True)
    )
    agreed = sum(count for (said, outcome), count in pairs.items() if said == outcome)
    confusion = {said: {outcome: pairs[said, outcome] for outcome in _DECISIONS} for said in _DECISIONS}
    return Agreement(identity, len(rows), agreed, wilson(agreed, len(rows)), confusion)
