"""The models of the ``embedded`` adapter: what runs in this process, without a network or a download."""

from __future__ import annotations

import hashlib
import threading
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hatevolution.domain import Label
from hatevolution.errors import ConfigError, pip_install

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hatevolution.domain import Item

__all__ = ["Judge", "Judgement", "ProfanityCheck", "Random", "Same"]


class Judgement(NamedTuple):
    """What a judge says of a sentence: a word or scores."""

    word: str | None = None
    scores: Mapping[str, float] | None = None


class Judge(Protocol):
    """A model in this process."""

    @property
    def version(self) -> str | None:
        """Version of the package that carries it; None for what the project itself is."""

    def load(self) -> None:
        """Get ready; may take seconds. Safe to call twice."""

    def judge(self, items: Sequence[Item]) -> list[Judgement]:
        """Return what it says of each sentence; the same for a sentence whatever stands beside it."""


class Same:
    """Says the same of every sentence: a reference row that every table needs."""

    version = None

    def __init__(self, label: Label) -> None:
        self._said = Judgement(word=str(label))

    def load(self) -> None:
        """Nothing to do."""

    def judge(self, items: Sequence[Item]) -> list[Judgement]:
        """Return the label for each sentence."""
        return [self._said] * len(items)


class Random:
    """Tosses a fair coin for each sentence: the bit comes from a hash of seed, data set and sentence id.

    So neither the order of the requests, nor their size, nor a resumed run changes an answer.
    """

    version = None

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def load(self) -> None:
        """Nothing to do."""

    def judge(self, items: Sequence[Item]) -> list[Judgement]:
        """Return a label for each sentence."""
        return [Judgement(word=str(self._label(item))) for item in items]

    def _label(self, item: Item) -> Label:
        key = f"{self._seed}\0{item.dataset}\0{item.sentence}".encode("utf-8", "surrogatepass")
        return Label.TOXIC if hashlib.sha256(key).digest()[0] & 1 else Label.RESPECTFUL


class ProfanityCheck:
    """alt-profanity-check: a linear model over word counts, carried by its package; weak, and there without a download.

    Its one number for a sentence, the probability of its class 1, is kept as the score ``toxic``, unrounded.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """

    PACKAGE = "alt-profanity-check"
    _lock = threading.Lock()

    def __init__(self) -> None:
        if find_spec("profanity_check") is None:
            raise ModuleNotFoundError("No module named 'profanity_check'", name=self.PACKAGE)
        self._probabilities: Callable[[list[str]], Sequence[float]] | None = None

    @property
    def version(self) -> str:
        """Version of the package, which is that of the weights."""
        return version(self.PACKAGE)

    def load(self) -> None:
        """Import the package, which reads its weights; once in a process.

        Raises:
            ConfigError: It can't be loaded, as with another version of scikit-learn than its weights were made with.
        """
        # The lock also keeps two threads from undoing each other's warning filters.
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                from profanity_check import predict_prob
            except Exception as error:  # unpickling runs third-party code, which may raise anything
                raise ConfigError(
                    f"The package {self.PACKAGE} can't be loaded ({type(error).__name__}: {error}); "
                    f"{pip_install('embedded', '--force-reinstall')} brings the versions that it needs."
                ) from error
        self._probabilities = predict_prob

    def judge(self, items: Sequence[Item]) -> list[Judgement]:
        """Return the probability of each sentence."""
        if self._probabilities is None:
            raise RuntimeError("the adapter is not open")
        values = self._probabilities([item.text for item in items])
        return [Judgement(scores={str(Label.TOXIC): float(value)}) for value in values]
