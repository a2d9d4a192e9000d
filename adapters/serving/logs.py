"""What a server's log says of its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["explain", "tail"]

_READ = 64 * 1024
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"GatedRepo|gated repo|Access to model .* is restricted|awaiting a review",
        "the weights are gated: accept their licence on their page at huggingface.co and set HF_TOKEN",
    ),
    (
        r"RepositoryNotFound|is not a local folder and is not a valid model identifier|RevisionNotFound",
        "the hub has no such weights (or wants HF_TOKEN for them)",
    ),
    (
        r"LocalEntryNotFound|OfflineModeIsEnabled|[Cc]ouldn't connect to|[Cc]annot (?:find|reach) .*huggingface"
        r"|offline mode|Max retries exceeded|NameResolutionError|Network is unreachable|Name or service not known"
        r"|Temporary failure in name resolution|outgoing traffic has been disabled",
        "the weights are not on this machine and the hub can't be reached; fetch them beforehand, or name their folder "
        "with server.weights or HATEVOLUTION_WEIGHTS",
    ),
    (r"No space left on device", "the disk is full"),
    (
        r"OutOfMemoryError|out of memory|No available memory for the cache blocks"
        r"|desired (?:GPU|CPU) memory utilization|larger than the available KV cache memory|Cannot allocate memory",
        "there is not enough memory for it; something else may be using the GPU, or server.max_model_len is too large",
    ),
    (r"[Aa]ddress already in use|Errno 98", "its port is taken"),
    (r"No module named '([\w.]+)'", "its environment lacks a package"),
)
_KNOWN_RES = tuple((re.compile(pattern), why) for pattern, why in _KNOWN)
_ERROR = re.compile(r"(?:^|\s)((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit)\b.*)")


def tail(log: Path, lines: int = 20) -> list[str]:
    """Return the last lines of a log, without colours; none where it can't be read."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _READ))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    found = [line.rstrip() for line in _ANSI.sub("", text).replace("\r", "\n").split("\n")]
    return [line for line in found if line.strip()][-lines:]


def explain(log: Path) -> str:
    """Return why the server ended, in words, as far as its log tells: a known cause, its last error, or nothing."""
    lines = tail(log, 400)
    errors = [match[1] for match in map(_ERROR.search, lines) if match]
    text = "\n".join(lines)
    for pattern, why in _KNOWN_RES:
        if pattern.search(text):
            said = next((line for line in reversed(errors) if pattern.search(line)), "")
            return f"{why} ({said.strip()})" if said else why
    return errors[-1].strip() if errors else (lines[-1].strip() if lines else "")
