"""A fake of OpenAI's batch interface over the fake of its API: files, batches, their life, their results.

A batch is answered by the same code that answers a live request. It moves by one step of its life each time it is asked
after (or stays where :attr:`hold` says; or is over at once, where :attr:`swift`), so that tests need no clock.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from fake_base import Fault
from fake_openai import FakeOpenAI, error_body

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

LIFE = ("validating", "in_progress", "finalizing", "completed")
FINAL = ("completed", "failed", "expired", "cancelled")


@dataclass
class FakeFile:
    id: str
    filename: str
    content: bytes
    purpose: str
    created_at: int

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass
class FakeBatch:
    id: str
    endpoint: str
    input_file_id: str
    metadata: dict[str, str]
    created_at: int
    life: list[str]
    """Statuses to come; the first one is the present one."""
    total: int = 0
    output: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    output_file_id: str | None = None
    error_file_id: str | None = None
    problems: list[dict[str, Any]] = field(default_factory=list)
    completed_at: int = 0

    @property
    def status(self) -> str:
        return self.life[0]

    def document(self) -> dict[str, Any]:
        over = self.status in FINAL
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": self.problems} if self.problems else None,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file_id if over else None,
            "error_file_id": self.error_file_id if over else None,
            "created_at": self.created_at,
            "expires_at": self.created_at + 86400,
            "completed_at": self.completed_at if self.status == "completed" else None,
            "request_counts": {
                "total": self.total,
                "completed": len(self.output) if over else 0,
                "failed": len(self.errors) if over else 0,
            },
            "metadata": self.metadata,
        }


@dataclass
class Point:
    """A place in the life of a request where it stops until it is let go: the client is killed there."""

    method: str
    path: str
    after: bool
    """Whether the request is carried out before it stops."""
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


class FakeOpenAIBatch(FakeOpenAI):
    """Serves batches too."""

    def __init__(self, *, hold: str | None = None, end: str = "completed", swift: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.swift = swift
        self.hold = hold
        """A status at which batches stay; None: they go on to ``end``."""
        self.end = end
        """How batches end: completed, expired, cancelled, failed."""
        self.done_before_the_end: int | None = None
        """Of a batch that does not complete: how many requests are answered all the same."""
        self.problems: list[dict[str, Any]] = []
        """Why batches fail."""
        self.change: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        """What happens to the lines of output files."""
        self.change_errors: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.line_faults: dict[str, Fault] = {}
        """Part of a text -> what the endpoint answers to it."""
        self.unseen = 0
        """So many batch creations do not find their file, which was just uploaded."""
        self.files: dict[str, FakeFile] = {}
        self.batches: dict[str, FakeBatch] = {}
        self.uploads = 0
        self.calls: list[str] = []
        self.faults_at: dict[tuple[str, str, bool], list[Fault]] = {}
        self.points: list[Point] = []

    # -- scripting ---------------------------------------------------------------------------------------------------

    def fail_at(self, method: str, path: str, fault: Fault, *, after: bool = False, times: int = 1) -> None:
        """Let requests of a route fail, before or after they are carried out."""
        self.faults_at.setdefault((method, path, after), []).extend([fault] * times)

    def stop_at(self, method: str, path: str, *, after: bool) -> Point:
        """Let the next request of a route stop, before or after it is carried out."""
        point = Point(method, path, after)
        self.points.append(point)
        return point

    # -- routes ------------------------------------------------------------------------------------------------------

    def routes(self) -> list[web.RouteDef]:
        *known, nowhere = super().routes()
        return [
            *known,
            web.post("/v1/files", self._route("/files", self.upload)),
            web.get("/v1/files", self._route("/files", self.list_files)),
            web.get("/v1/files/{id}/content", self._route("/content", self.content)),
            web.post("/v1/batches", self._route("/batches", self.create)),
            web.get("/v1/batches", self._route("/batches", self.list_batches)),
            web.get("/v1/batches/{id}", self._route("/batches/id", self.retrieve)),
            web.post("/v1/batches/{id}/cancel", self._route("/cancel", self.cancel)),
            nowhere,
        ]

    def _route(self, path: str, handler: Any) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.calls.append(f"{request.method} {path}")
            refused = self.refuse_key(request)
            if refused is not None:
                return refused
            await self._stop(request.method, path, after=False)
            fault = self._fault_at(request.method, path, after=False)
            if fault is not None:
                await request.read()
                return await self._play(request, fault, web.Response)
            response: web.Response = await handler(request)
            await self._stop(request.method, path, after=True)
            fault = self._fault_at(request.method, path, after=True)
            return response if fault is None else await self._play(request, fault, lambda: response)

        return handle

    async def _stop(self, method: str, path: str, *, after: bool) -> None:
        for point in self.points:
            if (point.method, point.path, point.after) == (method, path, after):
                self.points.remove(point)
                point.reached.set()
                while not point.released.is_set():  # noqa: ASYNC110 - a thread sets it
                    await asyncio.sleep(0.005)
                return

    def _fault_at(self, method: str, path: str, *, after: bool) -> Fault | None:
        queue = self.faults_at.get((method, path, after))
        return queue.pop(0) if queue else None

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        sent = form["file"]
        assert isinstance(sent, web.FileField)
        self.uploads += 1
        file = self.put(sent.file.read(), sent.filename, str(form["purpose"]))
        return web.json_response(file.document())

    def put(self, content: bytes, filename: str, purpose: str) -> FakeFile:
        file = FakeFile(self.next_id("file-"), filename, content, purpose, int(time.time()))
        self.files[file.id] = file
        return file

    async def list_files(self, request: web.Request) -> web.Response:
        known = [file for file in reversed(self.files.values()) if file.purpose == request.query.get("purpose")]
        return web.json_response(_page([file.document() for file in known], request))

    async def content(self, request: web.Request) -> web.Response:
        file = self.files.get(request.match_info["id"])
        if file is None:
            return _missing(f"No such File object: {request.match_info['id']}")
        return web.Response(body=file.content, content_type="application/octet-stream")

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["input_file_id"] not in self.files or self.unseen > 0:
            self.unseen -= 1
            text = f"Cannot find file {body['input_file_id']}, or project does not have access to it."
            return web.json_response(error_body(text, "invalid_request_error", None, "file_id"), status=400)
        assert body["completion_window"] == "24h"
        life = (
            [*(LIFE[:1] if self.swift else LIFE[:-1]), self.end] if self.end != "failed" else ["validating", "failed"]
        )
        batch = FakeBatch(
            self.next_id("batch_"),
            body["endpoint"],
            body["input_file_id"],
            body.get("metadata") or {},
            int(time.time()),
            life,
        )
        self.batches[batch.id] = batch
        return web.json_response(batch.document())

    async def list_batches(self, request: web.Request) -> web.Response:
        return web.json_response(_page([batch.document() for batch in reversed(self.batches.values())], request))

    async def retrieve(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _missing(f"No batch found with id '{request.match_info['id']}'.")
        if batch.status not in FINAL and batch.status != self.hold:
            batch.life.pop(0)
            if batch.status in FINAL:
                self._finish(batch)
        return web.json_response(batch.document())

    async def cancel(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        batch.life = ["cancelling", "cancelled"]
        return web.json_response(batch.document())

    # -- answering ---------------------------------------------------------------------------------------------------

    def _finish(self, batch: FakeBatch) -> None:
        requests = [json.loads(line) for line in self.files[batch.input_file_id].content.splitlines()]
        batch.total = len(requests)
        if batch.status == "failed":
            batch.problems = list(self.problems)
            return
        many = len(requests) if batch.status == "completed" else self.done_before_the_end
        for number, request in enumerate(requests):
            if many is not None and number >= many:
                code = f"batch_{batch.status}"
                batch.errors.append(
                    _line(self, request, None, {"code": code, "message": "It was not executed in time."})
                )
            else:
                self._answer(batch, request)
        # Order is not guaranteed.
        batch.completed_at = int(time.time())
        output, errors = self.change(batch.output[::-1]), self.change_errors(batch.errors)
        batch.output, batch.errors = list(output), list(errors)
        if output:
            batch.output_file_id = self.put(b"".join(output), "batch_output.jsonl", "batch_output").id
        if errors:
            batch.error_file_id = self.put(b"".join(errors), "batch_error.jsonl", "batch_output").id

    def _answer(self, batch: FakeBatch, request: dict[str, Any]) -> None:
        assert request["method"] == "POST"
        assert request["url"] == batch.endpoint
        body = request["body"]
        chat = request["url"].endswith("/chat/completions")
        said = "\n".join(str(m["content"]) for m in body["messages"]) if chat else body["input"]
        self.sent[said] += 1
        self.bodies.append(body)
        fault = next((fault for part, fault in self.line_faults.items() if part in said), None)
        if fault is not None:
            response = {"status_code": fault.status, "request_id": self.next_id("req_"), "body": fault.body}
            batch.errors.append(_line(self, request, response, None))
            return
        document = self._chat(body, said) if chat else self.moderated(body, said)
        response = {"status_code": 200, "request_id": self.next_id("req_"), "body": document}
        batch.output.append(_line(self, request, response, None))

    def moderated(self, body: dict[str, Any], said: str) -> dict[str, Any]:
        from fake_openai import moderated

        return {
            "id": self.next_id("modr-"),
            "model": self.models[body["model"]],
            "results": [moderated(said, self.answer(said))],
        }


def _line(server: FakeOpenAIBatch, request: dict[str, Any], response: Any, error: Any) -> bytes:
    document = {
        "id": server.next_id("batch_req_"),
        "custom_id": request["custom_id"],
        "response": response,
        "error": error,
    }
    return json.dumps(document).encode() + b"\n"


def _page(documents: list[dict[str, Any]], request: web.Request) -> dict[str, Any]:
    limit, after = int(request.query.get("limit", "20")), request.query.get("after")
    if after is not None:
        place = next(number for number, document in enumerate(documents) if document["id"] == after)
        documents = documents[place + 1 :]
    return {"object": "list", "data": documents[:limit], "has_more": len(documents) > limit}


def _missing(text: str) -> web.Response:
    return web.json_response(error_body(text, "invalid_request_error", None), status=404)


def served(**more: Any) -> AbstractContextManager[FakeOpenAIBatch]:
    """Run one in a thread of its own."""
    from fake_base import in_thread

    return in_thread(FakeOpenAIBatch(**more))
