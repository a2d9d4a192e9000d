"""The LitServe part: one worker process with the model, one process that speaks HTTP.

No ``from __future__ import annotations`` here: LitServe and FastAPI look at the annotations of methods.
"""

import logging
import signal
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.responses import JSONResponse

from hatevolution import __version__
from hatevolution.adapters.seq2seq_server.engine import Engine, Generated, Prompt
from hatevolution.adapters.seq2seq_server.litserve_fixed import LitAPI, LitServer
from hatevolution.adapters.seq2seq_server.options import Options
from hatevolution.adapters.seq2seq_server.wire import CompletionRequest, completion, error, stopped_at

__all__ = ["Completions", "make_server", "serve"]

_MOST_REQUESTS = 64
"""Requests that the worker takes from the queue at once; the engine makes batches of equal length out of them."""


class Completions(LitAPI):  # type: ignore[misc] # LitServe ships no types
    """What the worker process does with the requests that it is handed together.

    LitServe lets an exception in one request fail all that were taken together; so nothing raises here that is one
    request's fault, and a refusal is a response like any other.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(max_batch_size=_MOST_REQUESTS, batch_timeout=options.batch_wait_s, api_path="/v1/completions")
        self._options = options
        self._engine: Engine | None = None
        self._fingerprint = ""

    def setup(self, device: str) -> None:
        """Load the model; called once, in the worker process."""
        import transformers

        engine = Engine.load(self._options, device)
        number = self._options.quantization or engine.dtype
        self._fingerprint = f"seq2seq-{__version__}-transformers-{transformers.__version__}-{number}"
        self._engine = engine

    def decode_request(self, request: CompletionRequest) -> CompletionRequest:
        """Return the request, which FastAPI has checked."""
        return request

    def batch(self, inputs: list[CompletionRequest]) -> list[CompletionRequest]:
        """Return the requests as they are."""
        return inputs

    def predict(self, requests: list[CompletionRequest]) -> list[Response]:
        """Answer some requests together."""
        engine = self._engine
        assert engine is not None  # noqa: S101 - LitServe calls setup first
        encoded: list[list[list[int]]] = []
        refused: list[Response | None] = []
        for request in requests:
            ids, response = self._encode(engine, request)
            encoded.append(ids)
            refused.append(response)
        outputs = iter(
            engine.generate(
                [
                    Prompt(ids, request.max_tokens or 16)
                    for request, prompts in zip(requests, encoded, strict=True)
                    for ids in prompts
                ]
            )
        )
        responses = []
        for request, prompts, response in zip(requests, encoded, refused, strict=True):
            mine = [stopped_at(next(outputs), request.stop) for _ in prompts]
            responses.append(response or self._answer(request, prompts, mine))
        return responses

    def unbatch(self, output: list[Response]) -> list[Response]:
        """Return the responses as they are."""
        return output

    def encode_response(self, output: Response) -> Response:
        """Return the response as it is."""
        return output

    def _encode(self, engine: Engine, request: CompletionRequest) -> tuple[list[list[int]], Response | None]:
        """Return the prompts' tokens, or none and the refusal."""
        if request.model not in (None, self._options.served_model_name):
            return [], _refusal(404, f"The model {request.model!r} does not exist.", "NotFoundError", "model")
        try:
            ids = engine.encode(request.prompts, request.truncate_prompt_tokens)
        except Exception as fault:  # a text that the tokeniser can't take must not harm the others
            logging.getLogger("hatevolution").warning("not tokenised: %s", type(fault).__name__)
            return [], _refusal(400, "The tokeniser can't take this prompt.", "BadRequestError", "prompt")
        most, longest = self._options.max_model_len, max(map(len, ids))
        if most is not None and longest > most:
            message = f"This model takes at most {most} tokens, and the prompt has {longest}."
            return [], _refusal(400, message, "BadRequestError", "input_tokens")
        return ids, None

    def _answer(self, request: CompletionRequest, prompts: list[list[int]], outputs: Sequence[Generated]) -> Response:
        name = self._options.served_model_name
        return JSONResponse(completion(request, prompts, outputs, model=name, fingerprint=self._fingerprint))


def _refusal(status: int, message: str, kind: str, param: str | None = None) -> JSONResponse:
    return JSONResponse(error(status, message, kind, param), status)


def make_server(options: Options) -> LitServer:
    """Return the server, not yet running."""
    server = LitServer(
        Completions(options), accelerator=options.device, devices=1, timeout=False, disable_openapi_url=True
    )
    app, name = server.app, options.served_model_name

    @app.get("/v1/models")  # type: ignore[untyped-decorator]
    async def models() -> dict[str, Any]:
        card = {
            "id": name,
            "object": "model",
            "owned_by": "hatevolution",
            "root": options.model if options.revision is None else f"{options.model}@{options.revision}",
            "max_model_len": options.max_model_len,
        }
        return {"object": "list", "data": [card]}

    @app.get("/version")  # type: ignore[untyped-decorator]
    async def version() -> dict[str, str]:
        return {"version": f"hatevolution-seq2seq {__version__}"}

    @app.exception_handler(RequestValidationError)  # type: ignore[untyped-decorator]
    async def invalid(_request: Request, fault: RequestValidationError) -> Response:
        first = fault.errors()[0]
        field = next((part for part in first["loc"][1:] if isinstance(part, str)), None)
        return _refusal(400, f"{field or 'body'}: {first['msg']}", "BadRequestError", field)

    @app.exception_handler(HTTPException)  # type: ignore[untyped-decorator]
    async def failed(_request: Request, fault: HTTPException) -> Response:
        kind = "InternalServerError" if fault.status_code >= 500 else "BadRequestError"
        return _refusal(fault.status_code, str(fault.detail), kind)

    return server


def serve(options: Options) -> None:
    """Serve until the process is told to stop."""
    # LitServe ends its worker on Ctrl-C alone; by SIGTERM the main process would go and leave the model in memory.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    make_server(options).run(
        host=options.host,
        port=options.port,
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
