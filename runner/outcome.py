"""Failures that are about a sentence become predictions of their own kind; all others stay failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hatevolution.domain import Answer, Reply, Status
from hatevolution.errors import FailureKind

if TYPE_CHECKING:
    from hatevolution.errors import RequestFailure

__all__ = ["rejected_or_refused"]

_STATUS = {
    FailureKind.TOO_LONG: Status.REJECTED,
    FailureKind.UNSENDABLE: Status.REJECTED,
    FailureKind.FILTERED: Status.REFUSED,
}


def rejected_or_refused(failure: RequestFailure) -> Reply | None:
    """Return the prediction that a failure stands for; None where it stands for none."""
    status = _STATUS.get(failure.kind)
    if status is None:
        return None
    reason = failure.code or failure.kind.value
    body = failure.body if failure.body is not None else json.dumps({"message": str(failure)})
    return Reply(
        answers=(Answer(status=status, finish_reason=reason),),
        body=body,
        http_status=failure.http_status,
        request_id=failure.request_id,
    )
