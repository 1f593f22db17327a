"""The types of model profiles; public in `foldline.language_models.profile`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from foldline._lazy import publish
from foldline.prices.types import Prices

__all__ = ["ModelProfile", "ModelProfileRegistry", "Prices", "ReasoningRules"]


class ReasoningRules(TypedDict, total=False):
    """How a provider accepts the amount of reasoning."""

    form: Literal["level", "budget"]
    """Whether it takes a level or a number of tokens."""
    levels: dict[str, int]
    """Its levels -> the tokens each stands for, in rising order."""
    minimum: int
    """The smallest budget it accepts."""
    maximum: int


@with_config(ConfigDict(extra="allow"))
class ModelProfile(TypedDict, total=False):
    """What a model can do; a missing key is unknown."""

    name: str
    status: str
    release_date: str
    last_updated: str
    open_weights: bool

    max_input_tokens: int
    text_inputs: bool
    image_inputs: bool
    image_url_inputs: bool
    pdf_inputs: bool
    audio_inputs: bool
    video_inputs: bool
    image_tool_message: bool
    pdf_tool_message: bool

    max_output_tokens: int
    reasoning_output: bool
    reasoning_effort_levels: list[str]
    reasoning_effort_default: str
    text_outputs: bool
    image_outputs: bool
    audio_outputs: bool
    video_outputs: bool

    tool_calling: bool
    tool_choice: bool
    tool_call_streaming: bool
    mid_conversation_system_messages: bool
    mid_conversation_tools: bool
    structured_output: bool
    attachment: bool
    temperature: bool

    # Not in LangChain's profiles
    structured_output_with_tools: bool
    """Whether a native schema and tools can be in one request."""
    structured_output_closed: bool
    """Whether a native schema may have no objects with free keys (`dict[str, float]`)."""
    json_mode: bool
    parallel_tool_calls: bool
    tool_name_pattern: str
    """The characters allowed in a tool's name, as a regex class: `[A-Za-z0-9_-]`."""
    tool_name_length: int
    unsupported_options: list[str]
    """Known options that the model rejects."""
    reasoning: ReasoningRules
    prices: Prices
    """Prices per MILLION tokens; they override the table of `foldline.prices`."""


ModelProfileRegistry = dict[str, ModelProfile]
"""Model name, or a prefix of one -> its profile."""


publish("foldline.language_models", ModelProfile)
