"""What a profile says, as types; public as `foldline.language_models.profile`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from foldline._lazy import publish
from foldline.prices.types import Prices

__all__ = ["ModelProfile", "ModelProfileRegistry", "Prices", "ReasoningRules"]


class ReasoningRules(TypedDict, total=False):
    """How a provider is told how much to think."""

    form: Literal["level", "budget"]
    """Whether it takes a word or a number of tokens."""
    levels: dict[str, int]
    """The words it knows -> the tokens each stands for, in rising order."""
    minimum: int
    """The smallest budget it takes."""
    maximum: int


@with_config(ConfigDict(extra="allow"))
class ModelProfile(TypedDict, total=False):
    """What a model can do; a key that is absent is not known."""

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

    # Ours beyond LangChain's
    structured_output_with_tools: bool
    """Whether a native schema and tools go in one request."""
    json_mode: bool
    parallel_tool_calls: bool
    tool_name_pattern: str
    """The characters a tool's name may have, as a class: `[A-Za-z0-9_-]`."""
    tool_name_length: int
    unsupported_options: list[str]
    """Known options that the model refuses."""
    reasoning: ReasoningRules
    prices: Prices
    """What a MILLION tokens cost; goes before the table of `foldline.prices`."""


ModelProfileRegistry = dict[str, ModelProfile]
"""Model name, or the beginning of one -> its profile."""


publish("foldline.language_models", ModelProfile)
