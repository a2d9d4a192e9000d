"""From the options of ``store import`` to what is read, and about which model and data set it is."""

from __future__ import annotations

import hashlib
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from hatevolution.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hatevolution.store.exchange.foreign import Foreign, Match
    from hatevolution.store.exchange.foreign_import import Target
    from hatevolution.store.exchange.foreign_report import ForeignReport
    from hatevolution.store.exchange.watch import Tell
    from hatevolution.store.opened import RunRecord

__all__ = ["FORMATS", "Asked", "format_of", "import_foreign"]

FORMATS: Final = ("export", "csv", "jsonl", "inspect", "lm-eval")
_BY_SUFFIX: Final = {".csv": "csv", ".eval": "inspect", ".json": "inspect"}


class Asked(NamedTuple):
    """The options of the command, as given."""

    source: Path
    store: Path
    format: str
    model_config: str | None
    dataset: str | None
    data: str | None
    id_column: str | None
    text_column: str | None
    answer_column: str | None
    match: Match | None
    role: Literal["original", "neologism"] | None
    failures: tuple[str, ...]
    empty_is_answer: bool


def format_of(source: Path, given: str | None) -> str:
    """Return the format of what is to be imported.

    Raises:
        ConfigError: It was not given and can't be told from the name.
    """
    if given is not None:
        return given
    if source.is_dir():
        return "export"
    known = _BY_SUFFIX.get(source.suffix.lower())
    if known is None:
        raise ConfigError(f"What {source} holds can't be told from its name; say --format {', '.join(FORMATS[1:])}.")
    return known


def import_foreign(asked: Asked, tell: Tell) -> ForeignReport:
    """Import a file of answers that others made.

    Raises:
        UserError: An option is missing or wrong, or the file, model or data set is.
    """
    from hatevolution.store.exchange.foreign_import import Origin, import_answers

    for option, value in (("--model-config", asked.model_config), ("--dataset", asked.dataset)):
        if value is None:
            raise ConfigError(f"{option} is needed: a file of answers does not say whose and about what they are.")
    if not asked.source.is_file():
        raise DataError(f"There is no file {asked.source}.")
    match: Match = asked.match or ("text" if _has_no_id(asked) else "id")
    origin = Origin(asked.source, asked.format, _sha256(asked.source), _reading(asked))
    return import_answers(_records(asked), origin, _target(asked, match), asked.store, begun=_begun(), tell=tell)


def _has_no_id(asked: Asked) -> bool:
    if asked.id_column is not None:
        return False
    return asked.format == "lm-eval" or asked.text_column is not None


def _reading(asked: Asked) -> dict[str, Any]:
    """Return the options that decide what is read; they are recorded with the run."""
    given = {
        "id_column": asked.id_column,
        "text_column": asked.text_column,
        "answer_column": asked.answer_column,
        "failures": list(asked.failures) or None,
        "empty_is_answer": asked.empty_is_answer or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _records(asked: Asked) -> Iterator[Foreign]:
    if asked.format == "inspect":
        from hatevolution.store.exchange.foreign_inspect import read_inspect

        return read_inspect(asked.source, id_field=asked.id_column or "id", text_field=asked.text_column or "input")
    if asked.format == "lm-eval":
        from hatevolution.store.exchange.foreign_lm_eval import read_lm_eval

        return read_lm_eval(asked.source, id_field=asked.id_column, text_field=asked.text_column or "text")
    from hatevolution.store.exchange.foreign_tables import FAILURES, Columns, read_csv, read_jsonl

    columns = Columns(
        id=None if _has_no_id(asked) else asked.id_column or "id",
        text=asked.text_column,
        answer=asked.answer_column or "results",
        failures=asked.failures or FAILURES,
        empty_is_answer=asked.empty_is_answer,
    )
    return (read_csv if asked.format == "csv" else read_jsonl)(asked.source, columns)


def _target(asked: Asked, match: Match) -> Target:
    from hatevolution.configs.dataset_schema import load_dataset
    from hatevolution.runner.plan import no_data_folder, plan_dataset, plan_model
    from hatevolution.store.exchange.foreign_import import Target

    model = plan_model(str(asked.model_config), None)
    reference = str(asked.dataset)
    if asked.data is None and _in_store(asked.store, reference):
        return Target(model.record, model.prompt, reference, None, None, match, asked.role)
    if asked.data is not None and not Path(asked.data).is_dir():
        raise no_data_folder(Path(asked.data))
    found = plan_dataset(*load_dataset(reference), None if asked.data is None else Path(asked.data))
    sentences = found.located.sentences
    return Target(model.record, model.prompt, found.record.name, found.record, sentences, match, asked.role)


def _in_store(store: Path, dataset: str) -> bool:
    from hatevolution.store.reader import connect

    if not store.exists():
        return False
    with closing(connect(store)) as connection:
        return connection.execute("SELECT 1 FROM datasets WHERE dataset = ?", [dataset]).fetchone() is not None


def _begun() -> RunRecord:
    from hatevolution.runner.provenance import git_revision, utc_now, versions
    from hatevolution.store.opened import RunRecord, process_name

    return RunRecord("", utc_now(), process_name(), list(sys.argv), {}, versions(), git_revision())


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    return digest.hexdigest()
