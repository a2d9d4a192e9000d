"""Puts a lane together from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hatevolution.runner.admission import Admission
from hatevolution.runner.events import LaneState
from hatevolution.runner.lane import ModelLane
from hatevolution.runner.limits import AdaptiveConcurrency, Cooldown, Throttle
from hatevolution.runner.pool import Endpoint, Pool
from hatevolution.runner.provenance import utc_now
from hatevolution.runner.serving import resources
from hatevolution.runner.source import Source
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from hatevolution.adapters.base import Adapter
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.budget import Budget
    from hatevolution.runner.events import Listeners
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["Job", "Kit", "build_lane", "build_pool", "build_source", "group_lanes", "may_refuse"]

_SHARED_SERVERS = frozenset({"vllm-completions", "vllm-chat", "vllm-classify", "seq2seq"})
"""Adapters of servers that hold one model at a time: models at the same addresses are asked one after the other."""

_ACCOUNTS = frozenset({"openai-chat", "openai-moderation", "perspective"})
"""Adapters of providers where one has an account."""

_PAGE = (512, 8_192)
"""Fewest and most sentences that a lane reads ahead."""


class Job(NamedTuple):
    """One model and what it still has to be asked."""

    config: ModelConfig
    adapter: Adapter
    pending: dict[str, int]
    """Sentences by data set; only sets that have any."""
    prompt: Prompt | None = None
    """What the adapter was made with, to make it once more on another machine."""


class Kit(NamedTuple):
    """What the lanes of a run are made with."""

    store: Path
    writer: GroupCommitWriter
    executor: Executor
    budget: Budget
    limit: int | None
    """Only the first so many sentences of each set."""
    listeners: Listeners
    redact: Callable[[str], str]
    """Takes secrets out of texts."""
    connections: int
    """Most connections that a lane may have at once (:func:`hatevolution.runner.descriptors.connections`)."""


def build_pool(config: ModelConfig, adapter: Adapter, listeners: Listeners) -> Pool:
    """Return the servers of a model, whose comings and goings are told."""

    def changed(server: Endpoint) -> None:
        listeners(
            "server_up" if server.up else "server_down", model=config.name, base_url=server.url, why=server.reason
        )

    return Pool(
        adapter,
        give_up_after_s=config.endpoint.give_up_after_s,
        on_change=changed,
        # vLLM answers 500 to all in flight when its engine dies, and asking after its health costs nothing.
        strikes=1 if config.adapter in _SHARED_SERVERS else 3,
    )


def build_lane(job: Job, kit: Kit) -> ModelLane:
    """Return the lane of a job, ready to run."""
    config, adapter, endpoint = job.config, job.adapter, job.config.endpoint
    state = LaneState(config.name, config.label, sum(job.pending.values()), datasets=list(job.pending))
    most = min(endpoint.max_concurrency, kit.connections)
    if most < min(endpoint.max_concurrency, state.total):
        text = (
            f"{config.name} is asked at most {most} requests at once: this process may open no more files (ulimit -n)."
        )
        kit.listeners("note", text=text)
    admission = Admission(
        config,
        adapter,
        pool=build_pool(config, adapter, kit.listeners),
        throttle=Throttle(endpoint.requests_per_minute, endpoint.tokens_per_minute),
        concurrency=AdaptiveConcurrency(most, canary=may_refuse(config)),
        cooldown=Cooldown(),
        budget=kit.budget,
        writer=kit.writer,
        state=state,
        listeners=kit.listeners,
    )
    in_flight = most * adapter.batch_size
    return ModelLane(
        config,
        adapter,
        source=build_source(job, kit, ahead=2 * in_flight, batch_size=adapter.batch_size),
        writer=kit.writer,
        admission=admission,
        state=state,
        listeners=kit.listeners,
        now=utc_now,
        redact=kit.redact,
    )


def build_source(job: Job, kit: Kit, *, ahead: int, batch_size: int) -> Source:
    """Return the pending sentences of a job.

    Args:
        job: The job.
        kit: What the run's lanes are made with.
        ahead: Sentences that are to be read ahead; some thousands at the most.
        batch_size: Sentences that are taken at a time.
    """
    return Source(
        connect(kit.store),
        job.config.name,
        list(job.pending),
        limit=kit.limit,
        page_size=min(_PAGE[1], max(_PAGE[0], ahead)),
        batch_size=batch_size,
        executor=kit.executor,
        # What costs money is written down request by request; what is free, page by page.
        writer=kit.writer if job.config.price is None else None,
        now=utc_now,
    )


def may_refuse(config: ModelConfig) -> bool:
    """Whether a key or an account may be turned down, which one request is enough to find out."""
    return config.adapter in _ACCOUNTS or config.endpoint.api_key_env is not None or config.price is not None


Lane = TypeVar("Lane")


def group_lanes(jobs: list[Job], lanes: list[Lane]) -> list[list[Lane]]:
    """Return the lanes in groups: groups run side by side, the lanes of one group one after the other.

    Models are in one group where they need the same address, or the same GPU for a server that is started here.
    """
    groups: list[tuple[set[object], list[tuple[int, Lane]]]] = []
    for number, (job, lane) in enumerate(zip(jobs, lanes, strict=True)):
        shared = job.config.adapter in _SHARED_SERVERS
        needed = set(resources(job.config, job.adapter.base_urls) if shared else [job.config.name])
        members = [(number, lane)]
        apart = []
        for other_needed, others in groups:
            if needed.isdisjoint(other_needed):
                apart.append((other_needed, others))
            else:
                needed |= other_needed
                members += others
        groups = [*apart, (needed, members)]
    return [[lane for _, lane in sorted(members, key=lambda member: member[0])] for _, members in groups]
