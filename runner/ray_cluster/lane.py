"""One model's lane over all workers: hands chunks out, takes in what comes, gives a dead worker's share to others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hatevolution.errors import FailureKind, RequestFailure
from hatevolution.runner.ray_cluster.messages import (
    Ask,
    Chunk,
    Cool,
    Ended,
    Event,
    Failed,
    Finish,
    GivenUp,
    Returned,
    Seen,
    Spent,
    Start,
    Stop,
    Unasked,
)
from hatevolution.runner.ray_cluster.showing import Board
from hatevolution.runner.ray_cluster.station import Out, Station
from hatevolution.store.rows import AnswerRecord, FailureRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.configs.schema import ModelConfig
    from hatevolution.runner.events import LaneState, Listeners
    from hatevolution.runner.ray_cluster.dealing import Dealer
    from hatevolution.runner.ray_cluster.gate import Gate
    from hatevolution.runner.ray_cluster.hand import Hand
    from hatevolution.runner.ray_cluster.messages import Key
    from hatevolution.store.writer import GroupCommitWriter

__all__ = ["ClusterLane"]


class ClusterLane:
    """Has one model asked by workers.

    Args:
        config: The model.
        dealer: Its pending sentences.
        window: Sentences that a worker can have in flight.
        writer: The store's, the only one.
        make_gate: Makes the keeper of limits and money, given what to call when it has to refuse.
        state: What displays read.
        listeners: Are told what happens.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        dealer: Dealer,
        window: int,
        writer: GroupCommitWriter,
        make_gate: Callable[[Callable[[RequestFailure], None]], Gate],
        state: LaneState,
        listeners: Listeners,
    ) -> None:
        self._config = config
        self._dealer = dealer
        self._most_out = window + 2 * dealer.chunk
        self._writer = writer
        self._gate = make_gate(self.stop)
        self._tell = listeners
        self._board = Board(state, listeners)
        self.state = state
        self.stopped: RequestFailure | None = None
        """What ended the lane before its work was done; None where nothing did."""
        self._stopping = False
        self._stations: dict[Hand, Station] = {}
        self._running = False
        self._changed = asyncio.Event()
        self._why_no_worker = "waiting for a worker of the cluster"
        self._met = False
        """Whether a worker was ever there."""
        self._alone_since: float | None = None
        self._hearers: dict[type, Callable[[Station, Any], None]] = {
            AnswerRecord: self._answered,
            FailureRecord: self._failed,
            Ask: self._asked,
            Spent: self._gate.spent,
            Failed: self._gate.failed,
            Returned: self._gate.returned,
            GivenUp: self._given_up,
            Unasked: self._unasked,
            Cool: self._cool,
            Event: lambda _station, event: self._tell(event.name, **event.fields),
            Seen: self._see,
            Ended: self._ended,
        }

    # -- workers come and go -----------------------------------------------------------------------------------------

    def attach(self, hand: Hand) -> None:
        """A worker can be asked to ask."""
        if not self._running or self._stopping or hand in self._stations:
            return
        self._stations[hand] = Station(hand)
        self._met = True
        hand.tell(Start(self._config.name))
        self._changed.set()

    def detach(self, hand: Hand, why: str) -> None:
        """A worker died; its share goes elsewhere."""
        station = self._stations.pop(hand, None)
        if station is None:
            return
        if not station.ended:
            self._tell("worker_lost", model=self._config.name, sentences=len(station.out), why=why)
        self._gate.lost(station)
        self._dealer.survived(station, why)
        self._board.show(self._stations.values(), stopping=self._stopping)
        self._changed.set()

    def hopeless(self, why: str) -> None:
        """No worker will ever come."""
        self.stop(RequestFailure(FailureKind.UNREACHABLE, why))

    # -- stopping ----------------------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._stopping

    def stop(self, reason: RequestFailure | None = None) -> None:
        """Send nothing more, for this reason if there is one; what is in flight may still come home."""
        if self._stopping:
            return
        self._stopping = True
        if reason is not None:
            self.stopped = reason
            self._tell("lane_stopped", model=self._config.name, kind=reason.kind.value, message=str(reason))
        self._gate.stop()
        for hand in self._stations:
            hand.tell(Stop(self._config.name))
        self._changed.set()

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, workers: Callable[[], list[Hand]]) -> None:
        """Have everything asked, by the workers that are there and those that come; return when they have ended."""
        loop, state = asyncio.get_running_loop(), self.state
        self._running = True
        state.phase, state.why, state.started_at = "starting", self._why_no_worker, loop.time()
        try:
            for hand in workers():
                self.attach(hand)
            while not self._over():
                self._changed.clear()
                await self._hand_out()
                if self._over():
                    break
                self._wait_for_workers(loop)
                await self._next_change()
            await self._homecoming()
        finally:
            self._running = False
            await self._gate.close()
            self._let_go()
            await self._dealer.close()
            state.ended_at, state.in_flight, state.paused_until = loop.time(), 0, None
            if self.stopped is not None:
                state.phase, state.why = "stopped", str(self.stopped)
            else:
                state.phase, state.why = ("stopped", "interrupted") if self._stopping else ("done", "")

    def _over(self) -> bool:
        if self._stopping:
            return True
        return self._dealer.empty and not any(station.out for station in self._stations.values())

    async def _next_change(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._changed.wait()
        except TimeoutError:
            pass  # to look at the clock

    def _wait_for_workers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up where no worker came for as long as a dead server would be waited for."""
        patience = self._config.endpoint.give_up_after_s
        if not self._met or any(not station.ended for station in self._stations.values()):
            self._alone_since = None  # a first worker may have to wait for its turn at a GPU for days
        elif self._alone_since is None:
            self._alone_since = loop.time()
            self.state.phase, self.state.why = "paused", self._why_no_worker
        elif loop.time() - self._alone_since > patience:
            self.hopeless(f"no worker of the cluster came back within {patience:g} s")

    async def _hand_out(self) -> None:
        """Send chunks to those who have the least, until all have enough or there are no more."""
        while not self._stopping:
            if self._writer.full:
                await self._room()
                continue
            free = [station for station in self._stations.values() if self._has_room(station)]
            if not free:
                return
            outs = await self._dealer.deal()
            if not outs:
                return
            # Reading may have taken a while: whoever was free may be gone.
            there = [station for station in free if self._stations.get(station.worker) is station and not station.ended]
            if not there or self._stopping:
                self._dealer.back(outs)
                continue
            station = min(there, key=lambda one: len(one.out))
            station.out.update(((out.item.dataset, out.item.sentence), out) for out in outs)
            station.worker.tell(Chunk(self._config.name, [out.item for out in outs]))

    def _has_room(self, station: Station) -> bool:
        return not station.ended and len(station.out) + self._dealer.chunk <= self._most_out

    async def _room(self) -> None:
        writer = self._writer
        if writer.trouble is not None:
            self._board.pause(f"the store can't be written to: {writer.trouble}")
        await writer.room()
        if writer.disk_full:
            self.stop(RequestFailure(FailureKind.PERMANENT, "the disk of the store is full"))

    async def _homecoming(self) -> None:
        """Tell the workers that this was all, and wait for what they still have to say."""
        for hand in self._stations:
            hand.tell(Finish(self._config.name))
        while any(not station.ended for station in self._stations.values()):
            self._changed.clear()
            await self._changed.wait()

    def _let_go(self) -> None:
        """What workers were asking when they were cut off keeps its intent."""
        for station in self._stations.values():
            if not station.ended:
                self._gate.lost(station)
        self._stations.clear()

    # -- what workers say --------------------------------------------------------------------------------------------

    def hear(self, hand: Hand, message: Any) -> None:
        """Take what a worker said."""
        station = self._stations.get(hand)
        if station is not None:
            self._hearers[type(message)](station, message)
            self._changed.set()

    def _failed(self, _station: Station, record: FailureRecord) -> None:
        self.state.failures += 1
        self._writer.put(record)

    def _given_up(self, station: Station, message: GivenUp) -> None:
        for out in self._back(station, message.keys):
            self._dealer.give_up(out, message.why)

    def _unasked(self, station: Station, message: Unasked) -> None:
        self._dealer.back(self._back(station, message.keys))

    def _see(self, station: Station, message: Seen) -> None:
        station.seen = message
        self._board.show(self._stations.values(), stopping=self._stopping)

    def _answered(self, station: Station, record: AnswerRecord) -> None:
        """Store an answer. One that comes twice (from a worker that was taken for dead) is kept apart by the store."""
        self._writer.put(record)
        outs = self._back(station, [(item.dataset, item.sentence) for item in record.items])
        for out in outs:
            self._dealer.settle(out)
        self.state.done += len(outs)
        if record.cost_usd is not None:
            self.state.spent_usd += record.cost_usd

    @staticmethod
    def _back(station: Station, keys: list[Key]) -> list[Out]:
        return [station.out.pop(key) for key in keys if key in station.out]

    def _asked(self, station: Station, ask: Ask) -> None:
        if not self._stopping:
            self._gate.ask(station, ask)

    def _cool(self, station: Station, pause: Cool) -> None:
        """Have everybody keep a pause that one of them met."""
        now = asyncio.get_running_loop().time()
        self._gate.cooldown.begin(now, pause.seconds, pause.reason, float("-inf"))
        for hand, other in self._stations.items():
            if other is not station and not other.ended:
                hand.tell(pause)

    def _ended(self, station: Station, message: Ended) -> None:
        """A worker's lane has ended: with all its work, or before it."""
        station.ended = True
        self._dealer.back(station.out.values())
        station.out.clear()
        if message.crash is not None:
            self._tell("lane_crashed", model=self._config.name, why=message.crash)
            self.hopeless("internal error, please report it")
        elif message.kind is not None:
            failure = RequestFailure(FailureKind(message.kind), message.message)
            # A server that can't be reached from there, or died there, may do for others.
            if failure.kind is not FailureKind.UNREACHABLE or all(one.ended for one in self._stations.values()):
                self.stop(failure)
