"""Builds and reads Perspective's requests with google-api-python-client, which ships no description of this service.

The description here is its own, cut to the one method (source: the field lists of the service's public documentation,
``2-api/methods.md`` of conversationai/perspectiveapi). The API key is no part of it: it goes into a header at the last
moment (https://cloud.google.com/docs/authentication/api-keys-use), so that it stands in no address, error or log.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import httplib2
from googleapiclient.discovery import build_from_document

__all__ = ["DEFAULT_URL", "AnalyzeRequest", "PerspectiveService"]

DEFAULT_URL = "https://commentanalyzer.googleapis.com"

_DOCUMENT: dict[str, Any] = {
    "kind": "discovery#restDescription",
    "id": "commentanalyzer:v1alpha1",
    "name": "commentanalyzer",
    "version": "v1alpha1",
    "protocol": "rest",
    "rootUrl": f"{DEFAULT_URL}/",
    "servicePath": "",
    "batchPath": "batch",
    "schemas": {
        "AnalyzeCommentRequest": {"id": "AnalyzeCommentRequest", "type": "object"},
        "AnalyzeCommentResponse": {"id": "AnalyzeCommentResponse", "type": "object"},
    },
    "resources": {
        "comments": {
            "methods": {
                "analyze": {
                    "id": "commentanalyzer.comments.analyze",
                    "httpMethod": "POST",
                    "path": "v1alpha1/comments:analyze",
                    "request": {"$ref": "AnalyzeCommentRequest"},
                    "response": {"$ref": "AnalyzeCommentResponse"},
                }
            }
        }
    },
}


class AnalyzeRequest(NamedTuple):
    """One request, ready to be sent."""

    path: str
    """Path and query, from the root of the address."""
    body: bytes
    request: Any
    """The client's own request, which reads the response."""

    def read(self, body: bytes) -> Any:
        """Return the body of a success as plain JSON values.

        Raises:
            ValueError: It is not JSON.
        """
        return self.request.postproc(httplib2.Response({"status": "200"}), body)


class PerspectiveService:
    """The service at one address. Makes requests; sends none."""

    def __init__(self, base_url: str) -> None:
        self._root = base_url.rstrip("/")
        # A plain Http object keeps the client from looking for credentials; nothing is ever sent through it.
        self._service = build_from_document(
            _DOCUMENT, http=httplib2.Http(), client_options={"api_endpoint": f"{self._root}/"}
        )

    def analyze(self, body: dict[str, Any]) -> AnalyzeRequest:
        """Return the request that asks for scores."""
        request = self._service.comments().analyze(body=body)
        uri = cast("str", request.uri)
        return AnalyzeRequest(uri.removeprefix(self._root), cast("str", request.body).encode("ascii"), request)
