"""The capabilities of OpenAI's models. The longest matching prefix of a model's name applies."""

from __future__ import annotations

from typing import Any, Final, cast

from foldline.language_models.profile import ModelProfile

__all__ = ["PROFILES"]

_IMAGE_INPUTS: Final = {
    "image_inputs": True,
    "pdf_inputs": True,
    "image_url_inputs": True,
    "image_tool_message": True,
}
_TOOL_CALLING: Final = {"tool_calling": True, "tool_choice": True, "structured_output": True}
_CHAT: Final = {"text_inputs": True, "text_outputs": True, "temperature": True, **_TOOL_CALLING}
_REASONING: Final = {
    **_CHAT,
    **_IMAGE_INPUTS,
    "reasoning_output": True,
    "temperature": False,
    "reasoning_effort_levels": ["low", "medium", "high"],
}
_LEVELS: Final = {"reasoning_effort_levels": ["none", "minimal", "low", "medium", "high", "xhigh"]}

_ROWS: Final[dict[str, dict[str, Any]]] = {
    "gpt-3.5-turbo": {
        **_CHAT,
        "image_inputs": False,
        "audio_inputs": False,
        "structured_output": False,
        "max_input_tokens": 16_385,
        "max_output_tokens": 4_096,
    },
    "gpt-4": {
        **_CHAT,
        "structured_output": False,
        "max_input_tokens": 8_192,
        "max_output_tokens": 8_192,
    },
    "gpt-4-turbo": {
        **_CHAT,
        **_IMAGE_INPUTS,
        "structured_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 4_096,
    },
    "gpt-4o": {**_CHAT, **_IMAGE_INPUTS, "max_input_tokens": 128_000, "max_output_tokens": 16_384},
    "gpt-4o-audio": {
        **_CHAT,
        "audio_inputs": True,
        "audio_outputs": True,
        "max_input_tokens": 128_000,
    },
    "gpt-audio": {
        **_CHAT,
        "audio_inputs": True,
        "audio_outputs": True,
        "max_input_tokens": 128_000,
    },
    "gpt-4.1": {
        **_CHAT,
        **_IMAGE_INPUTS,
        "max_input_tokens": 1_047_576,
        "max_output_tokens": 32_768,
    },
    "gpt-5": {**_REASONING, **_LEVELS, "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-5-chat": {
        **_CHAT,
        **_IMAGE_INPUTS,
        "reasoning_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 16_384,
    },
    "gpt-oss": {
        **_CHAT,
        "reasoning_output": True,
        "max_input_tokens": 131_072,
        "max_output_tokens": 32_768,
    },
    "o1": {**_REASONING, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o3": {**_REASONING, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o4-mini": {**_REASONING, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
}

PROFILES: Final = cast("dict[str, ModelProfile]", _ROWS)
"""Prefix of a model's name -> capabilities."""
