"""What driver and workers tell each other: plain tuples, which Ray pickles, so that any text stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item

__all__ = [
    "Ask",
    "Chunk",
    "Cool",
    "Ended",
    "Event",
    "Failed",
    "Finish",
    "FromWorker",
    "GivenUp",
    "Grant",
    "Key",
    "Order",
    "Report",
    "Returned",
    "Seen",
    "Spent",
    "Start",
    "Stop",
    "ToWorker",
    "Unasked",
]

Key = tuple[str, str]
"""Data set and sentence."""


# -- the driver's ----------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """What a worker is there for; the argument of its first call."""

    models: list[tuple[ModelConfig, Prompt | None, int]]
    """Configuration, prompt, sentences pending."""
    keys: dict[str, str]
    """API keys by the names of their environment variables. Never part of an actor's creation, which Ray keeps."""
    gated: frozenset[str]
    """Models whose every request needs a :class:`Grant`."""
    logs: str
    """Folder for the logs of servers, if the worker's machine has its parent."""


class Start(NamedTuple):
    """Open a lane."""

    model: str


class Chunk(NamedTuple):
    """Ask these; all of one data set."""

    model: str
    items: Sequence[Item]


class Grant(NamedTuple):
    """The request of this number may be sent: its limits, money and intent are taken care of."""

    model: str
    number: int


class Cool(NamedTuple):
    """The endpoint wants a pause. Goes both ways: whoever is told passes it on to all others."""

    model: str
    seconds: float
    reason: str
    storm: bool
    """Whether the concurrency is cut."""


class Finish(NamedTuple):
    """No more chunks will come."""

    model: str


class Stop(NamedTuple):
    """Send nothing more; what is in flight comes home."""

    model: str


ToWorker = Start | Chunk | Grant | Cool | Finish | Stop


# -- a worker's ------------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """Answer to an :class:`Order`."""

    node: str
    version: str
    """Of this program."""
    problems: dict[str, str]
    """Model -> why it can't be asked from there."""


class Ask(NamedTuple):
    """May this be sent?"""

    model: str
    number: int
    keys: list[Key]
    tokens: int
    most_usd: float


class Spent(NamedTuple):
    """A granted request was answered."""

    model: str
    number: int
    tokens: int | None
    cost_usd: float | None


class Failed(NamedTuple):
    """A granted request failed."""

    model: str
    number: int
    maybe_billed: bool


class Returned(NamedTuple):
    """A grant was not used."""

    model: str
    number: int


class GivenUp(NamedTuple):
    """These stay pending in this run."""

    model: str
    keys: list[Key]
    why: str


class Unasked(NamedTuple):
    """The lane has stopped: those of these that were neither answered nor given up were not asked."""

    model: str
    keys: list[Key]


class Event(NamedTuple):
    """Something for the driver's listeners."""

    name: str
    fields: dict[str, Any]


class Seen(NamedTuple):
    """How a lane stands."""

    model: str
    in_flight: int
    limit: int
    phase: str
    why: str
    pause_s: float | None


class Ended(NamedTuple):
    """A lane has ended; with the failure that ended it, if one did."""

    model: str
    kind: str | None
    message: str
    crash: str | None = None
    """Traceback of an internal error."""


FromWorker = Ask | Spent | Failed | Returned | GivenUp | Unasked | Cool | Event | Seen | Ended
"""Beside these, records of answers and failures travel as the store's writer takes them."""
