"""The errors that this program raises on purpose; standard library only.

::

    HatevolutionError
    ├── UserError            what a person can put right; the command prints one sentence and exits with 2
    │   ├── ConfigError      a TOML file, a name, an option, an environment variable
    │   ├── DataError        a data set's file is missing, damaged, or holds what it may not hold
    │   └── StoreError       a store that can't be used as asked (locked, other specification, not a store)
    └── RequestFailure       one request to an endpoint failed; its ``kind`` decides what happens next

Texts of :class:`UserError` say what is wrong, where, and what would be right. A :class:`RequestFailure` is recorded
among the store's failures and is never turned into an answer.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "ConfigError",
    "DataError",
    "FailureKind",
    "HatevolutionError",
    "RequestFailure",
    "StoreError",
    "UserError",
    "not_installed",
    "pip_install",
]


class HatevolutionError(Exception):
    """Base of all errors of this program."""


class UserError(HatevolutionError):
    """Something a person can put right; shown as one sentence, exit code 2."""


class ConfigError(UserError):
    """A configuration, name, option or environment variable is wrong."""


class DataError(UserError):
    """A data set's file is missing, damaged, or holds what it may not hold."""


class StoreError(UserError):
    """A store can't be used as asked."""


def pip_install(extra: str, *options: str) -> str:
    """Return the command that installs an extra of this project."""
    return " ".join(("pip install", *options, f"'hatevolution[{extra}]'"))


def not_installed(who: str, what: str, extra: str, *, where: str = "is not installed", more: str = "") -> ConfigError:
    """Return the error of something that needs a package of an extra.

    Args:
        who: What can't be done without it.
        what: The package, as people call it.
        extra: The extra of this project that brings it.
        where: What is wrong with it, put behind "which".
        more: What else would help, put at the end of the sentence.
    """
    return ConfigError(f"{who} needs {what}, which {where}; {pip_install(extra)} brings it{more}.")


class FailureKind(StrEnum):
    """Why a request failed, decided by status and structured code, never by wording where a code exists."""

    RATE_LIMIT = "rate_limit"
    """Too fast: wait as told, then try again."""
    TRANSIENT = "transient"
    """5xx, 408, 409, a broken connection: try again, a bounded number of times."""
    TIMEOUT = "timeout"
    """No answer within ``timeout_s``: as TRANSIENT, but the request may have been billed."""
    UNREACHABLE = "unreachable"
    """Nobody listens, or the name does not resolve: opens the breaker, costs no attempt."""
    MALFORMED = "malformed"
    """A success that does not hold an answer (truncated JSON, missing field, wrong count)."""
    QUOTA = "quota"
    """The account has no money or daily quota left: stops the lane."""
    AUTH = "auth"
    """Key missing, wrong or not allowed: stops the lane."""
    RETIRED = "retired"
    """The endpoint no longer has (or never had) this model: stops the lane."""
    WRONG_MODEL = "wrong_model"
    """The server serves another model or revision than configured: stops the lane."""
    TOO_LONG = "too_long"
    """This sentence does not fit: becomes a `rejected` prediction."""
    UNSENDABLE = "unsendable"
    """This sentence can't be judged (empty, language not supported): becomes a `rejected` prediction."""
    FILTERED = "filtered"
    """The provider's content filter refused this sentence: becomes a `refused` prediction."""
    PERMANENT = "permanent"
    """Any other refusal of the request itself: recorded, not repeated in this run."""


class RequestFailure(HatevolutionError):
    """One request to an endpoint failed.

    Attributes:
        kind: What the failure means for the runner.
        http_status: Status of the response; None where there was none.
        code: The endpoint's structured error code or type, if it gave one.
        body: The error's body as it came, already without secrets; at most 64 KiB of it.
        retry_after_s: Seconds that the endpoint asked to wait; None if it did not.
        request_id: The provider's id of the request.
        maybe_billed: True where the endpoint may have done (and charged for) the work although no answer came.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        http_status: int | None = None,
        code: str | None = None,
        body: str | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        maybe_billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.http_status = http_status
        self.code = code
        self.body = body
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.maybe_billed = maybe_billed
