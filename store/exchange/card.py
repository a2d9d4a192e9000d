"""The page that stands in an export: for people, and at its head for Hugging Face ``datasets``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hatevolution.inert import one_line
from hatevolution.store.exchange.layout import split_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["card"]

_TEXT = """
# Answers of language models, exported from a store of hatevolution

One configuration for each model, with one split for each data set it was asked about; the configuration `sentences`
has the data sets themselves. With Hugging Face `datasets`, in this folder:

    from datasets import load_dataset
    answers = load_dataset(".", {example}, split={split})

`hatevolution store import DIR --store FILE` makes a store of it again, with nothing lost.

- `answers/MODEL/SET`: one row for each answer. `status` is `answered`, `refused` or `rejected`; `raw_text` is exactly
  what came, `scores` a JSON object, `response` and `response_index` say in which response and where. `text` and `gold`
  stand there for convenience.
- `sentences/SET`: the sentences, in the order of `position`.
- `responses/MODEL/SET`: the responses as they came, with time, tokens, cost. A request may carry several sentences.
- `store/`: everything else (runs, models, data sets, failures, requests without outcome, second answers, verdicts).
- `manifest.json`: the checksum of each file. Each file's own metadata (key `hatevolution`) say what it is and where it
  comes from: the model's specification and fingerprint, the data set's checksums, versions.

A column `..._bytes` holds the exact bytes where a value is not valid Unicode text; the column beside it then shows it
with U+FFFD in their place, and is the value itself everywhere else.

The texts hold abusive language. Data sets keep the licences of their authors:

{licences}
"""


def card(
    models: Mapping[str, Sequence[str]], datasets: Sequence[str], licences: Sequence[tuple[str, str | None, str | None]]
) -> str:
    """Return the page.

    Args:
        models: Folder of each model -> folders of the data sets it has answers to.
        datasets: Folders of all data sets.
        licences: (name, licence, source) of each data set.
    """
    taken = {"all"}  # which `datasets` keeps for itself
    splits = {folder: split_name(folder, taken) for folder in datasets}
    lines = ["---", "pretty_name: Answers of language models", "tags:", "- hatevolution", "configs:"]
    if not datasets:
        lines[-1] = "configs: []"
    for name, root, folders in _configs(models, datasets):
        lines += [f"- config_name: {json.dumps(name)}", "  data_files:"]
        for folder in folders:
            lines += [
                f"  - split: {json.dumps(splits[folder])}",
                f"    path: {json.dumps(f'{root}/{folder}/*.parquet')}",
            ]
    lines.append("---")
    asked = next(((model, sets[0]) for model, sets in models.items() if sets), None)
    example, split = ("sentences", datasets[0] if datasets else "") if asked is None else asked
    told = [
        f"- {one_line(name)}: {one_line(licence or 'none stated')} ({source or '-'})"
        for name, licence, source in licences
    ]
    text = _TEXT.format(
        example=json.dumps(example), split=json.dumps(splits.get(split, "")), licences="\n".join(told) or "- none"
    )
    return "\n".join(lines) + "\n" + text


def _configs(models: Mapping[str, Sequence[str]], datasets: Sequence[str]) -> list[tuple[str, str, Sequence[str]]]:
    found: list[tuple[str, Any, Sequence[str]]] = [("sentences", "sentences", datasets)] if datasets else []
    return found + [(model, f"answers/{model}", folders) for model, folders in models.items() if folders]
