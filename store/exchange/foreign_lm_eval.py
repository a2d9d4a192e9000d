"""Samples of lm-evaluation-harness (``--log_samples``): JSON lines with ``doc``, ``arguments`` and ``resps``."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hatevolution.errors import DataError
from hatevolution.store.exchange.foreign import Foreign, at
from hatevolution.store.exchange.foreign_tables import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["read_lm_eval"]


def read_lm_eval(path: Path, *, id_field: str | None = None, text_field: str = "text") -> Iterator[Foreign]:
    """Read the lines of a file of samples.

    A task with several filters has each of its samples once a filter, with the same responses; they count once. A
    multiple-choice sample gives the log-likelihood of each continuation as its scores, and the likeliest as its text.

    Args:
        path: The file.
        id_field: The field of ``doc`` (or a path in it) that is the sentence's id; None where there is none.
        text_field: The field of ``doc`` that is its text.

    Raises:
        DataError: A line is no sample.
    """
    seen: dict[str, tuple[Any, Any]] = {}
    for number, sample, line in json_lines(path):
        if "resps" not in sample or "doc" not in sample:
            raise DataError(
                f"{path}, line {number}: not a sample of lm-evaluation-harness; that has 'doc' and 'resps' "
                f"(--log_samples writes them)."
            )
        key = json.dumps([sample.get("doc_id"), sample.get("doc_hash")])
        name, resps = seen.setdefault(key, (sample.get("filter"), sample["resps"]))
        if name != sample.get("filter") and resps == sample["resps"]:
            continue  # the same responses, seen through another filter
        yield from _foreign(number, sample, line, id_field, text_field)


def _foreign(
    number: int, sample: dict[str, Any], line: str, id_field: str | None, text_field: str
) -> Iterator[Foreign]:
    doc = sample["doc"]
    number_or_id = None if id_field is None else at(doc, id_field)
    text = at(doc, text_field)
    asked = _arguments(sample.get("arguments"))
    record = Foreign(
        number=number,
        record=line,
        id=None if number_or_id is None else str(number_or_id),
        text=text if isinstance(text, str) else None,
        said=_said(asked[0][0]) if asked else None,
    )
    likely = _likelihoods(sample["resps"])
    if likely is not None:
        yield _chosen(record, [pair[1] for pair in asked], likely)
        return
    answers = _texts(sample["resps"])
    if not answers:
        yield record._replace(why_not="no response that is a text")
    for answer in answers:
        yield record._replace(answer=answer)


def _arguments(arguments: Any) -> list[tuple[Any, Any]]:
    """Return (context, continuation or settings) of each request, from either of the two forms in which they stand."""
    if isinstance(arguments, dict):
        arguments = [
            [request.get(f"arg_{at}") for at in range(len(request))] if isinstance(request, dict) else [request]
            for request in arguments.values()
        ]
    if not isinstance(arguments, list):
        return []
    return [(request[0], request[1] if len(request) > 1 else None) for request in arguments if request]


def _said(context: Any) -> str | None:
    """Return the prompt; a chat stands there as the JSON of its messages."""
    if isinstance(context, list) and len(context) == 1:
        context = context[0]
    if not isinstance(context, str):
        return None
    try:
        messages = json.loads(context)
    except (ValueError, RecursionError):
        return context
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return context
    match [(message.get("role"), message.get("content")) for message in messages]:
        case [("user", str(user))]:
            return user
        case [("system", str(system)), ("user", str(user))]:
            return f"{system}\0{user}"
    return None


def _texts(resps: Any) -> list[str]:
    """Return the responses of a generation: a list for each request, with an entry for each repeat."""
    flat = [entry for request in resps for entry in (request if isinstance(request, list) else [request])]
    return [entry for entry in flat if isinstance(entry, str)]


def _likelihoods(resps: Any) -> list[float] | None:
    """Return the log-likelihood of each continuation; None where the responses are something else.

    They stand as ``[[[-1.2, false]], ...]``, or with both as text.
    """
    found: list[float] = []
    for request in resps if isinstance(resps, list) else ():
        entry = request
        while isinstance(entry, list) and len(entry) == 1:
            entry = entry[0]
        if not isinstance(entry, list) or len(entry) != 2 or str(entry[1]) not in ("True", "False"):
            return None
        try:
            found.append(float(entry[0]))
        except (TypeError, ValueError):
            return None
    return found or None


def _chosen(record: Foreign, continuations: list[Any], likely: list[float]) -> Foreign:
    names = [name for name in continuations if isinstance(name, str)]
    if len(names) != len(likely) or len(set(names)) != len(names):
        return record._replace(why_not="its log-likelihoods are not one for each continuation")
    if any(math.isnan(value) for value in likely):
        return record._replace(why_not="a log-likelihood is not a number")
    scores = dict(zip(names, likely, strict=True))
    return record._replace(answer=max(scores, key=scores.__getitem__), scores=scores)
