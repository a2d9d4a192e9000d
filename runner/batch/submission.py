"""One start of ``batch submit``: files are filled, written down, and carried to where they are answered."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.adapters.batch.files import OPENAI_LIMITS, InputFile, Limits, new_name, split
from hatevolution.domain import Item
from hatevolution.errors import ConfigError, RequestFailure
from hatevolution.runner.batch.carry import Carrier, NotTaken, release
from hatevolution.runner.batch.pace import Pace
from hatevolution.runner.batch.requests import Purse, Requests
from hatevolution.runner.batch.words import declined, why_not
from hatevolution.runner.preflight import Problem
from hatevolution.runner.provenance import utc_now
from hatevolution.store.batches import BatchRow, add_batch, batch_lines, batches, note_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hatevolution.adapters.batch.base import BatchAdapter
    from hatevolution.runner.plan import PlannedModel
    from hatevolution.store.opened import WritableStore

__all__ = ["Offer", "Submission", "SubmitOptions"]


class SubmitOptions(NamedTuple):
    """What the command line adds to a plan."""

    limit: int | None = None
    """Only the first so many sentences of each set."""
    limits: Limits = OPENAI_LIMITS
    """The most that one input file holds."""
    budget_usd: float | None = None
    offline: Path | None = None
    """Folder for the input files of ``vllm run-batch``; None: they go to the provider."""
    named: bool = False
    """Whether the models were named one by one: one that can't go into a batch is then an error."""
    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = os.environ
    pace: Pace = Pace()
    tell: Callable[[str], None] = lambda text: None


class Offer(NamedTuple):
    """A model that can go into a batch, and what writes its requests."""

    model: PlannedModel
    adapter: BatchAdapter


class Submission:
    """Takes one model after the other.

    Args:
        store: Where every step is written down.
        run: The run whose answers will come.
        datasets: Which sets.
        options: How.
        problems: Takes what went wrong.
    """

    def __init__(
        self, store: WritableStore, run: str, datasets: Sequence[str], options: SubmitOptions, problems: list[Problem]
    ) -> None:
        self._store = store
        self._run = run
        self._datasets = datasets
        self._options = options
        self._problems = problems
        self.purse = Purse(options.budget_usd)
        """What the new requests may cost at most."""
        self.rows: list[BatchRow] = []
        """Batches that were submitted."""

    def model(self, offer: Offer) -> None:
        """Submit everything that is pending of a model, the unfinished business of earlier starts first."""
        config, options = offer.model.config, self._options
        with ExitStack() as stack:
            folder = Path(stack.enter_context(self._spool()))
            carrier = None if options.offline else stack.enter_context(self._carrier(offer))
            try:
                self._resume(offer, carrier, folder)
                self._new(offer, carrier, folder)
            except NotTaken as error:
                self._problems.append(Problem(config.name, why_not(error.failure)))
            except RequestFailure as failure:
                why = f"{why_not(failure)}; the same command again goes on from here"
                self._problems.append(Problem(config.name, why))

    def _spool(self) -> tempfile.TemporaryDirectory[str]:
        """Return a folder for files on their way; beside their place, so that they can be moved there at once."""
        out = self._options.offline
        if out is None:
            return tempfile.TemporaryDirectory(prefix="hatevolution-batch-")
        try:
            out.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(prefix=".hatevolution-", dir=out)
        except OSError as error:
            raise ConfigError(
                f"The folder {out} can't be written to: {error.strerror}; choose another --out."
            ) from None

    @contextmanager
    def _carrier(self, offer: Offer) -> Iterator[Carrier]:
        from hatevolution.adapters.batch.openai_batch import OpenAIBatches

        with OpenAIBatches(offer.model.config, self._options.environ, offer.adapter.base_urls[0]) as api:
            yield Carrier(self._store, api, self._options.pace)

    # -- unfinished business of earlier starts -----------------------------------------------------------------

    def _resume(self, offer: Offer, carrier: Carrier | None, folder: Path) -> None:
        """Go on with batches that did not get as far as the provider, or of which that is not known."""
        place = "offline" if carrier is None else "provider"
        for row in batches(self._store.connection, open_only=True):
            if row.model == offer.model.config.name and row.place == place and row.submitted_at is None:
                if carrier is not None and row.base_url != offer.adapter.base_urls[0]:
                    why = (
                        f"The batch {row.name} was begun at {row.base_url}; set endpoint.base_urls back to go on with "
                        f"it, or give it up with `hatevolution batch cancel {row.name} --forget`"
                    )
                    self._problems.append(Problem(row.model, why))
                    continue
                self._options.tell(f"{row.name}: going on with what an earlier start began")
                self._go_on(offer, carrier, row if carrier is None else carrier.find(row), folder)

    def _go_on(self, offer: Offer, carrier: Carrier | None, row: BatchRow, folder: Path) -> None:
        if row.provider_id is not None:
            self._done(row)
            return
        path = self._rebuilt(offer, row, folder) if row.file_id is None else None
        if row.file_id is None and path is None:
            why = "its input file would not be the same any more; its sentences are pending again"
            release(self._store, row, "given_up", why)
            self._problems.append(Problem(row.model, f"The batch {row.name} was given up: {why}."))
            return
        self._carry(carrier, row, path)

    def _rebuilt(self, offer: Offer, row: BatchRow, folder: Path) -> Path | None:
        """Write the input file of a batch again; None where it is not what was written down."""
        path = folder / row.file_name
        most = Limits(row.requests, row.input_bytes)
        with InputFile(path, row.name, row.endpoint, most) as file:
            fits = all(
                file.add(offer.adapter.write([Item(line.dataset, line.sentence, line.text)]))
                for line in batch_lines(self._store.connection, row.batch)
            )
        return path if fits and file.sha256 == row.input_sha256 else None

    # -- new ones ----------------------------------------------------------------------------------------------

    def _new(self, offer: Offer, carrier: Carrier | None, folder: Path) -> None:
        config, options = offer.model.config, self._options
        requests = Requests(self._store.connection, config, offer.adapter, self._datasets, options.limit, self.purse)
        too_large: list[Item] = []

        def begin() -> InputFile:
            name = new_name()
            return InputFile(folder / f"hatevolution-{name}.jsonl", name, offer.adapter.batch_url, options.limits)

        try:
            for file, items in split(requests, begin, too_large.append):
                self._carry(carrier, self._intend(offer, file, items), file.path)
                file.path.unlink(missing_ok=True)
        finally:
            unfit = requests.unfit + len(too_large)
            if unfit:
                self._problems.append(Problem(config.name, declined(unfit)))
            if requests.too_dear:
                self._problems.append(
                    Problem(config.name, f"--budget-usd {options.budget_usd:g} is not enough for more sentences")
                )

    def _intend(self, offer: Offer, file: InputFile, items: list[Item]) -> BatchRow:
        """Write down what is about to be submitted: sentences, file and name, before anything is sent."""
        offline = self._options.offline is not None
        row = BatchRow(
            batch=0,
            name=file.name,
            model=offer.model.config.name,
            run=self._run,
            place="offline" if offline else "provider",
            base_url=f"file:{file.path.name}" if offline else offer.adapter.base_urls[0],
            endpoint=offer.adapter.batch_url,
            requests=file.requests,
            input_bytes=file.bytes,
            input_sha256=file.sha256,
            made_at=utc_now(),
        )
        with self._store.transaction() as connection:
            return add_batch(connection, row, ((item.dataset, item.sentence) for item in items))

    # -- on their way ------------------------------------------------------------------------------------------

    def _carry(self, carrier: Carrier | None, row: BatchRow, path: Path | None) -> None:
        self._options.tell(f"{row.name}: {row.requests:,} requests of {row.model}, {row.input_bytes:,} bytes")

        def file() -> Path:
            assert path is not None  # noqa: S101 - what has no file is given up before
            return path

        self._done(self._placed(row, file()) if carrier is None else carrier.carry(row, file))

    def _placed(self, row: BatchRow, path: Path) -> BatchRow:
        """Put an input file into the folder for offline ones: whole, or not at all."""
        out = self._options.offline
        assert out is not None  # noqa: S101 - only then
        target = out / row.file_name
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.replace(target)
        except OSError as error:
            raise ConfigError(f"{target} can't be written: {error.strerror}; choose another --out.") from None
        with self._store.transaction() as connection:
            return note_batch(connection, row, submitted_at=utc_now())

    def _done(self, row: BatchRow) -> None:
        self.rows.append(row)
        where = row.file_name if row.offline else f"submitted as {row.provider_id} ({row.provider_status})"
        self._options.tell(f"{row.name}: {where}")
