"""What the runner expects of an adapter: sentences in, one :class:`~hatevolution.domain.Reply` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.domain import Item, Reply, Served, TokenEstimate

__all__ = ["Adapter"]


class Adapter(Protocol):
    """One model behind one kind of endpoint.

    An adapter sends exactly one request per :meth:`ask` and never repeats one: retries, rate limits and breakers are
    the runner's. It parses nothing into a label. It is used from one event loop, with any number of calls in flight.
    """

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Where it can be asked; one opaque name (such as ``"in-process"``) for adapters without a network."""

    @property
    def batch_size(self) -> int:
        """Most sentences that one request may carry, at least 1."""

    async def open(self) -> None:
        """Make ready (sessions, models in memory). Called once, before anything else."""

    async def close(self) -> None:
        """Let go of everything. Safe to call twice, and without :meth:`open`."""

    async def probe(self, base_url: str) -> Served:
        """Ask the endpoint what it serves, at no cost and without a sentence.

        Raises:
            RequestFailure: The endpoint is unreachable, unhealthy, refuses the key, or has not got the model.
        """

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Send one request for these sentences (at most :attr:`batch_size`) and return what came.

        Raises:
            RequestFailure: No answer came. Where the fault lies in one of several sentences (too long, filtered,
                rejected as bad), the kind says so and the runner halves the list to find it.
        """

    def estimate(self, item: Item) -> TokenEstimate:
        """Return how many tokens this sentence may use, prompt included; zeros where tokens mean nothing."""
