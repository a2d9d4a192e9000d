"""Logs of inspect_ai: ``.eval`` (a zip with one JSON file a sample) and ``.json`` (one document).

What is read of a sample is documented as ``EvalSample`` and ``ModelOutput`` on https://inspect.aisi.org.uk/eval-logs.html.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any, Final

from hatevolution.domain import Status
from hatevolution.errors import DataError
from hatevolution.store.exchange.foreign import Foreign, at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["read_inspect"]

_SAMPLES: Final = "samples/"
_ATTACHMENT: Final = "attachment://"


def read_inspect(path: Path, *, id_field: str = "id", text_field: str = "input") -> Iterator[Foreign]:
    """Read the samples of a log; samples are counted from 1, in the log's order.

    Args:
        path: The log.
        id_field: Where a sample's id stands: ``id``, or a path such as ``metadata.id``.
        text_field: Where its text stands: ``input`` (of messages the last one of the user), or a path.

    Raises:
        DataError: It is no log of inspect_ai, or is compressed in a way that this Python can't read.
    """
    try:
        samples = _zipped(path) if zipfile.is_zipfile(path) else _document(path)
        for number, (sample, record) in enumerate(samples, 1):
            yield _foreign(number, sample, record, id_field, text_field)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} is a damaged zip file: {error}.") from None
    except NotImplementedError:
        raise DataError(
            f"{path} is compressed in a way that this Python can't read; `inspect log convert {path.name} --to json "
            f"--output-dir DIR` makes a log that it can."
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a log of inspect_ai: {error}.") from None


def _zipped(path: Path) -> Iterator[tuple[dict[str, Any], str | bytes]]:
    with zipfile.ZipFile(path) as log:
        names = [name for name in dict.fromkeys(log.namelist()) if name.startswith(_SAMPLES) and name.endswith(".json")]
        if not names and not {"header.json", "_journal/start.json", "start.json"} & set(log.namelist()):
            raise DataError(f"{path} is a zip file but not a log of inspect_ai; it has no samples.")
        for name in names:
            record = log.read(name)
            yield _object(path, json.loads(record)), record


def _document(path: Path) -> Iterator[tuple[dict[str, Any], str | bytes]]:
    log = json.loads(path.read_bytes())
    if not isinstance(log, dict) or "eval" not in log:
        raise DataError(f"{path} is not a log of inspect_ai; that has the keys 'eval' and 'samples'.")
    for sample in log.get("samples") or ():
        yield _object(path, sample), json.dumps(sample)


def _object(path: Path, sample: Any) -> dict[str, Any]:
    if not isinstance(sample, dict):
        raise DataError(f"{path} has a sample that is not an object.")
    return sample


def _foreign(number: int, sample: dict[str, Any], record: str | bytes, id_field: str, text_field: str) -> Foreign:
    number_or_id = at(sample, id_field)
    text = at(sample, text_field)
    if isinstance(text, list):
        spoken = [message for message in text if isinstance(message, dict) and message.get("role") == "user"]
        text = _content(spoken[-1], sample) if spoken else None
    return Foreign(
        number=number,
        record=record,
        id=None if number_or_id is None else str(number_or_id),
        text=_resolved(text, sample) if isinstance(text, str) else None,
        said=_said(sample),
        **_outcome(sample),
    )


def _outcome(sample: dict[str, Any]) -> dict[str, Any]:
    """Return what came of a sample, as fields of a record."""
    error = at(sample, "error.message") or at(sample, "error")
    output = sample.get("output")
    if error:
        return {"why_not": f"the sample failed: {str(error)[:200]}"}
    if not isinstance(output, dict) or output.get("error"):
        return {
            "why_not": f"the model failed: {str(at(output, 'error'))[:200]}" if output else "the model was not asked"
        }
    choices = output.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return {"why_not": "the model gave no answer"}
    stop, seconds = choices[0].get("stop_reason"), output.get("time")
    fields = {
        "finish_reason": stop if isinstance(stop, str) else None,
        "served_model": output.get("model") if isinstance(output.get("model"), str) else None,
        "prompt_tokens": _count(at(output, "usage.input_tokens")),
        "completion_tokens": _count(at(output, "usage.output_tokens")),
        "latency_s": float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        "answer": _content(choices[0].get("message"), sample),
    }
    if stop == "content_filter":
        return {**fields, "status": Status.REFUSED}
    if fields["answer"] is None:
        return {"why_not": "the model's message has no text"}
    return fields


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _content(message: Any, sample: dict[str, Any]) -> str | None:
    """Return the text of a message; reasoning, images and tool calls are no text of it."""
    content = at(message, "content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        content = "\n".join(texts) if texts or not content else None
    return _resolved(content, sample) if isinstance(content, str) else None


def _resolved(text: str, sample: dict[str, Any]) -> str:
    """Return a text; long ones stand elsewhere in the sample, under their checksum."""
    if not text.startswith(_ATTACHMENT):
        return text
    found = (sample.get("attachments") or {}).get(text.removeprefix(_ATTACHMENT))
    return found if isinstance(found, str) else text


def _said(sample: dict[str, Any]) -> str | None:
    """Return what was said before the model's answer, where that was one message, or a system message and one more."""
    before: list[tuple[str, str]] = []
    for message in sample.get("messages") or ():
        role, content = at(message, "role"), _content(message, sample)
        if role == "assistant":
            break
        if content is None:
            return None
        before.append((str(role), content))
    match [role for role, _ in before]:
        case ["user"]:
            return before[0][1]
        case ["system", "user"]:
            return f"{before[0][1]}\0{before[1][1]}"
    return None
