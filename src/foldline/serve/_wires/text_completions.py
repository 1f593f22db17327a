"""OpenAI's text completions, for clients that know no chat: `POST /v1/completions`. A prompt is one user message."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.messages import HumanMessage
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._sse import SseResponse
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires.answer_view import chat_request, read_chat
from foldline.serve._wires.chat_completions import (
    open_streams,
    start_runs,
    stream_choices,
    wants_usage,
)
from foldline.serve._wires.completion_view import TextChoiceView, completion_head, completion_json
from foldline.serve._wires.openai_errors import OpenAIErrors
from foldline.serve._wires.options import MOST_TOKENS, sampling, stops_of, usable_options
from foldline.serve._wires.request_parts import drop_unset

__all__ = ["routes"]

MOST_CHOICES: Final = 128
"""Prompts times answers of one request."""
UNSUPPORTED: Final[dict[str, object]] = {
    "suffix": "", "echo": False, "best_of": 1, "logprobs": None, "logit_bias": {},
}  # fmt: skip
"""Fields that would change the answer, with the values that do not."""
WIRE: Final = OpenAIErrors("completions")


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [Route("/v1/completions", server.endpoint(WIRE, complete), methods=["POST"])]


async def complete(call: WireCall) -> Response:
    """Answer prompts, each `n` times; each answer is a separate run."""
    body, app = await read_chat(call)
    prompts = _decode_prompts(body)
    options = usable_options(app, _decode_options(body))
    streams, count = body.flag("stream"), body.integer("n", 1, MOST_CHOICES) or 1
    if len(prompts) * count > MOST_CHOICES:
        raise body.refuse("n", f"times the prompts must be at most {MOST_CHOICES}")
    shows_usage = wants_usage(body)
    requests = [
        chat_request(app, [HumanMessage(prompt)], dict(options), streams=streams)
        for prompt in prompts
        for _ in range(count)
    ]
    runs = await start_runs(call, app, requests)
    head = completion_head(runs[0].info, app, is_text=True)
    views = [TextChoiceView(head, app, index) for index in range(len(runs))]
    if not streams:
        await call.wait(app, *runs)
        for view, run in zip(views, runs, strict=True):
            view.consume(await run.all_events())
        return JsonResponse(completion_json(head, views, [run.info for run in runs]))
    events = await open_streams(call, app, runs)
    pieces = stream_choices(head, views, runs, events, shows_usage=shows_usage)
    return SseResponse(pieces, on_leave=call.on_leave(app, *runs))


def _decode_prompts(body: Body) -> list[str]:
    value = body.get("prompt")
    prompts = [value] if isinstance(value, str) else value
    if (
        not isinstance(prompts, list)
        or not 0 < len(prompts) <= MOST_CHOICES
        or not all(isinstance(prompt, str) for prompt in prompts)
    ):
        raise body.refuse(
            "prompt", f"must be a text or a list of 1 to {MOST_CHOICES} texts, not of token ids"
        )
    return prompts


def _decode_options(body: Body) -> JsonObject:
    for name, neutral in UNSUPPORTED.items():
        if body.get(name) is not None and body.get(name) != neutral:
            raise body.refuse(name, "is not supported by this server")
    options: JsonObject = {
        **sampling(body),
        "max_tokens": body.integer("max_tokens", 1, MOST_TOKENS),
        "stop": stops_of(body, "stop"),
        "user": body.maybe_text("user", longest=512),
    }
    return drop_unset(options)
