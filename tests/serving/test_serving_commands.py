"""From a model's [server] table to command lines, and what a log says of a server's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hatevolution.adapters.serving.commands import Programs, command, deal, run_batch, serves, weights
from hatevolution.adapters.serving.logs import explain, tail
from hatevolution.adapters.serving.programs import find_programs, python_for
from hatevolution.configs.fingerprint import fingerprint, specification
from hatevolution.configs.schema import ModelConfig
from hatevolution.errors import ConfigError
from hatevolution.runner.serving import resources

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = Programs(("py", "serve"), ("py", "-m", "seq2seq"))
URL = "http://127.0.0.1:8000/v1"


def model(adapter: str = "vllm-completions", *, urls: list[str] | None = None, **fields: Any) -> ModelConfig:
    server = fields.pop("server", {})
    given = {
        "name": "m",
        "adapter": adapter,
        "model": "org/weights",
        "server": server,
        "endpoint": {"base_urls": [URL] if urls is None else urls},
        **fields,
    }
    return msgspec.convert(given, ModelConfig)


def line(config: ModelConfig, environ: dict[str, str] | None = None) -> list[list[str]]:
    return [list(command(config, slot, PROGRAMS, environ or {}).arguments) for slot in deal(config)]


AT = ["--host", "127.0.0.1", "--port", "8000", "--served-model-name", "org/weights"]


def test_a_causal_model() -> None:
    assert line(model()) == [
        [
            *("py", "serve", "org/weights", "--runner", "generate", "--dtype", "auto"),
            *("--generation-config", "vllm", "--disable-uvicorn-access-log"),
            *AT,
        ]
    ]


def test_a_batch_file_is_answered_with_the_environment_of_a_server_and_no_key() -> None:
    server = {"gpus": [1], "env": {"MINE": "a b"}}
    config = model("vllm-chat", server=server, endpoint={"base_urls": [URL], "api_key_env": "KEY"})
    environ = {"KEY": "secret", "VLLM_API_KEY": "secret", "CUDA_VISIBLE_DEVICES": "4,5"}
    arguments = run_batch(config, environ, "/v/python", "in", "out")
    start = arguments.index("/v/python")
    assert set(arguments[:start]) == {
        *("env", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "PYTHONUNBUFFERED=1", "TOKENIZERS_PARALLELISM=true"),
        *("VLLM_CPU_KVCACHE_SPACE=2", "CUDA_VISIBLE_DEVICES=5", "MINE=a b"),
    }
    assert arguments[start + 1 : start + 8] == (
        "-P",
        "-m",
        "vllm.entrypoints.openai.run_batch",
        "-i",
        "in",
        "-o",
        "out",
    )
    elsewhere = run_batch(config, {"CUDA_VISIBLE_DEVICES": "4"}, "/v/python", "in", "out")
    assert not any("CUDA_VISIBLE_DEVICES" in part for part in elsewhere)


def test_a_classifier_with_everything() -> None:
    server = {
        "dtype": "float32",
        "quantization": "fp8",
        "max_model_len": 512,
        "gpus": [2, 3],
        "extra_args": ["--enforce-eager"],
    }
    assert line(model("vllm-classify", server=server, revision="abc")) == [
        [
            *(
                "py",
                "serve",
                "org/weights",
                "--runner",
                "pooling",
                "--dtype",
                "float32",
            ),
            *("--quantization", "fp8", "--max-model-len", "512", "--revision", "abc", "--tokenizer-revision", "abc"),
            *("--tensor-parallel-size", "2", "--disable-uvicorn-access-log", *AT, "--enforce-eager"),
        ]
    ]


def test_a_seq2seq_model() -> None:
    config = model("seq2seq", server={"quantization": "int8", "max_model_len": 2048}, revision="abc")
    assert line(config) == [
        [
            *("py", "-m", "seq2seq", "--model", "org/weights", "--dtype", "auto", "--quantization", "int8"),
            *("--max-model-len", "2048", "--revision", "abc", *AT),
        ]
    ]


def test_gpus_are_dealt_out_to_the_addresses() -> None:
    config = model(urls=["http://localhost:8000/v1", "http://127.0.0.2:8001"], server={"gpus": [0, 1, 2, 3]})
    slots = deal(config)
    assert [(slot.host, slot.port, slot.gpus) for slot in slots] == [
        ("127.0.0.1", 8000, (0, 1)),
        ("127.0.0.2", 8001, (2, 3)),
    ]
    made = [command(config, slot, PROGRAMS, {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}) for slot in slots]
    assert [one.env["CUDA_VISIBLE_DEVICES"] for one in made] == ["4,5", "6,7"]
    assert "CUDA_VISIBLE_DEVICES" not in command(model(), deal(model())[0], PROGRAMS, {}).env


def test_a_gpu_that_is_not_visible() -> None:
    config = model(server={"gpus": [1]})
    with pytest.raises(ConfigError, match="asks for GPU 1, and CUDA_VISIBLE_DEVICES leaves 1"):
        command(config, deal(config)[0], PROGRAMS, {"CUDA_VISIBLE_DEVICES": "0"})


def test_the_environment() -> None:
    config = model(server={"env": {"VLLM_CPU_KVCACHE_SPACE": "8", "X": "y"}})
    env = command(config, deal(config)[0], PROGRAMS, {"HOME": "/h", "VLLM_API_KEY": "somebody's"}).env
    assert (env["HOME"], env["VLLM_CPU_KVCACHE_SPACE"], env["X"]) == ("/h", "8", "y")
    assert "VLLM_API_KEY" not in env  # the adapter sends no key, so the server must not want one
    config = model(endpoint={"base_urls": [URL], "api_key_env": "KEY"})
    assert command(config, deal(config)[0], PROGRAMS, {"KEY": "k"}).env["VLLM_API_KEY"] == "k"


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (model(urls=[]), "no address to start it at"),
        (model(urls=["http://10.0.0.7:8000/v1"]), "http://10.0.0.7:8000/v1 is not on this machine"),
        (model(urls=["https://127.0.0.1:8000/v1"]), "is not on this machine"),
        (model(urls=[URL, "http://127.0.0.1:8001/v1"], server={"gpus": [0, 1, 2]}), "3 GPUs for 2 base URLs"),
        (model("openai-chat"), "nobody here can start a server for the adapter 'openai-chat'"),
        (model("seq2seq", server={"dtype": "float16"}), "in which T5 overflows"),
        (model("seq2seq", server={"quantization": "fp8"}), "takes 'int8' or none"),
        (model("seq2seq", server={"runner": "pooling"}), "has server.runner"),
    ],
)
def test_a_table_that_cannot_be_followed(config: ModelConfig, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        serves(config)


def test_a_model_without_the_table_is_somebody_elses() -> None:
    assert not serves(model(server=None, urls=["http://10.0.0.7:8000/v1"]))
    assert serves(model())


def test_where_the_weights_are(tmp_path: Path) -> None:
    shelf = {"HATEVOLUTION_WEIGHTS": str(tmp_path)}
    assert weights(model(), shelf) == "org/weights"
    (tmp_path / "org" / "weights").mkdir(parents=True)
    assert weights(model(), shelf) == str(tmp_path / "org" / "weights")
    assert weights(model(server={"weights": str(tmp_path)}), shelf) == str(tmp_path)
    assert weights(model(server={"weights": "other/id"}), shelf) == "other/id"
    with pytest.raises(ConfigError, match="no such folder"):
        weights(model(server={"weights": "/nowhere/at/all"}), {})


def test_local_weights_have_no_revision_and_need_no_hub(tmp_path: Path) -> None:
    config = model(server={"weights": str(tmp_path)}, revision="abc")
    made = command(config, deal(config)[0], PROGRAMS, {})
    assert "--revision" not in made.arguments
    assert made.env["HF_HUB_OFFLINE"] == "1"


def test_number_format_is_part_of_the_fingerprint_and_nothing_else_is() -> None:
    def print_of(server: dict[str, Any] | None) -> str:
        return fingerprint(specification(model(server=server), None))

    assert print_of(None) == print_of({}) == print_of({"gpus": [1], "max_model_len": 9, "restarts": 0})
    others = [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"quantization": "int8"}]
    assert len({print_of(None), *map(print_of, others)}) == 4


def test_what_a_server_needs_for_itself() -> None:
    assert resources(model(), (URL,)) == [URL, ("gpu", 0)]
    assert resources(model(server={"gpus": [2, 3]}), (URL,)) == [URL, ("gpu", 2), ("gpu", 3)]
    assert resources(model(server=None), (URL,)) == [URL]


def test_which_python_runs_a_server() -> None:
    environ = {"HATEVOLUTION_VLLM_PYTHON": "/v/python", "HATEVOLUTION_SEQ2SEQ_PYTHON": "/s/python"}
    assert python_for(model(), environ) == "/v/python"
    assert python_for(model("seq2seq"), environ) == "/s/python"
    assert python_for(model(server={"python": "/mine"}), environ) == "/mine"


def test_a_python_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/no/such/python, which is to run the servers of models, can't be used: No "):
        find_programs(model(server={"python": "/no/such/python"}), {})
    (tmp_path / "odd").write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    (tmp_path / "odd").chmod(0o755)
    with pytest.raises(ConfigError, match="does not answer as Python"):
        find_programs(model(server={"python": str(tmp_path / "odd")}), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at ...",
            "gated: accept their licence",
        ),
        ("OSError: x/y is not a local folder and is not a valid model identifier", "the hub has no such weights"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "name their folder"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "not enough memory"),
        ("ValueError: To serve at least one request, 4 GiB KV cache is needed, which is larger than the available KV "
         "cache memory", "not enough memory"),
        ("OSError: [Errno 98] Address already in use", "its port is taken"),
        ("ModuleNotFoundError: No module named 'sentencepiece'", "lacks a package (ModuleNotFoundError: No "),
        ("\x1b[31mINFO ok\x1b[0m\nRuntimeError: odd\nlast line", "RuntimeError: odd"),
        ("only this", "only this"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_a_log_says(tmp_path: Path, text: str, expected: str) -> None:
    log = tmp_path / "log"
    log.write_text(text, encoding="utf-8")
    assert expected in explain(log)
    if not expected:
        assert explain(log) == ""


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 300_000 + b"\n" + b"".join(b"\x1b[1mline %d\x1b[0m\xff\n\n" % n for n in range(50)))
    assert tail(log, 2) == ["line 48\ufffd", "line 49\ufffd"]
    assert tail(tmp_path / "none") == []
