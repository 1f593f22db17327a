"""What the models of each host can do, as far as the host decides it: made from the rows of `HOSTS`, and a few more."""

from __future__ import annotations

from typing import Any, Final, cast

from weft.language_models.profile import ModelProfile
from weft.providers._completions.host import Host
from weft.providers.openai_compatible.hosts import HOSTS

__all__ = ["PROFILES"]

FAMILIES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "deepseek": {
        "deepseek-chat": {"max_input_tokens": 131_072, "reasoning_output": False},
        "deepseek-reasoner": {
            "max_input_tokens": 131_072,
            "reasoning_output": True,
            "temperature": False,
        },
    },
    "perplexity": {"sonar": {"tool_calling": False, "reasoning_output": False}},
    "xai": {
        "grok-4": {"reasoning_output": True, "image_inputs": True, "max_input_tokens": 256_000}
    },
    "moonshot": {"kimi-k2": {"max_input_tokens": 262_144}},
}
"""Host -> beginning of a model's name -> what is known of it beyond its host."""


def _row(host: Host) -> dict[str, Any]:
    return {
        "text_inputs": True,
        "text_outputs": True,
        "tool_calling": True,
        "tool_choice": True,
        "tool_call_streaming": True,
        "structured_output": host.schema_as == "json_schema",
        "json_mode": True,
        "parallel_tool_calls": host.takes_parallel_tool_calls,
    }


PROFILES: Final = cast(
    "dict[str, dict[str, ModelProfile]]",
    {name: {"": _row(host), **FAMILIES.get(name, {})} for name, host in HOSTS.items()},
)
"""Host -> beginning of a model's name -> its profile; the empty beginning is every model of the host."""
