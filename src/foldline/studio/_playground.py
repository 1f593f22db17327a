"""Endpoints of the playground: list models, run one and stream its answer, run a tool, export as code."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from foldline._config import RunnableConfig
from foldline.chat_models import init_chat_model
from foldline.exceptions import FoldlineError, UsageError
from foldline.language_models._types import LanguageModelInput
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.profile import known_profiles
from foldline.messages import AIMessage, BaseMessage
from foldline.messages._refusal import has_refusal, refusal_of
from foldline.prices import message_cost
from foldline.providers import REGISTRY, find_provider, provider_names
from foldline.runnables.base import Runnable
from foldline.studio._answers import (
    answer_json,
    endpoint,
    event,
    plain_error,
    read_body,
    run_app_code,
    stream,
    threaded,
)
from foldline.studio._code import FORMS, write_code
from foldline.studio._messages import message_to_json, messages_from_json
from foldline.studio.settings import StudioSettings
from foldline.tracers._database_tracer import DatabaseTracer
from foldline.tracers._open import open_tracer
from foldline.tracers._redact import Redactor
from foldline.utils.json import to_jsonable

__all__ = ["PARAMETERS", "Playground"]

PARAMETERS = ("temperature", "top_p", "max_tokens", "stop", "reasoning_effort")
"""What a request may set; addresses, keys and headers are the server's own."""
LOCAL = "local:smollm2"
MOST_LISTED = 400


class Playground:
    """The endpoints of the playground."""

    def __init__(self, settings: StudioSettings) -> None:
        self._settings = settings
        self._tracer: DatabaseTracer | None = None
        self._redactor = Redactor()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/models", endpoint(self.models)),
            Route("/api/chat", endpoint(self.chat), methods=["POST"]),
            Route("/api/tools/{name}", endpoint(self.call_tool), methods=["POST"]),
            Route("/api/code", endpoint(self.code), methods=["POST"]),
        ]

    def tracer(self) -> DatabaseTracer:
        """Return the tracer of the runs that the page starts."""
        if self._tracer is None:
            self._tracer = open_tracer(self._settings.traces)
        return self._tracer

    def close(self) -> None:
        """Write what was traced."""
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None

    def make_model(self, name: str, parameters: dict[str, Any]) -> BaseChatModel:
        """Make the model that a request names, with the parameters that requests may set."""
        unknown = sorted(set(parameters) - set(PARAMETERS))
        if unknown:
            raise UsageError(f"a request may set {', '.join(PARAMETERS)}, not {', '.join(unknown)}")
        options = {key: value for key, value in parameters.items() if value not in (None, "")}
        if self._settings.make_model is not None:
            return self._settings.make_model(name, options)
        provider, colon, model_name = name.partition(":")
        if not colon or not model_name or provider not in provider_names():
            raise UsageError(f"write provider:model, for example {LOCAL}; {name!r} is not a model")
        if provider == "local" and ("/" in model_name or "\\" in model_name):
            raise UsageError("a model of a file is named when the studio is started: --model")
        model: BaseChatModel = init_chat_model(name, **options)
        return model

    @staticmethod
    def cost_of(message: object) -> float | None:
        """Return what an answer cost."""
        return message_cost(message)

    async def models(self, request: Request) -> Response:
        """Return the models that can be used now."""
        names = await threaded(self._model_names)
        tools = [
            {
                "name": name,
                "description": str(tool.description or "")[:1_000],
                "schema": to_jsonable(tool.get_input_jsonschema()),
            }
            for name, tool in self._settings.tools.items()
        ]
        return answer_json({"models": names, "tools": tools, "parameters": list(PARAMETERS)})

    def _model_names(self) -> list[str]:
        names = list(self._settings.models)
        if self._settings.make_model is None:
            names.append(LOCAL)
            for provider in REGISTRY:
                with suppress(FoldlineError, ImportError):
                    if provider != "local" and _has_key(provider):
                        names += [f"{provider}:{model}" for model in known_profiles(provider)]
        return list(dict.fromkeys(names))[:MOST_LISTED]

    async def chat(self, request: Request) -> Response:
        """Run a model and stream its answer."""
        body = await read_body(request)
        model = await threaded(
            self.make_model, str(body.get("model") or ""), dict(body.get("parameters") or {})
        )
        messages = messages_from_json(list(body.get("messages") or []))
        if not messages:
            raise UsageError("the request has no messages: send at least one")
        names = [str(name) for name in body.get("tools") or []]
        if unknown := [name for name in names if name not in self._settings.tools]:
            raise UsageError(f"this studio has no tool {unknown[0]!r}: start it with --tool")
        bound_model: Runnable[LanguageModelInput, AIMessage] = model
        if names:
            bound_model = model.bind_tools([self._settings.tools[name] for name in names])
        schema = body.get("schema")
        if schema:
            schema = {"title": "answer", **schema}
            return stream(self._answer_schema(model, messages, schema, body))
        return stream(self._answer(bound_model, messages, body))

    def _config(self, body: dict[str, Any]) -> RunnableConfig:
        metadata: dict[str, Any] = {"studio": "playground"}
        if body.get("forked_from"):
            metadata["forked_from"] = str(body["forked_from"])[:100]
        return {
            "callbacks": [self.tracer()],
            "run_name": "studio playground",
            "metadata": metadata,
            "tags": ["playground"],
        }

    async def _answer(
        self,
        model: Runnable[LanguageModelInput, AIMessage],
        messages: list[Any],
        body: dict[str, Any],
    ) -> AsyncGenerator[bytes, None]:
        answer: Any = None
        try:
            async for chunk in model.astream(messages, self._config(body)):
                answer = chunk if answer is None else answer + chunk
                for block in chunk.content_blocks:
                    if block["type"] == "text" and block.get("text"):
                        yield event("text", block["text"])
                    elif block["type"] == "reasoning" and block.get("reasoning"):
                        yield event("reasoning", block["reasoning"])
        except Exception as error:  # noqa: BLE001  the answer has begun: the page shows what went wrong
            yield event("error", {"error": self._plain(error), "partial": answer is not None})
            return
        if answer is None:
            yield event("error", {"error": "the model gave no answer", "partial": False})
            return
        if has_refusal(answer):
            yield event("text", (refusal_of(answer) or {}).get("refusal") or "(refused)")
        yield event("end", _end(answer))

    async def _answer_schema(
        self,
        model: BaseChatModel,
        messages: list[Any],
        schema: dict[str, Any],
        body: dict[str, Any],
    ) -> AsyncGenerator[bytes, None]:
        try:
            structured = model.with_structured_output(schema, include_raw=True)
            outcome = await structured.ainvoke(messages, self._config(body))
        except Exception as error:  # noqa: BLE001  the answer has begun: the page shows what went wrong
            yield event("error", {"error": self._plain(error), "partial": False})
            return
        end = _end(outcome["raw"])
        end["parsed"] = to_jsonable(outcome.get("parsed"))
        if outcome.get("parsing_error") is not None:
            end["parsing_error"] = self._plain(outcome["parsing_error"])
        yield event("end", end)

    def _plain(self, error: BaseException) -> str:
        return plain_error(error)

    async def call_tool(self, request: Request) -> Response:
        """Run a tool of this studio."""
        name = request.path_params["name"]
        tool = self._settings.tools.get(name)
        if tool is None:
            raise LookupError(f"this studio has no tool {name!r}")
        body = await read_body(request)
        call = {
            "name": name,
            "args": body.get("args") or {},
            "id": str(body.get("id") or name),
            "type": "tool_call",
        }
        config: RunnableConfig = {"callbacks": [self.tracer()], "tags": ["playground"]}
        result = await run_app_code(tool.ainvoke(call, config))
        return answer_json({"message": message_to_json(result)})

    async def code(self, request: Request) -> Response:
        """Return the state of the playground as Python code, a test or a prompt file."""
        body = await read_body(request)
        form = str(body.get("form") or "python")
        if form not in FORMS:
            raise UsageError(f"form is one of {', '.join(FORMS)}, not {form!r}")
        return PlainTextResponse(write_code(form, body))


def _has_key(provider: str) -> bool:
    """Whether the environment has a key of a provider."""
    from foldline.providers._completions.model import CompletionsModel  # noqa: PLC0415

    kind = find_provider(provider)
    variables: list[str] = [f"{provider.upper()}_API_KEY"]
    if issubclass(kind, CompletionsModel):
        with suppress(Exception):
            variables += list(kind.host_of().keys)  # type: ignore[attr-defined]
    return any(os.environ.get(name) for name in variables)


def _end(message: BaseMessage) -> dict[str, Any]:
    return {
        "message": message_to_json(message),
        "usage": to_jsonable(getattr(message, "usage_metadata", None)),
        "cost": message_cost(message),
        "run_id": str(message.id or "").removeprefix("lc_run--").removeprefix("run--")[:36] or None,
    }
