"""From an experiment's TOML to what has to be asked: models x data sets, everything checked before anything is sent."""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from hatevolution.configs.dataset_schema import load_dataset
from hatevolution.configs.fingerprint import specification
from hatevolution.configs.load import load_experiment, load_model
from hatevolution.configs.prompts import load_prompt
from hatevolution.configs.schema import MODEL_NAME_LENGTH
from hatevolution.errors import ConfigError
from hatevolution.store.opened import DatasetRecord, ModelRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hatevolution.adapters.datasets import LocatedDataset
    from hatevolution.configs.dataset_schema import DatasetConfig
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ExperimentConfig, ModelConfig

__all__ = ["PlannedDataset", "PlannedModel", "RunPlan", "make_plan", "plan_dataset", "plan_model", "renamed"]


class PlannedModel(NamedTuple):
    """A model of the plan."""

    config: ModelConfig
    prompt: Prompt | None
    record: ModelRecord


class PlannedDataset(NamedTuple):
    """A data set of the plan, found on the disk."""

    located: LocatedDataset
    record: DatasetRecord


class RunPlan(NamedTuple):
    """What a run is to do."""

    experiment: ExperimentConfig
    path: Path
    store: Path
    models: list[PlannedModel]
    datasets: list[PlannedDataset]

    def configuration(self) -> dict[str, Any]:
        """Return all of it as plain JSON values, for the store's record of the run."""
        return {
            "experiment": msgspec.to_builtins(self.experiment),
            "file": self.path.name,
            "models": [model.record.configuration for model in self.models],
            "datasets": [
                {"name": dataset.record.name, "files": dataset.record.files, "years": dataset.located.config.years}
                for dataset in self.datasets
            ],
        }


def make_plan(
    reference: str,
    *,
    store: str | None,
    data: str | None,
    models: Sequence[str] | None,
    datasets: Sequence[str] | None,
    without: Sequence[str] | None = None,
    as_of: str | None = None,
) -> RunPlan:
    """Resolve an experiment and everything that it names.

    Args:
        reference: Path of an experiment's TOML file, or the name of a shipped one.
        store: Path of the store; None takes the experiment's.
        data: Folder below which the data sets' files lie; None takes the experiment's.
        models: Only these of its models; None for all.
        datasets: Only these of its data sets; None for all.
        without: None of these, be they models or data sets.
        as_of: Ask every model under its name with this behind it (``gpt-4o@2026-12``): the same specification, anew.

    Raises:
        ConfigError: Something in a configuration is wrong, or a name is not one of the experiment's.
        DataError: A data set's file is missing.
    """
    experiment, path = load_experiment(reference)
    folder = path.parent
    all_models = [plan_model(name, folder) for name in experiment.models]
    all_sets = [_Set(*load_dataset(name, folder)) for name in experiment.datasets]
    left_out = set(without or ())
    _known(left_out, [*map(_name, all_models), *map(_name, all_sets)], "model or data set", path)
    planned_models = [item for item in _chosen(all_models, models, "model", path) if _name(item) not in left_out]
    configs = [item for item in _chosen(all_sets, datasets, "data set", path) if _name(item) not in left_out]
    if not planned_models or not configs:
        raise ConfigError(f"{path}: --except leaves no {'data set' if planned_models else 'model'}; leave out fewer.")
    if as_of is not None:
        planned_models = [renamed(model, as_of) for model in planned_models]
    data_folder = _data_folder(experiment, folder, data)
    located = _located(configs, data_folder)
    return RunPlan(
        experiment, path, Path(store or experiment.store or f"{experiment.name}.db"), planned_models, located
    )


class _Set(NamedTuple):
    config: DatasetConfig
    path: Path


def _data_folder(experiment: ExperimentConfig, folder: Path, data: str | None) -> Path | None:
    if data is not None:
        chosen = Path(data)
    elif experiment.data is not None:
        chosen = folder / experiment.data
    else:
        return None
    if not chosen.is_dir():
        raise no_data_folder(chosen)
    return chosen


def no_data_folder(folder: Path) -> ConfigError:
    """Return the error that says that the folder of the data sets is not there."""
    return ConfigError(
        f"The data folder {folder} does not exist; --data names the folder that holds the data sets, and `hatevolution "
        f"data fetch --data {shlex.quote(str(folder))}` makes and fills it."
    )


def _located(sets: list[_Set], data: Path | None) -> list[PlannedDataset]:
    """Return the sets with their files.

    Raises:
        MissingFileError: Some have none; the text says how to get the first of them, and how to do without all.
    """
    from hatevolution.adapters.datasets import MissingFileError

    located, missing = [], {}
    for item in sets:
        try:
            located.append(plan_dataset(item.config, item.path, data))
        except MissingFileError as error:
            missing[item.config.name] = str(error)
    if not missing:
        return located
    first = next(iter(missing.values()))
    if not located:
        raise MissingFileError(first)
    raise MissingFileError(
        f"{first.rstrip('.')} (--except {','.join(missing)} leaves out what is not there, --datasets names what is "
        f"to be asked)"
    )


def plan_model(reference: str, folder: Path | None) -> PlannedModel:
    """Resolve a model and its prompt.

    Args:
        reference: Name of a shipped model, or path of a TOML file.
        folder: What the path is relative to; None for the working directory.

    Raises:
        ConfigError: There is no such model, or something in its configuration is wrong.
    """
    config, path = load_model(reference, folder)
    prompt = None if config.prompt is None else load_prompt(config.prompt, path.parent)
    return _planned(config, prompt)


def _planned(config: ModelConfig, prompt: Prompt | None) -> PlannedModel:
    record = ModelRecord(config.name, config.label, specification(config, prompt), msgspec.to_builtins(config))
    return PlannedModel(config, prompt, record)


_AS_OF: Final = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


def renamed(model: PlannedModel, as_of: str) -> PlannedModel:
    """Return a model under a name of its own for a date, so that a moving endpoint can be asked again and compared.

    A composite that it is a member of is dated too: the mean is over members of one date.

    Raises:
        ConfigError: The date can't be a part of a name.
    """
    if _AS_OF.fullmatch(as_of) is None:
        raise ConfigError(f"--as-of {as_of!r} is no date; give one such as 2026, 2026-12 or 2026-12-31.")
    config = model.config
    name = f"{config.name}@{as_of}"
    if len(name) > MODEL_NAME_LENGTH:
        raise ConfigError(f"The name {name!r} has more than {MODEL_NAME_LENGTH} characters; give a shorter --as-of.")
    composite = None if config.composite is None else f"{config.composite}@{as_of}"
    title = None if config.title is None else f"{config.title} ({as_of})"
    return _planned(msgspec.structs.replace(config, name=name, title=title, composite=composite), model.prompt)


def plan_dataset(config: DatasetConfig, path: Path, data: Path | None) -> PlannedDataset:
    """Find a data set's files below a folder.

    Raises:
        DataError: A file is missing.
    """
    from hatevolution.adapters.datasets import locate

    located = locate(config, path, data)
    files = [{"name": file.name, "sha256": file.sha256, "bytes": file.bytes} for file in located.files]
    record = DatasetRecord(located.name, located.title, located.source, located.licence, files, located.loader)
    return PlannedDataset(located, record)


T = TypeVar("T", "PlannedModel", "_Set")


def _name(item: PlannedModel | _Set) -> str:
    return item.config.name


def _chosen(items: list[T], names: Sequence[str] | None, kind: str, path: Path) -> list[T]:
    known = [_name(item) for item in items]
    twice = next((name for name in known if known.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{path}: the {kind} {twice!r} occurs twice; a name stands for one {kind}.")
    if names is None:
        return items
    _known(names, known, kind, path)
    return [item for item in items if _name(item) in names]


def _known(names: Iterable[str], known: list[str], kind: str, path: Path) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"{path} has no {kind} named {name!r}{hint}; it has: {', '.join(known)}.")
