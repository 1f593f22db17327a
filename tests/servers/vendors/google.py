"""Google's contents."""

from __future__ import annotations

from typing import Any

from tests.servers.vendors.replies import USAGE, Request, as_json, as_sse, reply_to, with_text


def read_google(body: dict[str, Any]) -> Request:
    """Read a request for contents of Gemini's."""
    declarations = [
        declaration
        for tool in body.get("tools") or []
        for declaration in tool.get("functionDeclarations") or []
    ]
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    names = calling.get("allowedFunctionNames") or [None]
    options = body.get("generationConfig") or {}
    schema = options.get("responseJsonSchema") or options.get("responseSchema")
    is_json = options.get("responseMimeType") == "application/json"
    return Request(
        [
            (
                declaration["name"],
                declaration.get("parametersJsonSchema") or declaration.get("parameters") or {},
            )
            for declaration in declarations
        ],
        "none" if calling.get("mode") == "NONE" else names[0],
        schema,
        is_json,
        any("functionResponse" in part for part in body["contents"][-1]["parts"]),
    )


def google(body: dict[str, Any], *, is_stream: bool) -> tuple[str, bytes]:
    """Answer with contents of Gemini's."""
    reply = reply_to(with_text(read_google(body), body))
    parts: list[dict[str, Any]] = [{"text": word} for word in reply.words]
    if reply.call is not None:
        parts = [{"functionCall": {"name": reply.call[0], "args": reply.call[1]}}]
    usage = dict(
        zip(
            ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
            (*USAGE, 11),
            strict=True,
        )
    )
    if not is_stream:
        content_parts = parts if reply.call is not None else [{"text": reply.text}]
        candidate = {
            "content": {"role": "model", "parts": content_parts},
            "finishReason": "STOP",
            "index": 0,
        }
        return as_json(
            {
                "candidates": [candidate],
                "usageMetadata": usage,
                "modelVersion": "m",
                "responseId": "r1",
            }
        )
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = usage
    return as_sse([{**chunk, "modelVersion": "m", "responseId": "r1"} for chunk in chunks])
