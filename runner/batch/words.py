"""What is said of batches to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.adapters.batch.base import TOKEN_LIMIT
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.batch.openai_wire import BatchProblem
    from hatevolution.errors import RequestFailure
    from hatevolution.store.batches import BatchRow

__all__ = ["declined", "state", "why_failed", "why_not"]

_SHOWN: Final = 3


def state(row: BatchRow) -> str:
    """Return how far a batch is, in a word or two."""
    if row.outcome is not None:
        return row.outcome.replace("_", " ")
    if row.offline:
        return "waiting for its output" if row.submitted_at else "file not written"
    if row.provider_id is None:
        return "not submitted" if row.create_tried_at is None else "perhaps submitted"
    return row.provider_status or "submitted"


def why_not(failure: RequestFailure) -> str:
    """Return a sentence that says why a provider did not do what was asked."""
    if failure.code == TOKEN_LIMIT:
        return _too_many_tokens(str(failure))
    if failure.kind is FailureKind.QUOTA:
        return f"The account has no money or quota left, nothing was submitted: {failure}"
    if failure.kind is FailureKind.AUTH:
        return f"The provider refuses the key: {failure}"
    return str(failure)


def _too_many_tokens(said: str) -> str:
    return (
        f"The account may not have so many tokens in open batches at once ({said}); wait until open batches are done, "
        f"or submit fewer sentences with --limit"
    )


def why_failed(problems: Sequence[BatchProblem]) -> str:
    """Return a sentence that says why a provider turned a whole batch down."""
    if any(problem.code == TOKEN_LIMIT for problem in problems):
        return _too_many_tokens(next(problem.message for problem in problems if problem.code == TOKEN_LIMIT))
    said = [
        f"{problem.message}{'' if problem.line is None else f' (line {problem.line})'}" for problem in problems[:_SHOWN]
    ]
    more = len(problems) - len(said)
    if more > 0:
        said.append(f"and {more} more")
    return f"The provider turned the batch down: {'; '.join(said) or 'it does not say why'}"


def declined(count: int) -> str:
    """Return what is said of sentences that can't stand in a batch."""
    return (
        f"{count} sentences can't stand in a batch file (text that is no valid Unicode, or turned down by the provider "
        f"before); `hatevolution run` asks them live"
    )
