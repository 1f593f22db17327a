"""The request body of a model, checked by botocore's own model of the API."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from foldline.messages import HumanMessage
from foldline.providers.bedrock import ChatBedrockConverse

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OWNER = {"bucketOwner": "123456789012"}
CITED = {"enabled": True}
PNG = {"type": "image", "base64": "AAEC", "mime_type": "image/png"}
API = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def add(a: int, b: int = 0) -> int:
    """Add numbers."""
    return a + b


def explain(messages: Any, stream: bool = False, fields: Any = None, **options: Any) -> Any:
    model = ChatBedrockConverse(**{"model": CLAUDE, "region_name": "us-east-1", **(fields or {})})
    return model.explain(messages, stream=stream, **options)


def body_of(messages: Any, fields: Any = None, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = explain(messages, fields=fields, **options).body
    check_body(body)
    return body


def check_body(body: dict[str, Any]) -> None:
    """botocore validates a request before it would send it; bytes must be bytes there."""
    shape = API.operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": "m", **with_bytes(body)}, shape)
    assert not report.has_errors(), report.generate_report()


def with_bytes(value: Any, key: str = "") -> Any:
    if key in ("bytes", "redactedContent"):
        return b64decode(value)
    if isinstance(value, dict):
        return {name: with_bytes(part, name) for name, part in value.items()}
    return [with_bytes(part) for part in value] if isinstance(value, list) else value


def turn(*blocks: Any, **options: Any) -> list[Any]:
    content = body_of([HumanMessage(list(blocks))], **options)["messages"][0]["content"]
    assert isinstance(content, list)
    return content
