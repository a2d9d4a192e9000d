"""Greedy generation with transformers; knows tokens and tensors, and nothing of HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hatevolution.adapters.seq2seq_server.batches import batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.seq2seq_server.options import Options

__all__ = ["Engine", "Generated", "Prompt", "load_model"]


class Prompt(NamedTuple):
    """What to generate for."""

    token_ids: list[int]
    max_tokens: int
    """Most tokens to generate, the end of sequence included."""


class Generated(NamedTuple):
    """What came."""

    text: str
    token_ids: list[int]
    """The end of sequence included, where it was generated."""
    finish_reason: str
    """``stop`` (the model ended by itself) or ``length``."""


def load_model(source: str, *, revision: str | None, dtype: str, quantization: str | None, device: str) -> Any:
    """Return an encoder-decoder model, ready to generate.

    Args:
        source: Path or hub id of the weights.
        revision: Commit on the hub.
        dtype: ``auto`` (the checkpoint's own; float32 where that is float16, which T5 overflows), ``float32`` or
            ``bfloat16``.
        quantization: ``int8`` or None.
        device: Where torch puts it, such as ``cpu`` or ``cuda:0``.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    config = AutoConfig.from_pretrained(source, revision=revision)
    own = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    chosen = (torch.float32 if own is torch.float16 else own) if dtype == "auto" else getattr(torch, dtype)
    more: dict[str, Any] = {}
    if quantization == "int8":
        from transformers import BitsAndBytesConfig

        more = {"quantization_config": BitsAndBytesConfig(load_in_8bit=True), "device_map": {"": device}}
    model = AutoModelForSeq2SeqLM.from_pretrained(source, revision=revision, dtype=chosen, **more)
    if not more:
        model.to(device)
    model.eval()
    return model


class Engine:
    """One model in memory.

    Args:
        model: As :func:`load_model` returns it.
        tokenizer: Of transformers, with right padding.
        rows: Most prompts of a batch.
        tokens: Most tokens of a batch, padding included.
    """

    def __init__(self, model: Any, tokenizer: Any, *, rows: int, tokens: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._rows = rows
        self._tokens = tokens
        ends = model.generation_config.eos_token_id
        self._ends = frozenset([ends] if isinstance(ends, int) else ends or ())

    @classmethod
    def load(cls, options: Options, device: str) -> Engine:
        """Load model and tokeniser onto a device."""
        from transformers import AutoTokenizer

        model = load_model(
            options.model,
            revision=options.revision,
            dtype=options.dtype,
            quantization=options.quantization,
            device=device,
        )
        tokenizer = AutoTokenizer.from_pretrained(options.model, revision=options.revision)
        return cls(model, tokenizer, rows=options.max_batch_rows, tokens=options.max_batch_tokens)

    @property
    def dtype(self) -> str:
        """Name of the type of the model's unquantised weights."""
        return str(self._model.dtype).removeprefix("torch.")

    def encode(self, texts: Sequence[str], truncate: int | None) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, each cut to ``truncate`` tokens."""
        if truncate is None:
            encoded = self._tokenizer(list(texts), verbose=False)
        else:
            encoded = self._tokenizer(list(texts), truncation=True, max_length=truncate)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def generate(self, prompts: Sequence[Prompt]) -> list[Generated]:
        """Return what the model says to each prompt, greedily; batching changes nothing but the speed."""
        done: list[Generated | None] = [None] * len(prompts)
        lengths = [len(prompt.token_ids) for prompt in prompts]
        for batch in batches(lengths, rows=self._rows, tokens=self._tokens):
            for index, generated in zip(batch, self._fitting([prompts[index] for index in batch]), strict=True):
                done[index] = generated
        return [generated for generated in done if generated is not None]

    def _fitting(self, prompts: list[Prompt]) -> list[Generated]:
        """Generate for a batch, in halves where the GPU's memory is too small for the whole."""
        import torch

        try:
            return self._generate(prompts)
        except torch.cuda.OutOfMemoryError:
            if len(prompts) == 1:
                raise
        torch.cuda.empty_cache()
        middle = len(prompts) // 2
        return self._fitting(prompts[:middle]) + self._fitting(prompts[middle:])

    def _generate(self, prompts: list[Prompt]) -> list[Generated]:
        import torch

        padded = self._tokenizer.pad(
            {"input_ids": [prompt.token_ids for prompt in prompts]}, padding="longest", return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            sequences = self._model.generate(
                input_ids=padded["input_ids"],
                attention_mask=padded["attention_mask"],
                max_new_tokens=max(prompt.max_tokens for prompt in prompts),
                do_sample=False,
                num_beams=1,
            )
        # The first token is the one that starts every decoding; nobody generated it.
        rows = [self._cut(ids[1:], prompt.max_tokens) for ids, prompt in zip(sequences.tolist(), prompts, strict=True)]
        texts = self._tokenizer.batch_decode([ids for ids, _ in rows], skip_special_tokens=True)
        return [Generated(text, ids, reason) for text, (ids, reason) in zip(texts, rows, strict=True)]

    def _cut(self, ids: list[int], most: int) -> tuple[list[int], str]:
        """Return what belongs to one row (greedy decoding: a smaller limit only ends it earlier), and why it ended."""
        for index, token in enumerate(ids[:most]):
            if token in self._ends:
                return ids[: index + 1], "stop"
        return ids[:most], "length"
