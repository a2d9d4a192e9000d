"""Who, when, with what: what a run writes down about itself."""

from __future__ import annotations

import platform
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import hatevolution

__all__ = ["git_revision", "new_run_id", "utc_now", "versions"]

_PACKAGES = (
    "aiohttp",
    "alt-profanity-check",
    "google-api-python-client",
    "msgspec",
    "openai",
    "polars",
    "pycurl",
    "ray",
    "scikit-learn",
    "sqlite-utils",
    "tenacity",
    "torch",
    "transformers",
    "uvloop",
    "vllm",
)


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_run_id() -> str:
    """Return an id that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def versions() -> dict[str, str]:
    """Return the versions of this program, of Python and of the packages that shape an answer."""
    found = {
        "hatevolution": hatevolution.__version__,
        "python": platform.python_version(),
        "platform": sys.platform,
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """Return the commit of the project's checkout, with ``-dirty`` where it was changed; None where it is none."""
    root = Path(hatevolution.__file__).resolve().parent.parent.parent
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],  # noqa: S607 - git of the PATH
            cwd=root,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
