"""What a wrong value of each option of a chat model does, and that each right one reaches the request.

Every option of every provider's model stands in one table: `SENT` (it is part of the request) or `KEPT` (foldline uses
it). A value of a wrong type is an error at construction, of every option. `WRONG` has the values of a right type that
make no sense: numbers and words that only a vendor can judge are sent on.
"""

from __future__ import annotations

import importlib
from typing import Any

from foldline.language_models import BaseChatModel
from foldline.providers import REGISTRY
from tests.options.matrix import Row, Target, options_of

REQUIRED: dict[str, dict[str, Any]] = {
    "AzureChatOpenAI": {"azure_endpoint": "https://x.example", "api_version": "1"},
    "ChatAnthropicVertex": {"project": "p"},
    "ChatVertexAI": {"project": "p"},
    "ChatAnthropicBedrock": {"region_name": "us-east-1"},
    "ChatAnthropicMantle": {"region_name": "us-east-1"},
    "ChatOpenAIMantle": {"region_name": "us-east-1"},
    "ChatBedrockConverse": {"region_name": "us-east-1"},
    "ChatOpenAICompatible": {"provider": "groq"},
    "AzureAIChatCompletionsModel": {"base_url": "https://x.example"},
    "ChatLiteLLM": {"base_url": "http://127.0.0.1:9"},
}
"""What a model cannot be explained without."""

TOOLS = {"tools": [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]}
STREAM = {"stream": True}

SENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "additional_model_request_fields": ({"a": 1}, {}),
    "additional_model_response_field_paths": (["/a"], {}),
    "anthropic_version": ("v9", {}),
    "api_version": ("2024-01-01", {}),
    "audio": ({"voice": "a", "format": "wav"}, {}),
    "azure_deployment": ("d", {}),
    "azure_endpoint": ("https://y.example", {}),
    "background": (True, {}),
    "base_url": ("http://127.0.0.1:9/x", {}),
    "betas": (["b-1"], {}),
    "cache_control": ({"type": "ephemeral"}, {}),
    "cached_content": ("cachedContents/1", {}),
    "container": ("c1", {}),
    "context_management": ({"edits": []}, {}),
    "default_headers": ({"x-a": "b"}, {}),
    "default_query": ({"q": "1"}, {}),
    "effort": ("low", {}),
    "extra_body": ({"zz": 1}, {}),
    "frequency_penalty": (0.5, {}),
    "guardrail_config": ({"guardrailIdentifier": "g", "guardrailVersion": "1"}, {}),
    "image_config": ({"aspect_ratio": "1:1"}, {}),
    "include": (["x"], {}),
    "include_thoughts": (True, {}),
    "inference_geo": ("us", {}),
    "labels": ({"a": "b"}, {}),
    "logit_bias": ({"5": 1}, {}),
    "logprobs": (True, {}),
    "max_tokens": (17, {}),
    "max_tool_calls": (3, {}),
    "mcp_servers": ([{"type": "url", "url": "https://x.example", "name": "n"}], {}),
    "media_resolution": ("MEDIA_RESOLUTION_LOW", {}),
    "min_p": (0.1, {}),
    "modalities": (["text", "audio"], {}),
    "model": ("another", {}),
    "model_kwargs": ({"zz": 1}, {}),
    "model_options": ({"zz": 1}, {}),
    "n": (2, {}),
    "organization": ("org", {}),
    "output_config": ({"effort": "low"}, {}),
    "parallel_tool_calls": (False, TOOLS),
    "performance_config": ({"latency": "optimized"}, {}),
    "prediction": ({"type": "content", "content": "x"}, {}),
    "presence_penalty": (0.6, {}),
    "previous_response_id": ("resp_1", {}),
    "prompt_cache_key": ("k", {}),
    "prompt_cache_retention": ("24h", {}),
    "prompt_variables": ({"a": {"text": "b"}}, {}),
    "reasoning": ({"effort": "low"}, {}),
    "reasoning_effort": ("low", {}),
    "reasoning_format": ("parsed", {}),
    "region_name": ("eu-west-1", {}),
    "repeat_penalty": (1.3, {}),
    "request_metadata": ({"a": "b"}, {}),
    "response_mime_type": ("application/json", {}),
    "response_modalities": (["TEXT"], {}),
    "response_schema": ({"type": "object", "properties": {}}, {}),
    "safety_identifier": ("s", {}),
    "safety_settings": ({"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}, {}),
    "seed": (7, {}),
    "service_tier": ("flex", {}),
    "speech_config": ({"a": 1}, {}),
    "speed": ("fast", {}),
    "stop": (["END"], {}),
    "store": (True, {}),
    "temperature": (0.3, {}),
    "thinking": ({"type": "enabled", "budget_tokens": 1024}, {}),
    "thinking_budget": (100, {}),
    "thinking_level": ("low", {}),
    "top_k": (5, {}),
    "top_logprobs": (3, {}),
    "top_p": (0.4, {}),
    "truncation": ("auto", {}),
    "use_responses_api": (True, {}),
    "user": ("u1", {}),
    "verbosity": ("low", {}),
}
"""Options of the request -> a right value, and the options of a call in which it shows."""

KEPT = frozenset(
    {
        "api_key",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "azure_ad_token",
        "base_model",
        "cache",
        "callbacks",
        "context",
        "credentials",
        "custom_get_token_ids",
        "disable_streaming",
        "file_resolver",
        "foreign_blocks",
        "gpu_layers",
        "guard_last_turn_only",
        "guard_mode",
        "guards",
        "hooks",
        "http",
        "include_response_headers",
        "limits",
        "location",
        "max_input_tokens",
        "max_retries",
        "metadata",
        "name",
        "on_overflow",
        "on_unsupported",
        "output_dir",
        "output_file_type",
        "output_version",
        "profile",
        "profile_name",
        "progress",
        "project",
        "prompt_cache",
        "provider",
        "rate_limiter",
        "retry_malformed_calls",
        "retry_on_error",
        "reuse_last_container",
        "slots",
        "stream_usage",
        "streaming",
        "system",
        "tags",
        "template",
        "threads",
        "timeout",
        "transport",
        "use_previous_response_id",
        "verbose",
        "verbose_library",
        "vertexai",
    }
)
"""Options that foldline uses itself, or that show only in a stream, a history or a signature."""


def build(cls: type[BaseChatModel], **options: Any) -> BaseChatModel:
    key = {"api_key": "k"} if "api_key" in cls.model_fields else {}
    return cls(**{"model": "m", **key, **REQUIRED.get(cls.__name__, {}), **options})


def explain(model: Any, **options: Any) -> object:
    """Return all that a request shows."""
    request = model.explain("Hi", **options)
    return request.url, request.headers, request.body, request.notes


def all_classes() -> dict[str, type[BaseChatModel]]:
    """Return the class of every provider, by its name."""
    classes = {}
    for path in REGISTRY.values():
        module, _, name = path.partition(":")
        classes[name] = getattr(importlib.import_module(module), name)
    return classes


CLASSES = all_classes()
TARGETS = {
    name: Target(
        options=options_of(cls),
        build=lambda _cls=cls, **options: build(_cls, **options),
        call=lambda model: explain(model) if hasattr(model, "explain") else model,
    )
    for name, cls in CLASSES.items()
}


class Wrong:
    """A value that no option takes."""

    def __repr__(self) -> str:
        return "Wrong()"


ERROR, CALL, SENT_ON = "error at construction", "error at the call", "sent on"

NONSENSE: dict[str, tuple[Any, str, str]] = {
    "base_url": ("https://user:secret@host", ERROR, "base_url"),
    "cache": ("perhaps", ERROR, "cache"),
    "disable_streaming": ("sometimes", ERROR, "disable_streaming"),
    "foreign_blocks": ("burn", ERROR, "foreign_blocks"),
    "frequency_penalty": (99, SENT_ON, "99"),
    "guard_mode": ("never", ERROR, "guard_mode"),
    "guards": ([3], ERROR, "a list of functions"),
    "hooks": ({"nonsense": 1}, ERROR, "nonsense"),
    "http": ({"proxi": "x"}, ERROR, "did you mean 'proxy'"),
    "limits": ({"sse_lin": 1}, ERROR, "did you mean 'sse_line'"),
    "max_input_tokens": (0, ERROR, "greater than 0"),
    "max_retries": (-1, ERROR, "greater than or equal to 0"),
    "max_tokens": (-5, SENT_ON, "-5"),
    "model_options": ({"nonsense": 1}, SENT_ON, "nonsense"),
    "n": (-1, SENT_ON, "-1"),
    "on_overflow": ("explode", ERROR, "on_overflow"),
    "on_unsupported": ("explode", ERROR, "on_unsupported"),
    "output_file_type": ("paper", ERROR, "output_file_type"),
    "output_version": ("v9", ERROR, "'v0' or 'v1'"),
    "profile": ({"prices": {"input": -1}}, ERROR, "profile"),
    "prompt_cache": ({"nonsense": 1}, ERROR, "prompt_cache"),
    "reasoning_effort": ("extreme", SENT_ON, "extreme"),
    "retry_on_error": ({"nonsense": 1}, ERROR, "retry_on_error"),
    "service_tier": ("gold", SENT_ON, "gold"),
    "temperature": (99, SENT_ON, "99"),
    "timeout": (-1, ERROR, "timeout"),
    "top_logprobs": (-1, SENT_ON, "-1"),
    "top_p": (99, SENT_ON, "99"),
}
"""Values of a right type that make no sense: option -> value, outcome, a piece of the text."""

OWN_EFFORTS = frozenset(
    name
    for name in CLASSES
    if name.startswith(("ChatAnthropic", "ChatGoogle", "ChatVertex", "ChatBedrock"))
)
"""Models whose vendor takes a number of tokens: foldline translates the word, and so must know it."""

ROWS = [
    Row(name, option, Wrong(), "error at construction", option)
    for name, target in TARGETS.items()
    for option in sorted(target.options)
]


def nonsense_rows(name: str) -> list[Row]:
    """Return the rows of the table for one model."""
    rows = []
    for option, (value, outcome, match) in NONSENSE.items():
        if option == "reasoning_effort" and name in OWN_EFFORTS:
            outcome = CALL
        if option in TARGETS[name].options and (
            outcome != SENT_ON or "explain" in dir(CLASSES[name])
        ):
            rows.append(Row(name, option, value, outcome, match))
    return rows
