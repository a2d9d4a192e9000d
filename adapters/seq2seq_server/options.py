"""The server's command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DTYPES", "QUANTIZATIONS", "Options", "read_options"]

DTYPES = ("auto", "float32", "bfloat16")
"""No float16: the feed-forward layers of T5 overflow in it (transformers issue 5651). ``auto`` is the checkpoint's."""

QUANTIZATIONS = ("int8",)
"""``int8`` is LLM.int8() of bitsandbytes, which transformers calls ``load_in_8bit``."""


class Options(NamedTuple):
    """What is served, and how. Picklable: the worker process gets it."""

    model: str
    """Path of the weights, or their id on the hub."""
    served_model_name: str
    host: str
    port: int
    revision: str | None
    dtype: str
    quantization: str | None
    max_model_len: int | None
    """Most tokens of a prompt; longer ones are refused. None: no bound (T5's positions are relative)."""
    max_batch_rows: int
    """Most prompts that are generated for together."""
    max_batch_tokens: int
    """Most tokens of the prompts of one batch, padding included."""
    batch_wait_s: float
    """How long a worker with nothing to do waits for more requests after the first, in seconds."""
    device: str
    """``auto``, ``cpu`` or ``cuda``."""


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Return the options of a command line (of the process, by default); leaves the process where they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m hatevolution.adapters.seq2seq_server", description=__doc__)
    parser.add_argument("--model", required=True, help="path of the weights, or their id on the hub")
    parser.add_argument("--served-model-name", help="what requests call it; default: --model")
    parser.add_argument("--host", default="127.0.0.1", choices=["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104
    parser.add_argument("--port", type=_port, default=8000)
    parser.add_argument("--revision", help="commit of the weights on the hub")
    parser.add_argument("--dtype", default="auto", choices=DTYPES)
    parser.add_argument("--quantization", choices=QUANTIZATIONS)
    parser.add_argument("--max-model-len", type=_positive, help="refuse prompts of more tokens than this")
    parser.add_argument("--max-batch-rows", type=_positive, default=64)
    parser.add_argument("--max-batch-tokens", type=_positive, default=16_384)
    parser.add_argument("--batch-wait-s", type=float, default=0.01)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    given = vars(parser.parse_args(arguments))
    given["served_model_name"] = given["served_model_name"] or given["model"]
    return Options(**given)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1024 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not from 1024 to 65535")
    return number
