"""The seq2seq server against transformers called directly, on a model of t5-small's size (random weights, CPU, fp32).

Wanted: lists of 32 at least 5 times as fast as one by one, and at least 0.9 of a bare batched ``generate``. The
tokeniser knows the words, so that prompts have about as many tokens as T5's own would make of them (printed).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _serving import model, rate, sentences, served, serving_python, tiny_model

from hatevolution.configs.prompts import load_prompt

BATCHED, SINGLE, ROUNDS, NEW = 128, 16, 5, 8

BARE = """
import json, sys, time, torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
weights, new = sys.argv[1], int(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(weights)
model = AutoModelForSeq2SeqLM.from_pretrained(weights).eval()
for line in sys.stdin:
    if line == "tokens\\n":
        print(json.dumps([len(ids) for ids in tokenizer(json.loads(sys.stdin.readline()))["input_ids"]]), flush=True)
        continue
    prompts, size = json.loads(line)
    began = time.perf_counter()
    for at in range(0, len(prompts), size):
        encoded = tokenizer(prompts[at : at + size], padding=True, return_tensors="pt")
        with torch.inference_mode():
            made = model.generate(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"],
                                  max_new_tokens=new, do_sample=False)
        tokenizer.batch_decode(made, skip_special_tokens=True)
    print(len(prompts) / (time.perf_counter() - began), flush=True)
"""


def main() -> int:
    python = serving_python()
    prompt = load_prompt("paper-open")
    texts = sentences(BATCHED)
    prompts = [prompt.render(text) for text in texts]
    with tempfile.TemporaryDirectory() as home:
        weights = tiny_model(python, "t5", Path(home) / "t5", "small")
        bare = subprocess.Popen(
            [python, "-c", BARE, str(weights), str(NEW)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        def bare_rate(some: list[str], size: int) -> float:
            assert bare.stdin is not None
            assert bare.stdout is not None
            print(json.dumps([some, size]), file=bare.stdin, flush=True)
            return float(bare.stdout.readline())

        assert bare.stdin is not None
        assert bare.stdout is not None
        print(f"tokens\n{json.dumps(prompts)}", file=bare.stdin, flush=True)
        tokens = json.loads(bare.stdout.readline())
        each = sum(map(len, prompts)) / sum(tokens)
        print(f"{sum(tokens) / len(tokens):.0f} tokens a prompt, of {each:.1f} characters")

        config = model(
            "seq2seq", weights, prompt="paper-open", decoding={"max_tokens": NEW, "temperature": 0.0},
            endpoint={"batch_size": 32}, server={"dtype": "float32"},
        )  # fmt: skip

        async def measure() -> dict[str, list[float]]:
            rates: dict[str, list[float]] = {"server 32": [], "server 1": [], "bare 32": []}
            async with served(config, python) as adapter:
                await rate(adapter, texts[:32], size=32, in_flight=1)
                bare_rate(prompts[:32], 32)
                for _ in range(ROUNDS):  # in turns, since the machine may get slower or faster meanwhile
                    rates["bare 32"].append(bare_rate(prompts, 32))
                    rates["server 32"].append(await rate(adapter, texts, size=32, in_flight=2))
                    rates["server 1"].append(await rate(adapter, texts[:SINGLE], size=1, in_flight=1))
                    print("...", ", ".join(f"{name}: {values[-1]:.1f}" for name, values in rates.items()), flush=True)
            return rates

        with bare:
            rates = asyncio.run(measure())
            assert bare.stdin is not None
            bare.stdin.close()
    middle = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{name:10} {middle[name]:7.1f} sentences/s   ({', '.join(f'{value:.1f}' for value in values)})")
    single, bare_ratio = middle["server 32"] / middle["server 1"], middle["server 32"] / middle["bare 32"]
    print(f"lists of 32 against one by one: {single:.1f} times (wanted: 5)")
    print(f"lists of 32 against a bare batched generate: {bare_ratio:.2f} (wanted: 0.9)")
    return 0 if single >= 5 and bare_ratio >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
