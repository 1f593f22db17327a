"""The capabilities of Gemini models. The longest matching prefix of a model's name applies."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["PROFILES"]


ALL: Final[dict[str, Any]] = {
    "max_input_tokens": 1_048_576,
    "max_output_tokens": 65_536,
    "text_inputs": True,
    "image_inputs": True,
    "image_url_inputs": True,
    "pdf_inputs": True,
    "audio_inputs": True,
    "video_inputs": True,
    "image_tool_message": False,
    "text_outputs": True,
    "image_outputs": False,
    "audio_outputs": False,
    "video_outputs": False,
    "tool_calling": True,
    "tool_choice": True,
    "tool_call_streaming": False,
    "structured_output": True,
    "structured_output_with_tools": False,
    "json_mode": True,
    "tool_name_pattern": "[a-zA-Z0-9_.:-]",
    "tool_name_length": 64,
    "unsupported_options": ["logit_bias", "user", "verbosity"],
}
BUDGETS: Final = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}
LEVELS: Final = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}


def _budget(minimum: int, maximum: int) -> dict[str, Any]:
    rules = {"form": "budget", "levels": BUDGETS, "minimum": minimum, "maximum": maximum}
    return {"reasoning_output": True, "reasoning": rules}


def _level(*names: str) -> dict[str, Any]:
    rules = {"form": "level", "levels": {name: LEVELS[name] for name in names}}
    return {"reasoning_output": True, "reasoning": rules}


GEMINI_3: Final[dict[str, Any]] = {
    "thought_signatures": True,
    "image_tool_message": True,
    "pdf_tool_message": True,
    "structured_output_with_tools": True,
}
IMAGE_MODEL: Final[dict[str, Any]] = {
    "image_outputs": True,
    "max_output_tokens": 32_768,
    "tool_calling": False,
}

PROFILES: Final[dict[str, Any]] = {
    "gemini-": ALL,
    "gemini-1.5": {"max_output_tokens": 8192, "reasoning_output": False},
    "gemini-2.0": {"max_output_tokens": 8192, "reasoning_output": False},
    "gemini-2.5-pro": _budget(128, 32_768),
    "gemini-2.5-flash": _budget(1, 24_576),
    "gemini-2.5-flash-image": {**IMAGE_MODEL, "reasoning_output": False},
    "gemini-2.5-flash-lite": _budget(512, 24_576),
    "gemini-3": {**GEMINI_3, **_level("minimal", "low", "medium", "high")},
    "gemini-3-pro": {**GEMINI_3, **_level("low", "high")},
    "gemini-3-pro-image": {**GEMINI_3, **IMAGE_MODEL},
    "gemini-3.1-pro": {**GEMINI_3, **_level("low", "medium", "high")},
}
"""Prefix of a model's name -> capabilities."""
