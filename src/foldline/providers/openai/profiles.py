"""What OpenAI's model families can do: data, no code. Of rows that a model's name begins with, the longest wins."""

from __future__ import annotations

from typing import Any, Final, cast

from foldline.language_models.profile import ModelProfile

__all__ = ["PROFILES"]

_SEES: Final = {
    "image_inputs": True,
    "pdf_inputs": True,
    "image_url_inputs": True,
    "image_tool_message": True,
}
_CALLS: Final = {"tool_calling": True, "tool_choice": True, "structured_output": True}
_CHATS: Final = {"text_inputs": True, "text_outputs": True, "temperature": True, **_CALLS}
_THINKS: Final = {
    **_CHATS,
    **_SEES,
    "reasoning_output": True,
    "temperature": False,
    "reasoning_effort_levels": ["low", "medium", "high"],
}
_LEVELS: Final = {"reasoning_effort_levels": ["none", "minimal", "low", "medium", "high", "xhigh"]}

_ROWS: Final[dict[str, dict[str, Any]]] = {
    "gpt-3.5-turbo": {
        **_CHATS,
        "image_inputs": False,
        "audio_inputs": False,
        "structured_output": False,
        "max_input_tokens": 16_385,
        "max_output_tokens": 4_096,
    },
    "gpt-4": {
        **_CHATS,
        "structured_output": False,
        "max_input_tokens": 8_192,
        "max_output_tokens": 8_192,
    },
    "gpt-4-turbo": {
        **_CHATS,
        **_SEES,
        "structured_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 4_096,
    },
    "gpt-4o": {**_CHATS, **_SEES, "max_input_tokens": 128_000, "max_output_tokens": 16_384},
    "gpt-4o-audio": {
        **_CHATS,
        "audio_inputs": True,
        "audio_outputs": True,
        "max_input_tokens": 128_000,
    },
    "gpt-audio": {
        **_CHATS,
        "audio_inputs": True,
        "audio_outputs": True,
        "max_input_tokens": 128_000,
    },
    "gpt-4.1": {**_CHATS, **_SEES, "max_input_tokens": 1_047_576, "max_output_tokens": 32_768},
    "gpt-5": {**_THINKS, **_LEVELS, "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-5-chat": {
        **_CHATS,
        **_SEES,
        "reasoning_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 16_384,
    },
    "gpt-oss": {
        **_CHATS,
        "reasoning_output": True,
        "max_input_tokens": 131_072,
        "max_output_tokens": 32_768,
    },
    "o1": {**_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o3": {**_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o4-mini": {**_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
}

PROFILES: Final = cast("dict[str, ModelProfile]", _ROWS)
"""Beginning of a model's name -> what it can do."""
