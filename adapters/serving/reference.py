"""What transformers says, called directly; run as a script in a server's environment. Needs torch and transformers.

    python reference.py < question.json > answer.json

The question: ``kind`` (``completions``, ``chat``, ``seq2seq`` or ``classify``), ``weights``, ``revision``, ``dtype``,
``quantization``, ``truncate`` (tokens, or null), ``max_tokens``, ``template`` (keywords of the chat template), and
``asked``: a list of objects with ``prompt`` (text, or chat messages) and ``token_ids`` (what the server generated, or
null). Imports nothing of this project, which need not be installed there; every model is loaded and asked in the
plainest way that transformers has: one prompt at a time, no padding, greedy.

The answer: for generating models ``prompt_token_ids``, ``token_ids``, ``text``, ``ends`` (the ids that end a sequence),
``differs_at`` (the first generated token that is another one than the server's, or null) and ``gap`` there: by how much
the log probability of transformers' token is above that of the server's, a measure of how near a tie it was. For
classifiers ``labels`` and ``probs``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def number_format(question: dict[str, Any], config: Any) -> Any:
    """Return the torch dtype that the server uses."""
    import torch

    if question["dtype"] != "auto":
        return getattr(torch, question["dtype"])
    own = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    if question["kind"] == "seq2seq":
        return torch.float32 if own is torch.float16 else own
    if own is not torch.float32:
        return own
    # vLLM's "auto" takes 16 bits instead of 32 (vllm/config/model.py, _resolve_auto_dtype).
    fast = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    pooling = question["kind"] == "classify"
    return torch.float16 if pooling or (torch.cuda.is_available() and not fast) else torch.bfloat16


def load(question: dict[str, Any], loader: Any, device: str) -> Any:
    """Return the model, loaded by one of transformers' Auto classes."""
    from transformers import AutoConfig

    source = {"pretrained_model_name_or_path": question["weights"], "revision": question["revision"]}
    more: dict[str, Any] = {}
    if question["quantization"] in ("int8", "bitsandbytes"):
        from transformers import BitsAndBytesConfig

        eight = question["quantization"] == "int8"
        more = {
            "quantization_config": BitsAndBytesConfig(load_in_8bit=eight, load_in_4bit=not eight),
            "device_map": {"": device},
        }
    config = AutoConfig.from_pretrained(**source)
    model = loader.from_pretrained(**source, dtype=number_format(question, config), **more)
    if not more:
        model.to(device)
    model.eval()
    return model


def classify(question: dict[str, Any], tokenizer: Any, device: str) -> list[dict[str, Any]]:
    """Return labels and probabilities of each text."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = load(question, AutoModelForSequenceClassification, device)
    names = [model.config.id2label[index] for index in range(model.config.num_labels)]
    answers = []
    for asked in question["asked"]:
        cut = {} if question["truncate"] is None else {"truncation": True, "max_length": question["truncate"]}
        encoded = tokenizer(asked["prompt"], return_tensors="pt", **cut).to(device)
        with torch.inference_mode():
            logits = model(**encoded).logits[0].float()
        answers.append({"labels": names, "probs": torch.softmax(logits, -1).tolist()})
    return answers


def encode(question: dict[str, Any], tokenizer: Any, prompt: Any) -> list[int]:
    """Return the ids of a prompt, or of chat messages under the model's own template."""
    if question["kind"] == "chat":
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **question["template"])
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    cut = {} if question["truncate"] is None else {"truncation": True, "max_length": question["truncate"]}
    return list(tokenizer(prompt, **cut)["input_ids"])


def gap(
    model: Any, prompt: Any, start: list[int], mine: list[int], theirs: list[int], at: int, *, seq2seq: bool
) -> float:
    """Return by how much the log probability of ``mine[at]`` is above that of ``theirs[at]``, after the same tokens."""
    import torch

    before = torch.tensor([start + mine[:at]], device=prompt.device)
    with torch.inference_mode():
        if seq2seq:
            logits = model(input_ids=prompt, decoder_input_ids=before).logits[0, -1]
        else:
            logits = model(input_ids=torch.cat([prompt, before.long()], dim=1)).logits[0, -1]
    scores = torch.log_softmax(logits.float(), -1)
    return float(scores[mine[at]] - scores[theirs[at]])


def generate(question: dict[str, Any], tokenizer: Any, device: str) -> list[dict[str, Any]]:
    """Return what the model generates for each prompt, and where the server's tokens leave it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    seq2seq = question["kind"] == "seq2seq"
    model = load(question, AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM, device)
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or ())
    answers = []
    for asked in question["asked"]:
        ids = encode(question, tokenizer, asked["prompt"])
        prompt = torch.tensor([ids], device=device)
        with torch.inference_mode():
            made = model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=question["max_tokens"],
                do_sample=False,
                num_beams=1,
            )[0].tolist()
        start = made[:1] if seq2seq else []
        mine = made[1:] if seq2seq else made[len(ids) :]
        theirs = asked["token_ids"] or []
        at = next((n for n, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two), None)
        answers.append(
            {
                "prompt_token_ids": ids,
                "token_ids": mine,
                "text": tokenizer.decode(mine, skip_special_tokens=True),
                "ends": ends,
                "differs_at": at,
                "gap": None if at is None else gap(model, prompt, start, mine, theirs, at, seq2seq=seq2seq),
            }
        )
    return answers


def main() -> None:
    """Answer one question."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import torch
    from transformers import AutoTokenizer

    question = json.load(sys.stdin)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(question["weights"], revision=question["revision"])
    answer = classify if question["kind"] == "classify" else generate
    json.dump(answer(question, tokenizer, device), sys.stdout)


if __name__ == "__main__":
    main()
