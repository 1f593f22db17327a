"""Options of a call: one form of `tool_choice`, merging, deferred values, unsupported options. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.language_models._call.request import CallOptions
from foldline.utils._spelling import snake_case

__all__ = [
    "KNOWN_OPTIONS",
    "FromConfig",
    "ToolChoice",
    "from_config",
    "is_deferred",
    "merge_options",
    "read_option_names",
    "read_tool_choice",
    "supported_options",
    "tool_choice_of",
]

KNOWN_OPTIONS: Final = frozenset(
    {
        "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "modalities", "n", "parallel_tool_calls",
        "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "temperature", "tool_choice",
        "tools", "top_k", "top_logprobs", "top_p", "user", "verbosity",
    }
)  # fmt: skip
"""Options with the same meaning everywhere; a profile may list those that a model does not support."""

ChoiceMode = Literal["auto", "none", "required", "tool"]
CHOICE_MODES: Final[dict[Any, ChoiceMode]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
    True: "required",
    False: "none",
}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What the model may do with tools: decide itself, call none, call one or more, or call a certain one."""

    mode: ChoiceMode
    name: str | None = None
    """The tool to call, if `mode` is "tool"."""
    allowed: tuple[str, ...] = ()
    """The tools it may choose from, if not all."""
    parallel: bool | None = None
    """Whether it may call several at once, if that was set."""

    def as_option(self) -> str | dict[str, Any]:
        """Return it as an option, in OpenAI's form."""
        if self.allowed:
            tools = [{"type": "function", "name": name} for name in self.allowed]
            return {"type": "allowed_tools", "mode": self.mode, "tools": tools}
        if self.mode == "tool":
            return {"type": "function", "function": {"name": self.name}}
        return self.mode


def tool_choice_of(options: Mapping[str, Any]) -> ToolChoice | None:
    """Return the tool choice of a call's options; None if there is none."""
    choice = options.get("tool_choice")
    parallel = options.get("parallel_tool_calls")
    if choice is None:
        return None if parallel is None else ToolChoice("auto", parallel=parallel)
    return read_tool_choice(choice, parallel=parallel)


def read_tool_choice(choice: object, *, parallel: bool | None = None) -> ToolChoice:
    """Return any form of tool choice: a word, True or False, a tool's name, a dict of any vendor."""
    if isinstance(choice, ToolChoice):
        return choice
    if isinstance(choice, bool | str):
        if isinstance(choice, str) and not choice:
            raise _unreadable(choice)
        mode = CHOICE_MODES.get(choice)
        return (
            ToolChoice(mode, parallel=parallel)
            if mode
            else ToolChoice("tool", str(choice), parallel=parallel)
        )
    if isinstance(choice, Mapping):
        return _read_dict(choice, parallel)
    name = getattr(choice, "name", None) or getattr(choice, "__name__", None)
    if isinstance(name, str):  # a tool object
        return ToolChoice("tool", name, parallel=parallel)
    raise _unreadable(choice)


def _read_dict(choice: Mapping[str, Any], parallel: bool | None) -> ToolChoice:  # noqa: FBT001
    kind = choice.get("type")
    if choice.get("disable_parallel_tool_use") is not None:  # Anthropic
        parallel = not choice["disable_parallel_tool_use"]
    function = choice.get("function")
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):  # OpenAI chat
        return ToolChoice("tool", function["name"], parallel=parallel)
    if kind == "allowed_tools":
        inner = choice.get("allowed_tools", choice)
        mode = CHOICE_MODES.get(inner.get("mode", "auto"), "auto")
        return ToolChoice(
            mode,
            allowed=tuple(_name_of(tool) for tool in inner.get("tools", ())),
            parallel=parallel,
        )
    if isinstance(choice.get("name"), str):  # Anthropic, OpenAI responses, or a plain {"name": …}
        return ToolChoice("tool", choice["name"], parallel=parallel)
    if kind in CHOICE_MODES and isinstance(kind, str):
        return ToolChoice(CHOICE_MODES[kind], parallel=parallel)
    config = choice.get("function_calling_config")
    if isinstance(config, Mapping):  # Gemini
        mode = CHOICE_MODES.get(str(config.get("mode", "auto")).lower(), "auto")
        return ToolChoice(
            mode, allowed=tuple(config.get("allowed_function_names") or ()), parallel=parallel
        )
    if len(choice) == 1:
        return _read_only_key(choice, parallel)
    raise _unreadable(choice)


def _read_only_key(choice: Mapping[str, Any], parallel: bool | None) -> ToolChoice:  # noqa: FBT001
    """Read a provider's tool, `{"type": "web_search"}`, or Bedrock's form, `{"any": {}}`."""
    ((word, inner),) = choice.items()
    if word == "type" and isinstance(inner, str):
        return ToolChoice("tool", inner, parallel=parallel)
    if word == "tool" and isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
        return ToolChoice("tool", inner["name"], parallel=parallel)
    if word in ("auto", "any"):
        return ToolChoice(CHOICE_MODES[word], parallel=parallel)
    raise _unreadable(choice)


def _name_of(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function["name"] if isinstance(function, Mapping) else tool["name"])


def _unreadable(choice: object) -> UsageError:
    return UsageError(
        f'tool_choice={choice!r} is not known: write "auto", "none", "required", a tool\'s name, or a dict such as '
        '{"type": "function", "function": {"name": "search"}} or {"type": "tool", "name": "search"}'
    )


@dataclass(frozen=True, slots=True)
class FromConfig:
    """An option whose value is looked up in `config["configurable"]` when the call is made."""

    key: str
    default: Any = None


def from_config(key: str, default: object = None) -> object:
    """Return an option that is looked up under `key` in `config["configurable"]` at each call."""
    return FromConfig(key, default)


def read_option_names(
    options: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[CallOptions, list[str]]:
    """Return options under the model's names, and the names that it does not know.

    `names` maps the known names in snake_case to the model's. Names in camelCase are read too; unknown ones stay as
    they are.
    """
    renamed: CallOptions = {}
    unknown_names: list[str] = []
    for name, value in options.items():
        model_name = names.get(snake_case(name))
        if model_name is None:
            unknown_names.append(name)
        elif model_name in renamed:
            raise UsageError(f"model_options: {name} and {model_name} mean the same: give one")
        renamed[model_name or name] = value
    return renamed, unknown_names


def merge_options(
    *layers: Mapping[str, Any], configurable: Mapping[str, Any] | None = None
) -> CallOptions:
    """Merge options, the last layer on top: nested dicts are merged, deferred values are looked up.

    The arguments are not changed.
    """
    merged: CallOptions = {}
    for layer in layers:
        for key, value in layer.items():
            value = _resolve(value, configurable or {})
            lower_value = merged.get(key)
            if isinstance(lower_value, Mapping) and isinstance(value, Mapping):
                value = merge_options(lower_value, value, configurable=configurable)
            merged[key] = value
    return merged


def _resolve(value: object, configurable: Mapping[str, Any]) -> object:
    if isinstance(value, FromConfig):
        return configurable.get(value.key, value.default)
    if isinstance(value, dict):
        return {key: _resolve(inner, configurable) for key, inner in value.items()}
    return value


def is_deferred(value: object) -> bool:
    """Return whether an option, or one inside it, is still to be looked up."""
    if isinstance(value, dict):
        return any(is_deferred(inner) for inner in value.values())
    return isinstance(value, FromConfig)


def supported_options(
    options: CallOptions,
    unsupported: frozenset[str],
    model_label: str,
    on_unsupported: Literal["warn", "raise"],
) -> CallOptions:
    """Drop options that the model does not support, each with a warning; or raise.

    Tools are sent in any case, with the warning: without them an agent would answer as if it had none (AH9).
    """
    unsupported_keys = sorted(
        key for key in unsupported & options.keys() if options[key] is not None
    )
    if not unsupported_keys:
        return options
    message = f"{model_label} does not take {', '.join(unsupported_keys)}"
    if on_unsupported == "raise":
        raise UsageError(f"{message}: leave it out, or use another model")
    left_out = [key for key in unsupported_keys if key != "tools"]
    if left_out:
        text = f"{model_label} does not take {', '.join(left_out)}: left out of the request"
        warnings.warn(text, UserWarning, stacklevel=2)
    if "tools" in unsupported_keys:
        text = (
            f"{model_label} does not take tools, says its profile: they are sent all the same; "
            'if the profile is wrong, pass profile={"tool_calling": True}'
        )
        warnings.warn(text, UserWarning, stacklevel=2)
    return {key: value for key, value in options.items() if key not in left_out}


publish("foldline.language_models", ToolChoice, from_config, tool_choice_of)
