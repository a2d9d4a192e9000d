"""A model that says what it is told and fails when it is told to: for rehearsals of a run, and for tests.

Options, all of them optional:

``answers``     what it may say, default ``["toxic", "respectful"]``
``choose``      ``"hash"`` (default): by a hash of seed, data set and sentence id, so that the same sentence always gets
                the same answer; ``"cycle"``: one after the other
``latency_s``   seconds that each answer takes, default 0
``failures``    what goes wrong and when, one line each: :mod:`hatevolution.adapters.models.script`
``seed``        default 0
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from hatevolution.adapters.models.said import Said, utf8_length
from hatevolution.adapters.models.script import REJECTED, Rule, parse
from hatevolution.adapters.models.settings import read_options
from hatevolution.domain import Answer, Reply, Served, Status
from hatevolution.errors import ConfigError, FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate

__all__ = ["Scripted"]

_HERE = "scripted"
_BILLED = (FailureKind.TIMEOUT, FailureKind.MALFORMED)
_TOLD_BY_PROBE = (FailureKind.UNREACHABLE, FailureKind.AUTH, FailureKind.RETIRED, FailureKind.WRONG_MODEL)
_CHARACTERS_PER_TOKEN = 4


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    answers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("toxic", "respectful")
    choose: Literal["hash", "cycle"] = "hash"
    latency_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    failures: tuple[str, ...] = ()
    seed: int = 0


class Scripted:
    """Plays a script. It has as many addresses as its file names, or one that is none."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        del secrets  # needs none
        self._model = model
        self._options = read_options(model, _Options)
        if model.decoding.truncate_prompt_tokens is not None:
            raise ConfigError(f"The model {model.name!r} cuts its inputs, which a scripted model can't.")
        self._rules = [parse(line, model.name) for line in self._options.failures]
        self._said = Said(prompt)
        self._asked = 0
        self._answered = 0
        self._begun: dict[str, float] = {}

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The configured names; they are opaque."""
        return self._model.endpoint.base_urls or (_HERE,)

    @property
    def batch_size(self) -> int:
        """Sentences per request, as configured."""
        return self._model.endpoint.batch_size

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def probe(self, base_url: str) -> Served:
        """Return what is served, unless the next request would find nobody there, the wrong key or the wrong model.

        Raises:
            RequestFailure: It would. While nobody is there, a probe counts as a request, so that this ends.
        """
        rule = self._befalling(self._asked + 1)
        if rule is not None and rule.kind in _TOLD_BY_PROBE:
            self._asked += rule.kind is FailureKind.UNREACHABLE
            raise self._failure(rule, base_url)
        return Served((self._model.model,), "scripted")

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Answer these sentences, or fail, as the script says.

        Raises:
            RequestFailure: The script says so.
        """
        self._asked += 1
        rule = self._befalling(self._asked)
        if rule is None or rule.kind is None:
            rule = self._picking(items) or rule
        if self._options.latency_s and (rule is None or rule.kind is not FailureKind.UNREACHABLE):
            await asyncio.sleep(self._options.latency_s)
        if rule is not None and rule.kind is not None:
            raise self._failure(rule, base_url)
        answers = [self._answer(item, rule, alone=len(items) == 1) for item in items]
        body = json.dumps({"model": self._model.model, "answers": [answer.raw_text for answer in answers]})
        return Reply(
            answers,
            body,
            200,
            f"scripted-{self._asked}",
            self._model.model,
            None,
            sum(self.estimate(item).prompt_likely for item in items),
            sum(_length(answer.raw_text) for answer in answers),
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return four characters for a token, and the longest answer."""
        longest = max(map(utf8_length, self._options.answers))
        most = self._model.decoding.max_tokens or longest
        return self._said.estimate(item.text, overhead=0, completion=max(most, longest))

    def _befalling(self, number: int) -> Rule | None:
        """Return the first rule about requests that befalls this one."""
        now = asyncio.get_running_loop().time()
        return next((rule for rule in self._rules if rule.hits(number, now, self._begun)), None)

    def _picking(self, items: Sequence[Item]) -> Rule | None:
        """Return the first failure that befalls one of these sentences."""
        seed = self._options.seed
        return next(
            (
                rule
                for rule in self._rules
                if rule.kind is not None
                and rule.of_sentences
                and any(rule.picks(seed, item.dataset, item.sentence) for item in items)
            ),
            None,
        )

    def _answer(self, item: Item, request_rule: Rule | None, *, alone: bool) -> Answer:
        sha256 = self._said.sha256(item.text)
        tokens = self.estimate(item).prompt_likely if alone else None
        rules = [
            rule
            for rule in self._rules
            if rule.kind is None
            and (rule is request_rule or rule.picks(self._options.seed, item.dataset, item.sentence))
        ]
        if rules:
            status = Status.REJECTED if rules[0].verdict == REJECTED else Status.REFUSED
            return Answer(status, None, None, "script", sha256, tokens, 0 if alone else None)
        word = self._word(item)
        return Answer(Status.ANSWERED, word, None, "stop", sha256, tokens, _length(word) if alone else None)

    def _word(self, item: Item) -> str:
        answers = self._options.answers
        if self._options.choose == "cycle":
            self._answered += 1
            return answers[(self._answered - 1) % len(answers)]
        key = f"{self._options.seed}\0{item.dataset}\0{item.sentence}".encode("utf-8", "surrogatepass")
        return answers[int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % len(answers)]

    def _failure(self, rule: Rule, base_url: str) -> RequestFailure:
        kind = rule.kind or FailureKind.PERMANENT
        body = json.dumps({"error": {"message": f"scripted: {rule.line}", "code": str(kind)}})
        return RequestFailure(
            kind,
            f"{base_url} failed as its script says: {rule.line}",
            http_status=rule.status,
            code=str(kind),
            body=None if rule.status is None else body,
            retry_after_s=rule.retry_after_s,
            request_id=f"scripted-{self._asked}",
            maybe_billed=kind in _BILLED,
        )


def _length(text: str | None) -> int:
    return -(-len(text or "") // _CHARACTERS_PER_TOKEN)
