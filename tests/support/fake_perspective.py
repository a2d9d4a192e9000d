"""A fake of Google's Perspective API: ``comments:analyze``, the service's description, errors as documented."""

from __future__ import annotations

import argparse
import hashlib
from typing import Any

from aiohttp import web
from fake_base import FakeServer, Fault, main, read_json

COMMENT_BYTES = 20_480
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def google_error(code: int, message: str, status: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def comment_error(error_type: str, message: str) -> dict[str, Any]:
    detail = {"@type": "type.googleapis.com/google.commentanalyzer.v1alpha1.AnalyzeCommentError"}
    return google_error(400, message, "INVALID_ARGUMENT", {**detail, "errorType": error_type})


def rate_limited(limit: str = "AnalyzeRequestsPerMinutePerProject") -> Fault:
    detail = {
        "@type": _INFO,
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {
            "quota_limit_value": "60",
            "quota_limit": limit,
            "consumer": "projects/1",
            "service": "commentanalyzer.googleapis.com",
            "quota_location": "global",
            "quota_metric": "CommentAnalyzerService/analyze_requests",
        },
    }
    message = (
        "Quota exceeded for quota metric 'Analysis requests (AnalyzeComment)' and limit 'Analysis requests "
        "(AnalyzeComment) per minute' of service 'commentanalyzer.googleapis.com' for consumer 'project_number:1'."
    )
    return Fault(status=429, body=google_error(429, message, "RESOURCE_EXHAUSTED", detail))


class FakePerspective(FakeServer):
    """Scores are a hash of the text.

    Args:
        languages: Those that the attributes support.
        drop_scores: True answers 200 without scores, as a scoreThreshold makes the real one do.
        gone: True answers 410, as after the end of the service.
    """

    def __init__(
        self, *, languages: tuple[str, ...] = ("en",), drop_scores: bool = False, gone: bool = False, **more: Any
    ) -> None:
        super().__init__(**{"api_key": "AIzaFakeCanary0123456789", **more})
        self.languages = languages
        self.drop_scores = drop_scores
        self.gone = gone

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1alpha1/comments:analyze", self.analyze),
            web.get("/$discovery/rest", self.discovery),
        ]

    @property
    def base_url(self) -> str:
        return self.root

    async def discovery(self, request: web.Request) -> web.Response:
        self.probes += 1
        document = {"kind": "discovery#restDescription", "name": "commentanalyzer", "revision": "20250901"}
        return self._gone() or self.refuse_key(request) or web.json_response(document)

    async def analyze(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request) or {}
        text = body["comment"]["text"]

        def respond() -> web.Response:
            return self._gone() or self.refuse_key(request) or self._refuse(body, text) or self._scored(body, text)

        return await self.serve(request, [text], body, respond)

    def refuse_key(self, request: web.Request) -> web.Response | None:
        key = request.headers.get("X-Goog-Api-Key") or request.query.get("key")
        if key == self.api_key:
            return None
        detail = {"@type": _INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        message = f"API key not valid. Please pass a valid API key. (key={key})"
        return web.json_response(google_error(400, message, "INVALID_ARGUMENT", detail), status=400)

    def _gone(self) -> web.Response | None:
        document = google_error(410, "The Perspective API is no longer available.", "NOT_FOUND")
        return web.json_response(document, status=410) if self.gone else None

    def _refuse(self, body: dict[str, Any], text: str) -> web.Response | None:
        size = len(text.encode("utf-8", "surrogatepass"))
        unsupported = [language for language in body.get("languages", ["en"]) if language not in self.languages]
        document: dict[str, Any] | None = None
        if not body.get("requestedAttributes"):
            document = comment_error("NO_REQUESTED_ATTRIBUTES", "Missing requested_attributes")
        elif not text.strip():
            document = comment_error("COMMENT_EMPTY", "Comment must be non-empty.")
        elif size > COMMENT_BYTES:
            message = f"Comment text was too many bytes. Value ({size}) exceeded limit ({COMMENT_BYTES})."
            document = google_error(400, message, "INVALID_ARGUMENT")
        elif unsupported:
            message = f"Attribute TOXICITY does not support request languages: {', '.join(unsupported)}"
            document = comment_error("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE", message)
        return None if document is None else web.json_response(document, status=400)

    def _scored(self, body: dict[str, Any], text: str) -> web.Response:
        document: dict[str, Any] = {"languages": body.get("languages", ["en"]), "detectedLanguages": ["en"]}
        if not self.drop_scores:
            document["attributeScores"] = {
                name: {
                    "spanScores": [
                        {"begin": 0, "end": len(text), "score": {"value": score(name, text), "type": "PROBABILITY"}}
                    ],
                    "summaryScore": {"value": score(name, text), "type": "PROBABILITY"},
                }
                for name in body["requestedAttributes"]
            }
        return web.json_response(document)


def score(attribute: str, text: str) -> float:
    """Return the score that the fake gives."""
    digest = hashlib.sha256(f"{attribute}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def cli() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    main(
        parser,
        lambda arguments: FakePerspective(
            latency_s=arguments.latency, **({} if arguments.api_key is None else {"api_key": arguments.api_key})
        ),
    )


if __name__ == "__main__":
    cli()
