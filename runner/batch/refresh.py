"""Asks the providers how the open batches of a store are, and adopts those whose submission was cut short."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.errors import FailureKind, RequestFailure, UserError, not_installed
from hatevolution.runner.batch.carry import Carrier, noted
from hatevolution.runner.batch.pace import PASSING, Pace, patient
from hatevolution.runner.batch.stored import stored_model
from hatevolution.runner.batch.words import why_not
from hatevolution.store.batches import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hatevolution.adapters.batch.openai_batch import OpenAIBatches
    from hatevolution.adapters.batch.openai_wire import BatchInfo
    from hatevolution.runner.batch.stored import StoredModel
    from hatevolution.store.batches import BatchRow
    from hatevolution.store.opened import WritableStore

__all__ = ["Asked", "Providers", "refreshed"]


class Asked(NamedTuple):
    """A batch of a provider, after it was asked."""

    row: BatchRow
    model: StoredModel | None
    api: OpenAIBatches | None
    info: BatchInfo | None
    """None where the provider could not be asked, or has no such batch yet."""
    problem: str | None
    passing: bool = False
    """Whether the problem may pass by itself."""


class Providers:
    """The batch interfaces that a store's batches are at, each opened once. Use as a context manager."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._stack = ExitStack()
        self._open: dict[tuple[str, str], OpenAIBatches] = {}

    def __enter__(self) -> Providers:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def api(self, row: BatchRow, model: StoredModel) -> OpenAIBatches:
        """Return the batch interface that a batch is at.

        Raises:
            ConfigError: Its key or its package is missing.
        """
        try:
            from hatevolution.adapters.batch.openai_batch import OpenAIBatches
        except ModuleNotFoundError as error:
            raise not_installed(f"The batch {row.name}", f"the package {error.name!r}", "openai") from None

        place = (row.base_url, row.model)
        if place not in self._open:
            self._open[place] = self._stack.enter_context(OpenAIBatches(model.config, self._environ, row.base_url))
        return self._open[place]


def refreshed(store: WritableStore, providers: Providers, pace: Pace) -> Iterator[Asked]:
    """Ask after each open batch, write down what is said, and yield it; offline ones are passed over."""
    for row in batches(store.connection, open_only=True):
        if not row.offline:
            yield _ask(store, providers, row, pace)


def _ask(store: WritableStore, providers: Providers, row: BatchRow, pace: Pace) -> Asked:
    model, api = None, None
    try:
        model = stored_model(store.connection, row.model)
        api = providers.api(row, model)
        if row.provider_id is None:
            row = Carrier(store, api, pace).find(row)
        if row.provider_id is None:
            why = "its submission was cut short; `hatevolution batch submit` goes on with it"
            return Asked(row, model, api, None, why)
        batch_id, current = row.provider_id, api
        info = patient(lambda: current.retrieve(batch_id), pace)
        return Asked(noted(row, info, store), model, api, info, None)
    except RequestFailure as failure:
        return Asked(row, model, api, None, _why(row, failure), failure.kind in PASSING)
    except UserError as error:
        return Asked(row, model, api, None, str(error))


def _why(row: BatchRow, failure: RequestFailure) -> str:
    if failure.http_status == 404:
        return (
            f"the provider has no batch {row.provider_id} for this key ({failure}); use the key that it was submitted "
            f"with, or give it up with `hatevolution batch cancel {row.name} --forget`"
        )
    if failure.kind is FailureKind.AUTH:
        return why_not(failure)
    return f"it can't be asked after now: {failure}"
