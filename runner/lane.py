"""One model being asked: a fixed number of workers over its pending sentences."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.errors import FailureKind, RequestFailure
from hatevolution.runner.admission import LaneStopped
from hatevolution.runner.budget import cost_of
from hatevolution.runner.outcome import rejected_or_refused
from hatevolution.runner.retry import FATAL, OF_THE_SENTENCE, Attempts, retrying
from hatevolution.store.rows import AnswerRecord, FailureRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.adapters.base import Adapter
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, Reply
    from hatevolution.runner.admission import Admission, Ticket
    from hatevolution.runner.events import LaneState, Listeners
    from hatevolution.runner.ports import Sentences, Sink

__all__ = ["Asked", "ModelLane"]


class Asked(NamedTuple):
    """A reply and how it came."""

    reply: Reply
    base_url: str
    latency_s: float
    cost_usd: float | None


class ModelLane:
    """Asks one model about everything its source gives, and records what comes."""

    def __init__(
        self,
        config: ModelConfig,
        adapter: Adapter,
        *,
        source: Sentences,
        writer: Sink,
        admission: Admission,
        state: LaneState,
        listeners: Listeners,
        now: Callable[[], str],
        redact: Callable[[str], str],
    ) -> None:
        self._redact = redact
        self._config = config
        self._adapter = adapter
        self._source = source
        self._writer = writer
        self._admission = admission
        self._tell = listeners
        self._now = now
        self._per_request_intents = config.price is not None
        self.state = state
        """What displays read."""
        self.stopped: RequestFailure | None = None
        """What ended the lane before its work was done; None where nothing did."""

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._admission.stopping

    def stop(self, reason: RequestFailure | None = None) -> None:
        """Send nothing more, for this reason if there is one; what is in flight may still come home."""
        self._admission.stop(reason)

    async def run(self) -> None:
        """Ask until there is nothing left, the lane is stopped, or the run is."""
        loop = asyncio.get_running_loop()
        state = self.state
        state.phase, state.started_at = "running", loop.time()
        workers = min(self._config.endpoint.max_concurrency, max(1, state.total))
        watch = loop.create_task(self._admission.pool.watch())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._worker())
        finally:
            watch.cancel()
            await self._admission.pool.close()
            await self._source.close()
            state.ended_at = loop.time()
            state.in_flight = 0
            if self._admission.stop_reason is not None:
                self.stopped = self._admission.stop_reason
                state.phase, state.why = "stopped", str(self.stopped)
            elif self._admission.stopping:
                state.phase, state.why = "stopped", "interrupted"
            else:
                state.phase, state.why = "done", ""

    async def _worker(self) -> None:
        source, admission, writer = self._source, self._admission, self._writer
        while not admission.stopping:
            taken = source.take() or await source.next()
            if taken is None:
                return
            items, page = taken
            try:
                await self._settle(items)
            except LaneStopped:
                source.settled(page, len(items))
                return
            # Not in a `finally`: who is cancelled while asking may have been billed, and its intent says so.
            source.settled(page, len(items))
            if writer.full:
                await admission.pause_for_store()

    async def _settle(self, items: list[Item], sent: int = 0) -> None:
        """Ask about some sentences until each is recorded or given up; ``sent`` requests have held them already."""
        attempts = Attempts(self._config.endpoint.max_attempts, sent)
        try:
            asked = await self._persist(items, attempts)
        except RequestFailure as failure:
            await self._give_up(items, failure, attempts)
            return
        self._record(items, asked, attempts.sent)

    async def _persist(self, items: list[Item], attempts: Attempts) -> Asked:
        try:
            return await self._attempt(items, attempts)
        except RequestFailure as failure:
            # tenacity costs a request more than sending it does; so only a failed one pays for it.
            first: RequestFailure | None = failure
            if not attempts.worth_another(failure):
                raise

        async def again() -> Asked:
            nonlocal first
            if first is not None:
                known, first = first, None
                raise known
            return await self._attempt(items, attempts)

        return await retrying(attempts, sleep=self._admission.sleep)(again)

    async def _attempt(self, items: list[Item], attempts: Attempts) -> Asked:
        """Send one request; a failure is recorded and taken note of before it is raised."""
        admission = self._admission
        ticket = admission.try_admit(items) or await admission.admit(items)
        endpoint = ticket.endpoint
        intent = None
        if self._per_request_intents:
            intent = self._writer.intend(
                self._config.name, items[0].dataset, [item.sentence for item in items], self._now()
            )
            await self._writer.committed()
        attempts.sent += 1
        sent = time.perf_counter()
        try:
            reply = await self._send(items, ticket)
        except RequestFailure as failure:
            self._record_failure(items, failure, attempts.sent, endpoint.url, time.perf_counter() - sent)
            if intent is not None:
                self._writer.settle(intent)
            attempts.note(failure, dead=await admission.failed(ticket, failure))
            raise
        latency_s = time.perf_counter() - sent
        cost = cost_of(self._config.price, reply, ticket.most_usd)
        admission.answered(ticket, reply, cost)
        if intent is not None:
            self._writer.settle(intent)
        return Asked(reply, endpoint.url, latency_s, cost)

    async def _send(self, items: list[Item], ticket: Ticket) -> Reply:
        """Ask the adapter; whatever goes wrong on the way becomes a :class:`RequestFailure`."""
        endpoint, task = ticket.endpoint, asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in a task
        endpoint.asking.add(task)
        try:
            return await self._adapter.ask(items, endpoint.url)
        except RequestFailure:
            raise
        except asyncio.CancelledError:
            if task not in endpoint.abandoned:
                self._admission.abandon(ticket)
                raise
            raise RequestFailure(
                FailureKind.TRANSIENT, f"{endpoint.url} died before it answered", maybe_billed=True
            ) from None
        except Exception as error:
            # A fault of ours must not end the night's other lanes.
            text = self._redact(f"internal error: {type(error).__name__}: {error}")
            raise RequestFailure(FailureKind.PERMANENT, text) from error
        finally:
            endpoint.asking.discard(task)
            if task in endpoint.abandoned:
                endpoint.abandoned.discard(task)
                task.uncancel()

    # -- recording ---------------------------------------------------------------------------------------------

    def _record(self, items: list[Item], asked: Asked, attempts: int) -> None:
        reply, base_url, latency_s, cost = asked
        self._writer.put(
            AnswerRecord(self._config.name, items, reply, attempts, base_url, self._now(), latency_s, cost)
        )
        state = self.state
        state.done += len(items)
        if cost is not None:
            state.spent_usd += cost

    def _record_failure(
        self, items: list[Item], failure: RequestFailure, attempt: int, base_url: str, latency_s: float
    ) -> None:
        self.state.failures += 1
        self._writer.put(
            FailureRecord(
                self._config.name,
                items,
                attempt,
                failure.kind.value,
                str(failure),
                failure.http_status,
                failure.code,
                failure.body,
                failure.request_id,
                base_url,
                self._now(),
                latency_s,
                failure.maybe_billed,
            )
        )
        self._tell(
            "failure",
            model=self._config.name,
            kind=failure.kind.value,
            http_status=failure.http_status,
            code=failure.code,
            message=str(failure),
            attempt=attempt,
            sentences=len(items),
            base_url=base_url,
        )

    async def _give_up(self, items: list[Item], failure: RequestFailure, attempts: Attempts) -> None:
        if failure.kind in OF_THE_SENTENCE and len(items) > 1:
            # One of them is at fault: look for it, and keep the others.
            middle = len(items) // 2
            await self._settle(items[:middle], attempts.sent)
            await self._settle(items[middle:], attempts.sent)
            return
        answer = rejected_or_refused(failure)
        if answer is not None:
            reply, base_url = answer, self._admission.pool.endpoints[0].url
            self._record(items, Asked(reply, base_url, 0.0, None), attempts.sent)
            return
        self._leave(items, f"{failure.kind.value}: {failure}")
        if failure.kind in FATAL:
            self._admission.stop(failure)

    def _leave(self, items: list[Item], why: str) -> None:
        """These stay pending in this run."""
        self.state.give_up(len(items), why)
