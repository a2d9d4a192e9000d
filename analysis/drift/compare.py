"""The drift between two names: labels, metrics, and who answered when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hatevolution.analysis.drift.labels import label_drift
from hatevolution.analysis.drift.metrics import metric_drift
from hatevolution.analysis.drift.served import asked_differently, served
from hatevolution.analysis.drift.shared import shared_study
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from hatevolution.analysis.metrics import InvalidPolicy
    from hatevolution.analysis.study import ModelInfo, Study

__all__ = ["Drift", "drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """From one name to another, on the sentences that both have a prediction for."""

    old: ModelInfo
    new: ModelInfo
    shared: Study
    labels: pl.DataFrame
    """Columns ``DRIFT_LABELS``."""
    metrics: pl.DataFrame
    """Columns ``DRIFT_METRICS``."""
    served: pl.DataFrame
    """Columns ``DRIFT_SERVED``."""
    asked_differently: tuple[str, ...]
    """Fields of the two specifications that differ: with any, a change need not be the endpoint's."""
    not_shared: dict[str, tuple[int, int]]
    """Data set -> sentences that one of the two has no prediction for, and all its sentences; where there are some."""
    seed: int
    resamples: int
    confidence: float

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """Name -> tidy frame."""
        return {"drift-labels": self.labels, "drift-metrics": self.metrics, "drift-served": self.served}

    def verdict(self) -> str | None:
        """Say that nothing changed; None where something did."""
        if self.labels["count"].sum():
            return None
        count = sum(item.sentences for item in self.shared.datasets)
        what = "the one sentence" if count == 1 else f"all {count} sentences"
        return (
            f"Nothing changed: of {what} that {self.old.title} and {self.new.title} both have a prediction for, not "
            "one answer is read otherwise, so that every difference is 0."
        )

    def warnings(self) -> list[str]:
        """Return what makes the comparison none of drift: another model was asked, or by another kind of adapter."""
        fields = [field for field in self.asked_differently if field.startswith(("adapter: ", "model: "))]
        if not fields:
            return []
        return [
            f"{self.old.title} and {self.new.title} are two models ({'; '.join(fields)}), and not one at two dates: "
            "what differs between them is no drift."
        ]

    def notes(self) -> list[str]:
        """Return what one has to know of the comparison: who answered, what was asked, what is left out."""
        lines = [*self.warnings(), *(self._who(model) for model in (self.old, self.new))]
        if self.asked_differently:
            lines.append(f"The two names were not asked the same: {'; '.join(self.asked_differently)}.")
        if self.old.policy != self.new.policy:
            policies = f"{self.old.policy.identity} and {self.new.policy.identity}"
            lines.append(f"Their answers are read by different rules: {policies}; --parser reads both by one.")
        lines += [
            f"{name}: {lacking} of {total} sentences are left out, which one of the two has no prediction for."
            for name, (lacking, total) in self.not_shared.items()
        ]
        return lines

    def _who(self, model: ModelInfo) -> str:
        own = self.served.filter(self.served["model"] == model.name)
        said = [
            f"{row['served_model'] or 'an endpoint that does not say what it serves'} ({row['answers']} answers, "
            f"{_span(row['first'], row['last'])})"
            for row in own.iter_rows(named=True)
        ]
        return f"{model.title} was answered by {', '.join(said)}."


def _span(first: str | None, last: str | None) -> str:
    if first is None or last is None:
        return "at an unknown time"
    return first[:10] if first[:10] == last[:10] else f"{first[:10]} to {last[:10]}"


def drift(
    study: Study,
    old: str,
    new: str,
    *,
    invalid: InvalidPolicy = "drop",
    seed: int = 0,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Drift:
    """Compare the answers of one model under two names.

    Args:
        study: Of these two models alone.
        old: Name of the older one.
        new: Name of the newer one.
        invalid: What an invalid answer counts as; not ``raw``.
        seed: Of the resamples.
        resamples: How many.
        confidence: Of all intervals.

    Raises:
        ConfigError: There is no sentence that both have a prediction for.
        StoreError: The store can't be read.
    """
    names = [model.name for model in study.models]
    shared = shared_study(study)
    if not shared.datasets:
        raise ConfigError(f"{old} and {new} have no sentence in common: nothing can be said about their drift.")
    left = {item.name: item.sentences for item in shared.datasets}
    lacking = {item.title: (item.sentences - left.get(item.name, 0), item.sentences) for item in study.datasets}
    places = names.index(old), names.index(new)
    return Drift(
        old=study.models[places[0]],
        new=study.models[places[1]],
        shared=shared,
        labels=label_drift(shared, *places, confidence),
        metrics=metric_drift(
            shared, *places, invalid=invalid, seed=seed, resamples=resamples, confidence=confidence
        ),
        served=served(study.source, [old, new], [item.name for item in shared.datasets]),
        asked_differently=tuple(asked_differently(study.source, old, new)),
        not_shared={title: pair for title, pair in lacking.items() if pair[0]},
        seed=seed,
        resamples=resamples,
        confidence=confidence,
    )  # fmt: skip
