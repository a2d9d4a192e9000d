"""``batch cancel``: a batch is stopped at its provider, or given up here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hatevolution.errors import RequestFailure, UserError
from hatevolution.runner.batch.carry import Carrier, noted, release
from hatevolution.runner.batch.pace import Pace, patient
from hatevolution.runner.batch.refresh import Providers
from hatevolution.runner.batch.stored import stored_model
from hatevolution.store.batches import batch_named
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hatevolution.store.batches import BatchRow

__all__ = ["cancel"]


def cancel(
    path: Path, name: str, *, forget: bool, environ: Mapping[str, str] = os.environ, pace: Pace | None = None
) -> BatchRow:
    """Stop a batch.

    One at a provider stays open until it is collected: what was done by then is answered, and billed. One that never
    got there, or is for ``vllm run-batch``, ends at once, and its sentences are pending again.

    Args:
        path: The store.
        name: Our name of the batch, or the provider's.
        forget: End it here without asking the provider, whatever becomes of it there.
        environ: The environment variables, for the key.
        pace: How patient to be.

    Raises:
        UserError: There is no such open batch, or the provider does not do it.
    """
    connect(path).close()
    with WritableStore(path, "batch cancel") as store:
        row = batch_named(store.connection, name)
        if row is None or row.closed_at is not None:
            why = "is over" if row is not None else "is none of this store"
            raise UserError(
                f"The batch {name!r} {why}; `hatevolution batch status --store {path}` lists the open ones."
            )
        if forget:
            return release(store, row, "given_up", "given up here; what its provider does with it is not known")
        if row.offline:
            return release(store, row, "cancelled", "cancelled before its output was collected")
        model = stored_model(store.connection, row.model)
        try:
            with Providers(environ) as providers:
                api = providers.api(row, model)
                pace = pace or Pace()
                row = Carrier(store, api, pace).find(row)
                if row.provider_id is None:
                    return release(store, row, "cancelled", "cancelled before the provider had it")
                batch_id = row.provider_id
                return noted(row, patient(lambda: api.cancel(batch_id), pace), store)
        except RequestFailure as failure:
            raise UserError(f"The batch {row.name} can't be cancelled: {failure}.") from None
