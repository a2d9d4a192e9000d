"""Everything a run needs, made for tests: configurations, stores with sentences, a puppet for an adapter, lanes.

:func:`run_lanes` puts lanes together as :mod:`hatevolution.runner.run` does and runs them on whatever event loop is
running (:mod:`virtual_loop` for virtual time).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hatevolution.configs.fingerprint import specification
from hatevolution.configs.schema import ModelConfig
from hatevolution.domain import Answer, Item, Label, Reply, Sentence, Served, Status, TokenEstimate
from hatevolution.errors import FailureKind, RequestFailure
from hatevolution.runner.assembly import Job, Kit, build_lane, group_lanes
from hatevolution.runner.budget import Budget
from hatevolution.runner.events import Listeners
from hatevolution.store.opened import DatasetRecord, ModelRecord, RunRecord, WritableStore
from hatevolution.store.writer import GroupCommitWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from hatevolution.runner.events import LaneState
    from hatevolution.runner.lane import ModelLane

RUN = "20260101T000000Z-00000000"
_runs = itertools.count()


def model(name: str = "m", **fields: Any) -> ModelConfig:
    """A model's configuration, from the keys of its TOML."""
    return msgspec.convert({"name": name, "adapter": "scripted", "model": "fake/model", **fields}, ModelConfig)


def sentences(
    count: int, *, prefix: str = "s", text: Callable[[int], str] = "sentence number {}".format
) -> list[Sentence]:
    """Made-up sentences with stable ids."""
    return [Sentence(id=f"{prefix}{n}", text=text(n), gold=list(Label)[n % 2]) for n in range(count)]


def dataset_record(name: str = "set", **fields: Any) -> DatasetRecord:
    given = {"title": name, "source": None, "licence": None, "files": [{"name": name}], "loader": {}, **fields}
    return DatasetRecord(name=name, **given)


def model_record(config: ModelConfig) -> ModelRecord:
    return ModelRecord(config.name, config.label, specification(config, None), msgspec.to_builtins(config))


def run_record(run: str = RUN, models: Iterable[str] = (), datasets: Iterable[str] = ()) -> RunRecord:
    configuration = {"models": [{"name": name} for name in models], "datasets": [{"name": name} for name in datasets]}
    return RunRecord(run, "2026-01-01T00:00:00.000Z", "tester@here pid 1", ["hatevolution"], configuration, {}, None)


def fill(
    store: WritableStore,
    models: Iterable[ModelConfig],
    datasets: dict[str, Iterable[Sentence]],
    *,
    run: str = RUN,
) -> None:
    """Register a run, models and data sets in a store that is open."""
    models = list(models)
    with store.transaction():
        store.add_run(run_record(run, (config.name for config in models), datasets))
        for config in models:
            store.put_model(model_record(config))
        for name, rows in datasets.items():
            store.put_dataset(dataset_record(name), rows)


def answer(text: str | None = "toxic", **fields: Any) -> Answer:
    return Answer(Status.ANSWERED, text, **fields)


def reply(items: Sequence[Item], text: str = "toxic", **fields: Any) -> Reply:
    """A success for these items."""
    body = json.dumps({"texts": [text] * len(items)})
    return Reply([answer(text, prompt_sha256="0" * 64) for _ in items], body, **{"http_status": 200, **fields})


def failure(
    kind: FailureKind | str, status: int | None = None, *, after: float | None = None, **more: Any
) -> RequestFailure:
    """What an adapter raises."""
    kind = FailureKind(kind)
    return RequestFailure(kind, f"made-up {kind.value}", http_status=status, retry_after_s=after, **more)


class Sent(NamedTuple):
    """One request that a puppet saw."""

    at: float
    url: str
    sentences: tuple[str, ...]


class Puppet:
    """An adapter whose answers a test decides.

    Args:
        answers: Called with the request's number (from 1), its items and its URL; returns the reply or raises.
        latency_s: How long each answer takes, in seconds.
        probes: Called with the URL at each probe; raises what the probe is to raise.
        tokens: The estimate of each item.
    """

    def __init__(
        self,
        answers: Callable[[int, Sequence[Item], str], Reply | Awaitable[Reply]] | None = None,
        *,
        latency_s: float = 0.0,
        base_urls: tuple[str, ...] = ("http://one/v1",),
        batch_size: int = 1,
        probes: Callable[[str], None] | None = None,
        tokens: Callable[[Item], TokenEstimate] = lambda _item: TokenEstimate(10, 20, 5),
    ) -> None:
        self.base_urls = base_urls
        self.batch_size = batch_size
        self._answers = answers or (lambda _number, items, _url: reply(items))
        self._latency_s = latency_s
        self._probes = probes
        self._tokens = tokens
        self.sent: list[Sent] = []
        self.probed: list[tuple[float, str]] = []
        self.in_flight = 0
        self.peak = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def probe(self, base_url: str) -> Served:
        self.probed.append((asyncio.get_running_loop().time(), base_url))
        if self._probes is not None:
            self._probes(base_url)
        return Served(("fake/model",), None)

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        loop = asyncio.get_running_loop()
        self.sent.append(Sent(loop.time(), base_url, tuple(item.sentence for item in items)))
        number = len(self.sent)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            if self._latency_s:
                await asyncio.sleep(self._latency_s)
            result = self._answers(number, items, base_url)
            return result if isinstance(result, Reply) else await result
        finally:
            self.in_flight -= 1

    def estimate(self, item: Item) -> TokenEstimate:
        return self._tokens(item)

    # -- what tests ask ----------------------------------------------------------------------------------------------

    @property
    def times(self) -> list[float]:
        return [request.at for request in self.sent]

    def times_asked(self) -> Counter[str]:
        """How often each sentence was sent."""
        return Counter(sentence for request in self.sent for sentence in request.sentences)


@dataclass
class Outcome:
    """How lanes ended."""

    states: list[LaneState]
    lanes: list[ModelLane]
    budget: Budget
    events: list[tuple[str, dict[str, Any]]]
    seconds: float
    """Event loop time."""
    commits: int
    path: Path
    crashes: list[Exception] = field(default_factory=list)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path) as connection:
            found = connection.execute(sql, values).fetchall()
        connection.close()
        return found

    def count(self, table: str, where: str = "1") -> int:
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

    def kinds(self) -> dict[str, int]:
        """How many recorded failures of each kind."""
        return dict(self.rows("SELECT kind, count(*) FROM failures GROUP BY kind"))

    def told(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


async def run_lanes(
    path: Path,
    models: Sequence[tuple[ModelConfig, Puppet, int]],
    *,
    budget_usd: float | None = None,
    limit: int | None = None,
    meanwhile: Callable[[list[ModelLane]], Awaitable[None]] | None = None,
    delay_s: float = 0.05,
) -> Outcome:
    """Ask each model about so many sentences of a set of its own, side by side; return when all lanes are done.

    Args:
        path: The store; made if it is not there.
        models: Configuration, adapter and number of sentences of each lane.
        budget_usd: Of the whole run.
        limit: Only the first so many sentences of each set.
        meanwhile: Runs beside the lanes; cancelled when they are done.
        delay_s: Of the group commit.
    """
    events: list[tuple[str, dict[str, Any]]] = []
    run = f"{RUN}-{next(_runs)}"
    listeners = Listeners([lambda event, **fields: events.append((event, fields))])
    budget = Budget(budget_usd)
    with WritableStore(path, run) as store, ThreadPoolExecutor(4) as executor:
        jobs = registered(store, models, run)
        writer = GroupCommitWriter(store.connection, run, delay_s=delay_s)
        kit = Kit(path, writer, executor, budget, limit, listeners, str, 1_000)
        lanes = [build_lane(job, kit) for job in jobs]
        turns = [[lane.run for lane in group] for group in group_lanes(jobs, lanes)]
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            crashes = await run_turns(turns, None if meanwhile is None else meanwhile(lanes))
            seconds = loop.time() - begun
        finally:
            await writer.close()
        states = [lane.state for lane in lanes]
        return Outcome(states, lanes, budget, events, seconds, writer.commits, path, crashes)


def registered(store: WritableStore, models: Sequence[tuple[ModelConfig, Puppet, int]], run: str) -> list[Job]:
    """Put models into a store, each with so many sentences of a set of its own; return what is to be asked."""
    sets: dict[str, Iterable[Sentence]] = {f"set-{config.name}": sentences(count) for config, _, count in models}
    fill(store, [config for config, _, _ in models], sets, run=run)
    store.connection.execute("PRAGMA synchronous = OFF")  # virtual hours are full of commits
    return [Job(config, puppet, {f"set-{config.name}": count}) for config, puppet, count in models]


async def run_turns(
    groups: Iterable[Iterable[Callable[[], Awaitable[None]]]], meanwhile: Awaitable[None] | None = None
) -> list[Exception]:
    """Run groups side by side, the turns of one after the other; return what turns raised.

    Args:
        groups: The turns.
        meanwhile: Runs beside them; cancelled when they are done.
    """
    crashes: list[Exception] = []

    async def in_turn(turns: Iterable[Callable[[], Awaitable[None]]]) -> None:
        for turn in turns:
            try:
                await turn()
            except Exception as error:
                crashes.append(error)

    beside = None if meanwhile is None else asyncio.ensure_future(meanwhile)
    try:
        await asyncio.gather(*(in_turn(turns) for turns in groups))
    finally:
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
    return crashes
