"""What may stand in a model's and an experiment's TOML file. Units are in the names.

Data sets have theirs in :mod:`hatevolution.configs.dataset_schema`.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - msgspec resolves the annotation at run time
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

__all__ = [
    "IN_PROCESS",
    "MODEL_NAME_LENGTH",
    "AdapterKind",
    "Decoding",
    "Endpoint",
    "ExperimentConfig",
    "ModelConfig",
    "Price",
    "Retirement",
    "Server",
]

AdapterKind = Literal[
    "vllm-completions",
    "vllm-chat",
    "vllm-classify",
    "openai-chat",
    "openai-moderation",
    "perspective",
    "seq2seq",
    "embedded",
    "scripted",
]

IN_PROCESS: Final = "in-process"
"""The base URL of models that run inside this program."""
MODEL_NAME_LENGTH: Final = 200

_PARSERS: Final[dict[str, str]] = {
    "vllm-classify": "class-label",
    "openai-moderation": "paper-flagged",
    "perspective": "paper-threshold",
    "embedded": "paper-exact",
}
"""What reads the answers of a model whose file names no parser, where it gives scores or one fixed word."""
_TEXT_PARSER: Final = "lenient"
"""The same of models that write text: a published rule would take every answer that is not letter-perfect for none."""
_SCORED: Final = "alt-profanity-check"
"""The embedded model that gives a score, and no word."""

PositiveInt = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(ge=0.001, le=1e9)]
"""A minute. At the least one request takes 17 hours; above the most, no limit is what is meant."""
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
"""At most a year: whoever says more means without end, or made a slip."""
SecondsOrZero = Annotated[float, Meta(ge=0, le=31_536_000)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]


class Decoding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model generates. Part of the model's fingerprint: another value is another model name."""

    max_tokens: PositiveInt | None = None
    """Most tokens to generate; None leaves it to the endpoint."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """None sends no temperature, as the study did with OpenAI's chat models."""
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    truncate_prompt_tokens: PositiveInt | None = None
    """Cut inputs to this many tokens (and mark the answer as cut); None rejects what does not fit."""
    extra: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Further fields of the request body, sent as they are."""


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how fast the model is asked. Not part of the fingerprint: change it as you like."""

    base_urls: tuple[str, ...] = ()
    """Several share the load. Empty: the adapter's own default address."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself never stands in a file."""
    max_concurrency: Count = 16
    """Most requests in flight over all base URLs (with ``run --ray``, of each worker); the runner stays below when the
    endpoint says so."""
    requests_per_minute: Rate | None = None
    """None: no limit."""
    tokens_per_minute: Annotated[float, Meta(ge=1, le=1e12)] | None = None
    """None: no limit."""
    batch_size: Count = 1
    """Sentences per request, where the endpoint takes lists."""
    timeout_s: Seconds = 120.0
    """For one whole request, connection included."""
    max_attempts: Count = 6
    """Most attempts per request on transient faults and time-outs; rate limits and dead servers do not count."""
    max_retry_after_s: Seconds = 3600.0
    """An endpoint that asks for a longer wait than this stops its lane instead."""
    give_up_after_s: SecondsOrZero = 900.0
    """A server that stays unreachable (after it was once reached) for this long stops its lane."""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the endpoint charges, in US dollars."""

    input_usd_per_million_tokens: NonNegativeFloat = 0.0
    output_usd_per_million_tokens: NonNegativeFloat = 0.0
    usd_per_request: NonNegativeFloat = 0.0
    batch_discount: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """By which share the endpoint's batch interface is cheaper: 0.5 is half the price."""


class Retirement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the provider shuts the model down."""

    date: dt.date
    """First day on which it no longer answers."""
    successor: str
    """Name of the model configuration to use instead."""
    note: str = ""


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the program starts the server of an open model by itself, where none runs at the model's base URLs yet.

    What is started follows from the adapter: vLLM, or the project's own seq2seq server. Of this table, ``dtype`` and
    ``quantization`` are part of the fingerprint, since they change answers; the rest is not.
    """

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the weights. ``auto`` is the checkpoint's own, but vLLM takes 16 bits for checkpoints in 32."""
    quantization: Annotated[str, Meta(min_length=1)] | None = None
    """vLLM: one of its methods (``fp8``, ``bitsandbytes``, ...); seq2seq: ``int8``, which is LLM.int8()."""
    weights: str | None = None
    """Folder of the weights (``~`` is the home), or another id than ``model``; None: HATEVOLUTION_WEIGHTS/model where
    that is a folder, else the model's id on the hub."""
    max_model_len: PositiveInt | None = None
    """Context window in tokens, prompt and answer together; longer sentences are rejected. None: the model's own."""
    runner: Literal["generate", "pooling"] | None = None
    """vLLM's runner; None: the one that the adapter's route needs."""
    gpus: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """Ids of the GPUs, among those that CUDA_VISIBLE_DEVICES leaves; dealt out to the base URLs in order, several to
    one server mean tensor parallelism. Empty: the first one. Models on different GPUs are asked at the same time."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of the server's command line."""
    env: dict[str, str] = field(default_factory=dict)
    """Further environment variables of the server. No place for secrets."""
    python: str | None = None
    """Python of the environment that holds the server; None: HATEVOLUTION_VLLM_PYTHON or HATEVOLUTION_SEQ2SEQ_PYTHON,
    else the one that runs this program."""
    startup_timeout_s: Seconds = 3600.0
    """For the download of the weights, and loading them."""
    stop_timeout_s: SecondsOrZero = 20.0
    """How long the server may take to end before it is killed."""
    restarts: Annotated[int, Meta(ge=0)] = 3
    """How often it is started again when it dies."""


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, as asked: what is sent to whom, and how."""

    name: Annotated[str, Meta(min_length=1, max_length=MODEL_NAME_LENGTH)]
    """Key of its rows in the store; stands for one specification for ever."""
    adapter: AdapterKind
    model: str
    """What the endpoint calls it."""
    revision: str | None = None
    """Commit of the weights, for open models."""
    title: str | None = None
    """How tables name it; None: its name."""
    prompt: str | None = None
    """Name in configs/prompts, or a path relative to the model's file; None sends the bare sentence."""
    parser: Annotated[str, Meta(min_length=1)] = ""
    """The analysis' default parse policy for this model; not part of the fingerprint. Left out, one that reads what the
    adapter gives takes its place: it is never empty."""
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For classifiers: which of its class names mean ``toxic`` and which ``respectful``. Used by the analysis alone."""
    composite: str | None = None
    """Name of the composite baseline (such as TimeLMs) whose metrics are the mean over its members, this one among
    them. Used by the analysis alone."""
    decoding: Decoding = Decoding()
    endpoint: Endpoint = Endpoint()
    server: Server | None = None
    """None: somebody else runs it."""
    price: Price | None = None
    """None: free."""
    retired: Retirement | None = None
    options: dict[str, bool | int | float | str | list[str]] = field(default_factory=dict)
    """What only this kind of adapter knows (see its documentation). Part of the fingerprint."""

    def __post_init__(self) -> None:
        """Put a parser where none was named."""
        if not self.parser:
            force_setattr(self, "parser", self._fitting_parser())

    def _fitting_parser(self) -> str:
        if self.adapter == "embedded" and self.model == _SCORED:
            return "paper-threshold"
        return _PARSERS.get(self.adapter, _TEXT_PARSER)

    @property
    def label(self) -> str:
        """The name that tables show."""
        return self.title or self.name


class ExperimentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models are asked about which data sets, and where the answers go."""

    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^/\\\x00-\x1f]+$")]
    """Also the name of its store where none is given, so without slashes."""
    models: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Names in configs/models, or paths relative to this file."""
    datasets: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Names in configs/datasets, or paths relative to this file."""
    store: str | None = None
    """Path relative to the working directory; ``--store`` wins. None: ``NAME.db``."""
    data: str | None = None
    """Folder of the data sets, relative to this file; ``--data`` wins."""
    note: str = ""
