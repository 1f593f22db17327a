"""OpenAI's models and embeddings: `GET /v1/models`, `POST /v1/embeddings`."""

from __future__ import annotations

import base64
import struct
import time
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline._io import ASYNC
from foldline.exceptions import FoldlineError
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires.openai_errors import OpenAIErrors
from foldline.serve.apps import ServedApp
from foldline.text_splitters.base import tiktoken_encoding

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


def _is_anthropic(call: WireCall) -> bool:
    return "anthropic-version" in call.request.headers


def _anthropic_json(app: ServedApp) -> JsonObject:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"type": "model", "id": app.name, "display_name": app.label, "created_at": created}


async def list_models(call: WireCall) -> Response:
    """List the models that the caller may use, in the form of the client's API."""
    key = call.caller.key
    apps = [app for app in call.server.apps.values() if key is None or key.allows(app.name)]
    if _is_anthropic(call):
        models = [_anthropic_json(app) for app in apps]
        ends = {"first_id": apps[0].name, "last_id": apps[-1].name} if apps else {}
        return JsonResponse({"data": models, "has_more": False, **ends})
    now = int(time.time())
    return JsonResponse({"object": "list", "data": [_model_json(app, now) for app in apps]})


async def show_model(call: WireCall) -> Response:
    """Show a model."""
    app = call.app(call.path("model"))
    is_anthropic = _is_anthropic(call)
    return JsonResponse(
        _anthropic_json(app) if is_anthropic else _model_json(app, int(time.time()))
    )


async def embed(call: WireCall) -> Response:
    """Turn texts into vectors."""
    body = await call.body()
    app = _embeddings_app(call, body)
    texts = await _decode_texts(body, app, call.server.settings.max_batch * 8)
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


async def _decode_texts(body: Body, app: ServedApp, most: int) -> list[str]:
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if isinstance(texts, list) and texts and all(map(_is_token, texts)):
        texts = [texts]  # one text, as token ids
    if isinstance(texts, list) and 0 < len(texts) <= most and isinstance(texts[0], list):
        texts = await ASYNC.call(_decode_tokens, body, app, texts)
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= most
        or not all(isinstance(text, str) and text for text in texts)
    ):
        raise body.refuse("input", f"must be a text or a list of 1 to {most} texts, none empty")
    return texts


def _is_token(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _decode_tokens(body: Body, app: ServedApp, rows: list[Any]) -> list[str]:
    """Return the texts of lists of token ids, which some clients of OpenAI send instead of texts."""
    if not all(isinstance(row, list) and row and all(map(_is_token, row)) for row in rows):
        raise body.refuse("input", "must be texts, or lists of token ids")
    model = str(getattr(app.target, "model", None) or app.name.rpartition(":")[2])
    try:
        encoding = tiktoken_encoding("", model)
        return [encoding.decode(row) for row in rows]
    except (
        FoldlineError,
        KeyError,
        ValueError,
    ) as error:  # no package, model or token of that name
        raise body.refuse(
            "input",
            f"has token ids, which cannot be decoded for {app.name!r}: send texts (in LangChain's OpenAIEmbeddings, "
            "check_embedding_ctx_length=False)",
        ) from error


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
