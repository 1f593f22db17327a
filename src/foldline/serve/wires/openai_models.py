"""OpenAI's models and embeddings: `GET /v1/models`, `POST /v1/embeddings`."""

from __future__ import annotations

import base64
import struct
import time
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.serve.apps import ServedApp
from foldline.serve.body import Body
from foldline.serve.json_object import JsonObject
from foldline.serve.server import JsonResponse, Server, WireCall
from foldline.serve.wires.openai_errors import OpenAIErrors

__all__ = ["routes"]

WIRE: Final = OpenAIErrors("openai")


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/v1/models", server.endpoint(WIRE, list_models), methods=["GET"]),
        Route("/v1/models/{model:path}", server.endpoint(WIRE, show_model), methods=["GET"]),
        Route("/v1/embeddings", server.endpoint(WIRE, embed), methods=["POST"]),
    ]


def _model_json(app: ServedApp, created: int) -> JsonObject:
    owner = app.label.partition(":")[0] if app.model is not None else "foldline"
    return {"id": app.name, "object": "model", "created": created, "owned_by": owner}


async def list_models(call: WireCall) -> Response:
    """List the models that the caller may use."""
    key = call.caller.key
    apps = [app for app in call.server.apps.values() if key is None or key.allows(app.name)]
    now = int(time.time())
    return JsonResponse({"object": "list", "data": [_model_json(app, now) for app in apps]})


async def show_model(call: WireCall) -> Response:
    """Show a model."""
    return JsonResponse(_model_json(call.app(call.path("model")), int(time.time())))


async def embed(call: WireCall) -> Response:
    """Turn texts into vectors."""
    body = await call.body()
    app = _embeddings_app(call, body)
    texts = _decode_texts(body, call.server.settings.max_batch * 8)
    form = body.text("encoding_format", "float", longest=16)
    vectors = await call.server.host.embed(call.caller, app, texts)
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": vector if form == "float" else _packed(vector),
        }
        for place, vector in enumerate(vectors)
    ]
    tokens = sum(len(text) for text in texts) // 4 + 1
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JsonResponse({"object": "list", "data": data, "model": app.name, "usage": usage})


def _embeddings_app(call: WireCall, body: Body) -> ServedApp:
    name = body.name("model")
    if name is None:
        apps = [app for app in call.server.apps.values() if app.kind == "embeddings"]
        if len(apps) != 1:
            raise body.refuse("model", "is needed")
        name = apps[0].name
    app = call.app(name)
    if app.kind != "embeddings":
        raise body.refuse("model", "is not an embeddings model")
    return app


def _decode_texts(body: Body, most: int) -> list[str]:
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= most
        or not all(isinstance(text, str) and text for text in texts)
    ):
        raise body.refuse("input", f"must be a text or a list of 1 to {most} texts, none empty")
    return texts


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
