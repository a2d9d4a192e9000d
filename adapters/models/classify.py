"""``/classify`` of vLLM: class probabilities of a sequence classifier, lists of sentences per request.

Options: ``classes``, the model's class names in the order of its own ``id2label``. vLLM names the likeliest class of a
sentence alone, so without it the scores are named by position: ``"0"``, ``"1"``, ...
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import msgspec

from hatevolution.adapters.models.cut import Cut
from hatevolution.adapters.models.said import json_string
from hatevolution.adapters.models.settings import check_decoding, check_no_system, read_options
from hatevolution.adapters.models.vllm import VllmAdapter
from hatevolution.adapters.models.wire import Unreadable, decoder, kept
from hatevolution.domain import Answer, Reply, Status
from hatevolution.errors import ConfigError, FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.adapters.secrets import Secrets
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, TokenEstimate
    from hatevolution.errors import RequestFailure

__all__ = ["Classify"]

_SENT = ("truncate_prompt_tokens", "extra")
_RESERVED = frozenset({"model", "input", "messages", "truncate_prompt_tokens"})
_SPECIALS = 2
"""<s> and </s>, or [CLS] and [SEP]."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    classes: tuple[str, ...] = ()


class _Class(msgspec.Struct):
    index: int
    label: str | None
    probs: list[float]
    num_classes: int


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Classes(msgspec.Struct):
    data: list[_Class]
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


_read = decoder(_Classes)


class Classify(VllmAdapter):
    """A sequence classifier behind vLLM's pooling runner."""

    def __init__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> None:
        classes = read_options(model, _Options).classes
        if len(set(classes)) != len(classes):
            raise ConfigError(f"The model {model.name!r} names a class twice in options.classes.")
        check_decoding(model, _SENT, _RESERVED)
        check_no_system(model, prompt)
        super().__init__(model, prompt, secrets, lists=True)
        self._classes = classes
        self._cut = Cut(model.decoding.truncate_prompt_tokens, _SPECIALS)
        self._head = f'{{"model":{json.dumps(model.model)},"input":'
        extra = sorted(model.decoding.extra.items())
        self._tail = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in extra) + "}"
        self._cut_field = f',"truncate_prompt_tokens":{self._cut.limit}'

    async def ask(self, items: Sequence[Item], base_url: str) -> Reply:
        """Send these sentences in one request.

        Raises:
            RequestFailure: No answer came.
        """
        texts = [self._said.text(item.text) for item in items]
        arrived = await self._post(base_url, "/classify", self._body(texts, base_url))
        try:
            response = _read(arrived.body)
        except Unreadable as error:
            raise self._faults.malformed(arrived, error) from None
        by_index = {row.index: row for row in response.data}
        if len(response.data) != len(items) or by_index.keys() != set(range(len(items))):
            indices = sorted(row.index for row in response.data)[:50]
            raise self._faults.malformed(arrived, f"asked about {len(items)} sentences, it answers {indices}")
        prompt_tokens = response.usage.prompt_tokens if response.usage is not None else None
        single = len(items) == 1
        truncated = self._cut.done(len(items), prompt_tokens)
        return Reply(
            [
                Answer(
                    Status.ANSWERED,
                    by_index[index].label,
                    self._scores(by_index[index], arrived),
                    prompt_sha256=self._said.sha256(item.text),
                    prompt_tokens=prompt_tokens if single else None,
                    truncated=truncated,
                )
                for index, item in enumerate(items)
            ],
            kept(arrived.body),
            200,
            self._faults.request_id(arrived) or response.id,
            response.model,
            None,
            prompt_tokens,
        )

    def estimate(self, item: Item) -> TokenEstimate:
        """Return the tokens of the sentence; a classifier generates none."""
        return self._said.estimate(item.text, overhead=_SPECIALS, completion=0)

    def _body(self, texts: list[str], base_url: str) -> str:
        if len(texts) == 1:
            cut = self._cut_field if self._cut.limit else ""
            return f"{self._head}{json_string(texts[0])}{cut}{self._tail}"
        if self._cut.must_split(texts, self._windows.get(base_url)):
            raise self._faults.make(
                FailureKind.TOO_LONG,
                f"One of these sentences may have to be cut to {self._cut.limit} tokens; it has to be asked alone",
            )
        return f"{self._head}[{','.join(map(json_string, texts))}]{self._tail}"

    def _scores(self, row: _Class, arrived: Arrived) -> dict[str, float]:
        """Return the probabilities by class name, in the model's own order."""
        if row.num_classes != len(row.probs) or not row.probs or not all(map(math.isfinite, row.probs)):
            raise self._faults.malformed(arrived, f"num_classes is {row.num_classes}, probs is {row.probs[:20]}")
        names = self._classes or tuple(map(str, range(len(row.probs))))
        if len(names) != len(row.probs):
            raise self._other_model(arrived, f"has {len(row.probs)} classes, not {len(names)}")
        scores = dict(zip(names, row.probs, strict=True))
        if self._classes and row.label in scores and scores[row.label] < max(row.probs):
            # The server's name of the likeliest class stands at another place here: the order is not the model's.
            raise self._other_model(arrived, f"orders its classes differently (it calls the likeliest {row.label!r})")
        return scores

    def _other_model(self, arrived: Arrived, how: str) -> RequestFailure:
        classes = ", ".join(map(repr, self._classes))
        return self._faults.make(
            FailureKind.WRONG_MODEL,
            f"The server's model {how}, but options.classes of {self._model.name!r} says {classes}",
            arrived,
        )
