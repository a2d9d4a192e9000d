"""Where a store's numbers come from: its runs, models and data sets, as they were recorded."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.errors import StoreError
from hatevolution.store.lock import holder
from hatevolution.store.migrations import applied
from hatevolution.store.reader import connect
from hatevolution.store.status import Cell, ModelSpend, cells

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DatasetSource", "ModelRecord", "Provenance", "Run", "provenance"]

_CONFIGURATIONS: Final = 8
"""Most different configurations of runs that are shown, the newest ones."""


class Run(NamedTuple):
    """One run."""

    run: str
    started_at: str
    ended_at: str | None
    outcome: str | None
    """Null: it is running, or it died."""
    answers: int
    """Predictions that it brought."""
    git_revision: str | None
    versions: str
    """JSON, indented."""
    command: str
    """As typed."""


class ModelRecord(NamedTuple):
    """What a model's name stands for."""

    model: str
    title: str
    fingerprint: str
    specification: str
    """JSON, indented: what the fingerprint covers."""
    configuration: str
    """JSON, indented: everything, as of the last run."""
    served: str
    """What the responses call it; empty where they say nothing."""


class DatasetSource(NamedTuple):
    """Where a data set comes from."""

    dataset: str
    title: str
    source: str
    licence: str
    sentences: int
    content_sha256: str
    files: str
    """Name and sha256 of each file, a line each."""


class Provenance(NamedTuple):
    """Everything of it."""

    runs: tuple[Run, ...]
    configurations: tuple[tuple[str, str], ...]
    """Runs that share it, and the configuration: JSON, indented."""
    models: tuple[ModelRecord, ...]
    datasets: tuple[DatasetSource, ...]
    cells: tuple[Cell, ...]
    spend: tuple[ModelSpend, ...]
    writing: bool
    """Whether a run holds the store while it is read."""
    schema: tuple[str, ...]
    """Names of the migrations that the store has had."""


def provenance(path: Path | str) -> Provenance:
    """Read a store's records.

    Raises:
        StoreError: There is no such store, or it can't be read.
    """
    with closing(connect(path)) as connection:
        try:
            connection.execute("BEGIN")
            usage = _usage(connection)
            served: dict[str, list[str]] = {}
            for model, name, *_ in usage:
                served.setdefault(model, []).extend([] if name is None else [name])
            return Provenance(
                runs=_runs(connection),
                configurations=_configurations(connection),
                models=_models(connection, served),
                datasets=_datasets(connection),
                cells=tuple(cells(connection)),
                spend=_spend(usage),
                writing=holder(Path(path)) is not None,
                schema=tuple(applied(connection)),
            )
        except sqlite3.Error as error:
            raise StoreError(f"{path} can't be read: {error}.") from None


def _runs(connection: sqlite3.Connection) -> tuple[Run, ...]:
    answers = dict(connection.execute("SELECT run, count(*) FROM predictions GROUP BY run").fetchall())
    rows = connection.execute(
        "SELECT run, started_at, ended_at, outcome, git_revision, versions, command FROM runs ORDER BY rowid"
    )
    return tuple(
        Run(run, started, ended, outcome, answers.get(run, 0), revision, _indented(versions), _words(command))
        for run, started, ended, outcome, revision, versions, command in rows
    )


def _words(command: str) -> str:
    words = _parsed(command)
    return " ".join(str(word) for word in words) if isinstance(words, list) else command


def _configurations(connection: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """Return each different configuration once: a run that was resumed twenty times has one, not twenty."""
    found: dict[str, list[str]] = {}
    for run, configuration in connection.execute("SELECT run, configuration FROM runs ORDER BY rowid"):
        found.setdefault(configuration, []).append(run)
    newest = list(found.items())[-_CONFIGURATIONS:]
    return tuple((", ".join(runs), _indented(configuration)) for configuration, runs in newest)


def _usage(connection: sqlite3.Connection) -> list[tuple[str, str | None, int, int, int, float]]:
    """Return model, name in the responses, responses, tokens of prompts and completions, US dollars.

    The sums are those of :func:`hatevolution.store.status.spend`, here by served model too: one pass over the
    responses, which are the bulk of a store, in place of two.
    """
    return connection.execute(
        "SELECT p.model, r.served_model, count(DISTINCT r.response), coalesce(sum(r.prompt_tokens), 0), "
        "coalesce(sum(r.completion_tokens), 0), coalesce(sum(r.cost_usd), 0.0) "
        "FROM predictions AS p JOIN responses AS r ON r.response = p.response WHERE p.response_index = 0 "
        "GROUP BY p.model, r.served_model ORDER BY p.model, r.served_model"
    ).fetchall()


def _spend(usage: Sequence[tuple[str, str | None, int, int, int, float]]) -> tuple[ModelSpend, ...]:
    total: dict[str, ModelSpend] = {}
    for model, _, requests, prompt, completion, cost in usage:
        known = total.get(model, ModelSpend(model, 0, 0, 0, 0.0))
        total[model] = ModelSpend(
            model,
            known.requests + requests,
            known.prompt_tokens + prompt,
            known.completion_tokens + completion,
            known.cost_usd + cost,
        )
    return tuple(total.values())


def _models(connection: sqlite3.Connection, served: dict[str, list[str]]) -> tuple[ModelRecord, ...]:
    rows = connection.execute(
        "SELECT model, title, fingerprint, specification, configuration FROM models ORDER BY position, model"
    )
    return tuple(
        ModelRecord(name, title, fingerprint, _indented(spec), _indented(config), ", ".join(served.get(name, ())))
        for name, title, fingerprint, spec, config in rows
    )


def _datasets(connection: sqlite3.Connection) -> tuple[DatasetSource, ...]:
    rows = connection.execute(
        "SELECT dataset, title, source, licence, sentences, content_sha256, files FROM datasets "
        "ORDER BY position, dataset"
    )
    return tuple(
        DatasetSource(name, title, source or "", licence or "", sentences, digest, _files(_parsed(files)))
        for name, title, source, licence, sentences, digest, files in rows
    )


def _files(files: Any) -> str:
    entries: Sequence[Any] = files if isinstance(files, list) else ()
    return "\n".join(
        f"{entry.get('name')}  {entry.get('sha256', '')}".rstrip() for entry in entries if isinstance(entry, dict)
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _indented(text: str) -> str:
    """Return JSON for people; what is none stays as it is."""
    value = _parsed(text)
    return text if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
