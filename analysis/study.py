"""A store as the analysis sees it: models, data sets, sentences, and what every sentence came to for every model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from hatevolution.analysis.parsers import PAPER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hatevolution.analysis.parsers import Policy

__all__ = ["Composite", "DatasetInfo", "DatasetKind", "ModelInfo", "Study"]

DatasetKind = Literal["years", "pairs", "static"]
"""What a set has decides which experiment it belongs to: years Experiment 1, pairs Experiment 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """One model of the store."""

    name: str
    title: str
    """How tables name it."""
    policy: Policy
    """By which its answers were read."""
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    composite: str | None = None
    """The composite baseline that it is a member of."""

    @property
    def classifier(self) -> bool:
        """Whether it gives scores or class names, so that no answer of it can break an instruction."""
        return self.policy.reads == "classifier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A baseline whose metrics are the mean over its members."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """One data set of the store."""

    name: str
    title: str
    kind: DatasetKind
    sentences: int
    pairs: int
    """Number of pairs; 0 where the set has none."""
    labelled: int
    """Sentences with a gold label."""
    years: tuple[int, ...] = ()
    """The years that its tables have, ascending: those that occur and lie in the study's range of the set."""
    outside: int = 0
    """Sentences whose year lies outside that range."""
    groups: tuple[str, ...] = ()
    """By what its sentences can be grouped: some of ``GROUP_KEYS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything the metrics need; made by :func:`hatevolution.analysis.frames.load`."""

    source: str
    """The store's path, as given."""
    parser: Policy | None
    """The policy asked for; None for each model's own (``paper``)."""
    models: tuple[ModelInfo, ...]
    datasets: tuple[DatasetInfo, ...]
    sentences: pl.DataFrame
    """Columns ``SENTENCES``."""
    answers: pl.DataFrame
    """Columns ``ANSWERS``; dense."""

    @property
    def parser_name(self) -> str:
        """Name of the policy asked for."""
        return PAPER if self.parser is None else self.parser.name

    @property
    def composites(self) -> tuple[Composite, ...]:
        """The composite baselines, in order of their first members."""
        names = dict.fromkeys(model.composite for model in self.models if model.composite)
        taken = {known for model in self.models for known in (model.name, model.title)}
        return tuple(
            Composite(
                name=f"{name} (mean)" if name in taken else name,
                members=tuple(model.name for model in self.models if model.composite == name),
            )
            for name in names
        )

    @property
    def single_models(self) -> tuple[ModelInfo, ...]:
        """The models that stand for themselves: no members of a composite. Rankings and correlations are of these."""
        return tuple(model for model in self.models if model.composite is None)

    def dataset(self, name: str) -> DatasetInfo:
        """Return a data set by its name."""
        return next(item for item in self.datasets if item.name == name)

    def of(self, dataset: str) -> pl.DataFrame:
        """Return the sentences of one data set, in order of position."""
        return self.sentences.filter(pl.col("dataset") == dataset)

    def outcomes(self, dataset: str) -> NDArray[np.uint8]:
        """Return the codes of the outcomes of one data set, shape (models, sentences)."""
        start = 0
        for item in self.datasets:
            if item.name == dataset:
                break
            start += item.sentences * len(self.models)
        size = self.dataset(dataset).sentences
        column = self.answers["outcome"].slice(start, size * len(self.models))
        codes: NDArray[np.uint8] = column.to_physical().to_numpy().astype(np.uint8, copy=False)
        return codes.reshape(len(self.models), size)
