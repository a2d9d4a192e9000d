"""Makes small models with random weights, for tests of real servers; run in an environment that has transformers.

    python tests/support/tiny_models.py KIND FOLDER [--size small]

KIND is ``t5``, ``mt5``, ``roberta`` or ``llama``. The tokenisers are trained on the sentences below; an encoder-decoder
of size ``small`` has the words themselves, so that a prompt has about as many tokens as T5 would give it. Weights are
drawn from a fixed seed and scaled so that the answers differ between prompts, and some of them end by themselves.
"""

from __future__ import annotations

import argparse
import string
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = (
    "Classify the input text as 'respectful' or 'toxic'. Input text: Answer: good morning dear neighbours bake bread "
    "on sunday and the cat sleeps under an old table while rain falls softly people who never say thank you annoy me "
    "nobody likes cold soup you are kind what a silly idea this new word is strange my phone is slow today"
)


MORE_WORDS = (
    "neighbour never says song makes smile friend she he it is so on you people rain slow today table under likes text "
    "not all have with this they from one by words were but what some we can out other there when use your how each"
)


def corpus() -> list[str]:
    words = WORDS.split()
    return [" ".join(words[start : start + 7]) for start in range(len(words))] * 3


def unigram(vocab: int) -> Any:
    """A SentencePiece-like tokeniser, as T5 has."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )


def words() -> Any:
    """The same kind with whole words in it: of plain English, three to four characters a token, as T5's own has."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    known = [word.strip(string.punctuation) for word in (WORDS + " " + MORE_WORDS).split()]
    pieces = dict.fromkeys(mark + word for mark in ("▁", "") for word in known)
    letters = ["▁", *string.ascii_letters, *string.digits, *string.punctuation]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary += [(piece, -5.0) for piece in pieces if len(piece) > 1] + [(letter, -12.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )


def byte_pairs(vocab: int, *, frame: bool) -> Any:
    """A byte-level BPE, as RoBERTa (with its frame of ``<s>`` and ``</s>``) and Llama have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    if frame:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=128 if frame else 512,
    )


def t5(size: str) -> tuple[Any, Any]:
    return _encoder_decoder("t5", size)


def mt5(size: str) -> tuple[Any, Any]:
    return _encoder_decoder("mt5", size)


def _encoder_decoder(kind: str, size: str) -> tuple[Any, Any]:
    from transformers import MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration

    tokenizer = words() if size == "small" else unigram(400)
    config_class, model_class = (
        (T5Config, T5ForConditionalGeneration) if kind == "t5" else (MT5Config, MT5ForConditionalGeneration)
    )
    shape = (
        {"d_model": 512, "d_ff": 2048, "d_kv": 64, "num_layers": 6, "num_heads": 8}  # as t5-small
        if size == "small"
        else {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_heads": 4}
    )
    config = config_class(
        vocab_size=32_128 if size == "small" else len(tokenizer),
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=kind == "t5",
        **shape,
    )
    model = model_class(config)
    _livelier(model)
    return model, tokenizer


def _livelier(model: Any) -> None:
    """Make what random weights say depend on the prompt, and end now and then."""
    import torch

    with torch.no_grad():
        model.lm_head.weight[1].mul_(1.5)
        for name, weight in model.named_parameters():
            if "EncDecAttention" in name:
                weight.mul_(4.0)
            elif name.startswith("encoder") and "SelfAttention" in name:
                weight.mul_(3.0)


def roberta(size: str) -> tuple[Any, Any]:
    """Two classes, named as those of the Dynabench models."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    tokenizer = byte_pairs(600, frame=True)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=130,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
        initializer_range=0.3,
        id2label={0: "nothate", 1: "hate"},
        label2id={"nothate": 0, "hate": 1},
    )
    return RobertaForSequenceClassification(config), tokenizer


def llama(size: str) -> tuple[Any, Any]:
    """A causal model without a chat template, as base models have none."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_pairs(600, frame=False)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=128,
        max_position_embeddings=256,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config), tokenizer


KINDS: dict[str, Callable[[str], tuple[Any, Any]]] = {"t5": t5, "mt5": mt5, "roberta": roberta, "llama": llama}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("folder")
    parser.add_argument("--size", choices=["tiny", "small"], default="tiny")
    arguments = parser.parse_args()
    import torch

    torch.manual_seed(20250613)
    model, tokenizer = KINDS[arguments.kind](arguments.size)
    model.save_pretrained(arguments.folder)
    tokenizer.save_pretrained(arguments.folder)


if __name__ == "__main__":
    main()
