"""Files of answers as other programs write them, for tests of importing.

- inspect_ai: ``EvalSample`` and ``ModelOutput`` of https://inspect.aisi.org.uk/reference/inspect_ai.log.html; members
  of a ``.eval`` zip as its recorder names them (``header.json``, ``samples/ID_epoch_N.json``, ``summaries.json``).
- lm-evaluation-harness: the lines of ``samples_TASK_DATE.jsonl`` that ``--log_samples`` writes.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def inspect_sample(
    key: str | int,
    user: str,
    content: Any = "toxic",
    *,
    epoch: int = 1,
    system: str | None = None,
    stop: str = "stop",
    **more: Any,
) -> dict[str, Any]:
    """One sample of a log, finished unless ``more`` says otherwise."""
    messages = [] if system is None else [{"id": "s1", "content": system, "role": "system"}]
    messages.append({"id": "u1", "content": user, "source": "input", "role": "user"})
    reply = {"id": "a1", "content": content, "source": "generate", "role": "assistant", "model": "gpt-4o"}
    return {
        "id": key,
        "epoch": epoch,
        "input": user,
        "target": "toxic",
        "messages": [*messages, reply],
        "output": {
            "model": "gpt-4o-2024-08-06",
            "choices": [{"message": reply, "stop_reason": stop}],
            "completion": content if isinstance(content, str) else "",
            "usage": {"input_tokens": 31, "output_tokens": 2, "total_tokens": 33},
            "time": 0.75,
        },
        "scores": {"match": {"value": "C", "answer": content}},
        "metadata": {},
        "store": {},
        "events": [],
        "model_usage": {"openai/gpt-4o": {"input_tokens": 31, "output_tokens": 2, "total_tokens": 33}},
        "uuid": f"uuid-{key}-{epoch}",
        "attachments": {},
        **more,
    }


_HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"eval_id": "e1", "run_id": "r1", "task": "hate", "model": "openai/gpt-4o", "dataset": {"name": "set"}},
    "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
    "results": {"total_samples": 1, "completed_samples": 1, "scores": []},
    "stats": {"started_at": "2026-01-01T00:00:00+00:00", "completed_at": "2026-01-01T00:00:01+00:00"},
}


def inspect_eval(path: Path, samples: Sequence[dict[str, Any]], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A ``.eval`` log."""
    with zipfile.ZipFile(path, "w", compression) as log:
        log.writestr("_journal/start.json", json.dumps({key: _HEADER[key] for key in ("version", "eval", "plan")}))
        for sample in samples:
            log.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample, indent=2))
        summaries = [{key: sample[key] for key in ("id", "epoch", "input", "target")} for sample in samples]
        log.writestr("_journal/summaries/1.json", json.dumps(summaries))
        log.writestr("summaries.json", json.dumps(summaries))
        log.writestr("header.json", json.dumps(_HEADER))
    return path


def inspect_json(path: Path, samples: Sequence[dict[str, Any]]) -> Path:
    """A ``.json`` log."""
    path.write_text(json.dumps({**_HEADER, "samples": list(samples)}, indent=2))
    return path


def lm_eval_sample(
    number: int, doc: dict[str, Any], prompt: str, text: str, *, name: str = "none", chat: bool = False
) -> dict[str, Any]:
    """One line of a generation task."""
    context = json.dumps([{"role": "user", "content": prompt}]) if chat else prompt
    return {
        "doc_id": number,
        "doc": doc,
        "target": "toxic",
        "arguments": {"gen_args_0": {"arg_0": context, "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [[text]],
        "filtered_resps": [text.strip()],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": f"{number:064x}",
        "prompt_hash": "0" * 64,
        "target_hash": "1" * 64,
        "exact_match": 1.0,
    }


def lm_eval_choice(number: int, doc: dict[str, Any], prompt: str, likely: dict[str, float]) -> dict[str, Any]:
    """One line of a multiple-choice task; values are text, as its logger makes them."""
    return {
        "doc_id": number,
        "doc": doc,
        "target": 0,
        "arguments": {
            f"gen_args_{at}": {"arg_0": prompt, "arg_1": continuation} for at, continuation in enumerate(likely)
        },
        "resps": [[[str(value), "False"]] for value in likely.values()],
        "filtered_resps": [[str(value), "False"] for value in likely.values()],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"{number:064x}",
        "prompt_hash": "0" * 64,
        "target_hash": "1" * 64,
        "acc": 1.0,
    }


def write_lines(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path
