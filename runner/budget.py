"""Money: what a request may cost is set aside before it is sent, so that a budget can't be overspent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hatevolution.configs.schema import Price
    from hatevolution.domain import Reply, TokenEstimate

__all__ = ["Budget", "cost_of", "likely_cost", "most_cost"]


def _cost(price: Price, requests: int, prompt: int, completion: int) -> float:
    return (
        requests * price.usd_per_request
        + prompt * price.input_usd_per_million_tokens / 1e6
        + completion * price.output_usd_per_million_tokens / 1e6
    )


def most_cost(price: Price | None, estimate: TokenEstimate) -> float:
    """Return what a request may cost at most, in US dollars."""
    return 0.0 if price is None else _cost(price, 1, estimate.prompt_most, estimate.completion_most)


def likely_cost(price: Price | None, estimate: TokenEstimate, completion: int) -> float:
    """Return what a request will cost if it generates ``completion`` tokens, in US dollars."""
    return 0.0 if price is None else _cost(price, 1, estimate.prompt_likely, completion)


def cost_of(price: Price | None, reply: Reply, most: float) -> float | None:
    """Return what a reply cost, in US dollars; None where the model is free, ``most`` where it gave no usage."""
    if price is None:
        return None
    if reply.prompt_tokens is None:
        return most
    return _cost(price, 1, reply.prompt_tokens, reply.completion_tokens or 0)


class Budget:
    """What a run may spend.

    Args:
        limit_usd: Most to spend in this run, in US dollars; None for no limit.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        """What answers cost, by their usage."""
        self.doubtful_usd = 0.0
        """What requests without an answer may have cost at most; counts as spent."""
        self.reserved_usd = 0.0
        """Set aside for requests in flight."""

    @property
    def committed_usd(self) -> float:
        """All that is or may be gone."""
        return self.spent_usd + self.doubtful_usd + self.reserved_usd

    def reserve(self, most: float) -> bool:
        """Set aside what a request may cost; False where it does not fit now."""
        if self.limit_usd is not None and self.committed_usd + most > self.limit_usd * (1 + 1e-12):
            return False
        self.reserved_usd += most
        return True

    def hopeless(self, most: float) -> bool:
        """Whether a request can't fit even when all in flight turn out to cost nothing."""
        return self.limit_usd is not None and self.spent_usd + self.doubtful_usd + most > self.limit_usd * (1 + 1e-12)

    def refusal(self, most: float) -> str:
        """Say why a request that may cost ``most`` US dollars can't be sent."""
        limit = self.limit_usd or 0.0
        left = limit - self.spent_usd - self.doubtful_usd
        return (
            f"the next request may cost up to {most:.4f} USD, and {max(0.0, left):.4f} USD are left of the budget of "
            f"{limit:g} USD ({self.spent_usd:.4f} spent, {self.doubtful_usd:.4f} possibly billed); raise "
            f"--budget-usd, or ask fewer sentences per request"
        )

    def settle(self, most: float, actual: float | None) -> None:
        """An answer came and cost ``actual``."""
        self.reserved_usd -= most
        self.spent_usd += actual or 0.0

    def release(self, most: float, *, maybe_billed: bool) -> None:
        """No answer came; what may have been billed is not given back."""
        self.reserved_usd -= most
        if maybe_billed:
            self.doubtful_usd += most
