"""Options of a call: one form of `tool_choice`, how options overlay, late values, what a model refuses. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from foldline.exceptions import UsageError
from foldline.language_models.call.request import CallOptions
from foldline.utils.spelling import snake_case

__all__ = [
    "KNOWN_OPTIONS",
    "FromConfig",
    "ToolChoice",
    "from_config",
    "is_late",
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
"""Options with one meaning everywhere; of these a profile may say that a model does not take them."""

ChoiceMode = Literal["auto", "none", "required", "tool"]
WORDS: Final[dict[Any, ChoiceMode]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
    True: "required",
    False: "none",
}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What the model may do about tools: decide itself, call none, call one or more, or call the one named."""

    mode: ChoiceMode
    name: str | None = None
    """The tool to call, where `mode` is "tool"."""
    allowed: tuple[str, ...] = ()
    """The tools it may choose among, where not all."""
    parallel: bool | None = None
    """Whether it may call several at once, where that was said."""

    def as_option(self) -> str | dict[str, Any]:
        """Return it as an option again, in OpenAI's form."""
        if self.allowed:
            named = [{"type": "function", "name": name} for name in self.allowed]
            return {"type": "allowed_tools", "mode": self.mode, "tools": named}
        if self.mode == "tool":
            return {"type": "function", "function": {"name": self.name}}
        return self.mode


def tool_choice_of(options: Mapping[str, Any]) -> ToolChoice | None:
    """Read the tool choice of a call's options; None where nothing was chosen."""
    choice = options.get("tool_choice")
    parallel = options.get("parallel_tool_calls")
    if choice is None:
        return None if parallel is None else ToolChoice("auto", parallel=parallel)
    return read_tool_choice(choice, parallel=parallel)


def read_tool_choice(choice: object, *, parallel: bool | None = None) -> ToolChoice:
    """Read any form of tool choice: a word, True or False, a tool's name, a dict of any of the vendors."""
    if isinstance(choice, ToolChoice):
        return choice
    if isinstance(choice, bool | str):
        if isinstance(choice, str) and not choice:
            raise _unreadable(choice)
        mode = WORDS.get(choice)
        return (
            ToolChoice(mode, parallel=parallel)
            if mode
            else ToolChoice("tool", str(choice), parallel=parallel)
        )
    if isinstance(choice, Mapping):
        return _read_dict(choice, parallel)
    name = getattr(choice, "name", None) or getattr(choice, "__name__", None)
    if isinstance(name, str):  # the tool itself
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
        mode = WORDS.get(inner.get("mode", "auto"), "auto")
        return ToolChoice(
            mode, allowed=tuple(_name_of(one) for one in inner.get("tools", ())), parallel=parallel
        )
    if isinstance(choice.get("name"), str):  # Anthropic, OpenAI responses, or a plain {"name": …}
        return ToolChoice("tool", choice["name"], parallel=parallel)
    if kind in WORDS and isinstance(kind, str):
        return ToolChoice(WORDS[kind], parallel=parallel)
    config = choice.get("function_calling_config")
    if isinstance(config, Mapping):  # Gemini
        mode = WORDS.get(str(config.get("mode", "auto")).lower(), "auto")
        return ToolChoice(
            mode, allowed=tuple(config.get("allowed_function_names") or ()), parallel=parallel
        )
    if len(choice) == 1:
        return _read_only_key(choice, parallel)
    raise _unreadable(choice)


def _read_only_key(choice: Mapping[str, Any], parallel: bool | None) -> ToolChoice:  # noqa: FBT001
    """Read one of the provider's own tools, `{"type": "web_search"}`, or Bedrock's form, `{"any": {}}`."""
    ((word, inner),) = choice.items()
    if word == "type" and isinstance(inner, str):
        return ToolChoice("tool", inner, parallel=parallel)
    if word == "tool" and isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
        return ToolChoice("tool", inner["name"], parallel=parallel)
    if word in ("auto", "any"):
        return ToolChoice(WORDS[word], parallel=parallel)
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
    """An option whose value is in `config["configurable"]` when the call is made."""

    key: str
    default: Any = None


def from_config(key: str, default: object = None) -> object:
    """Let an option be looked up under `key` in `config["configurable"]` at each call."""
    return FromConfig(key, default)


def read_option_names(
    options: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[CallOptions, list[str]]:
    """Return options under the names that the model knows them by, and the names that it does not know.

    `names` holds the known ones in snake_case -> the model's own. Either spelling is read; what is not known stays as
    it is written.
    """
    read: CallOptions = {}
    unknown: list[str] = []
    for name, value in options.items():
        known = names.get(snake_case(name))
        if known is None:
            unknown.append(name)
        elif known in read:
            raise UsageError(f"model_options: {name} and {known} mean the same: give one")
        read[known or name] = value
    return read, unknown


def merge_options(
    *layers: Mapping[str, Any], configurable: Mapping[str, Any] | None = None
) -> CallOptions:
    """Overlay options, the last layer on top: nested dicts merge, late values are looked up.

    Nothing that is given is changed.
    """
    merged: CallOptions = {}
    for layer in layers:
        for key, value in layer.items():
            value = _looked_up(value, configurable or {})
            under = merged.get(key)
            if isinstance(under, Mapping) and isinstance(value, Mapping):
                value = merge_options(under, value, configurable=configurable)
            merged[key] = value
    return merged


def _looked_up(value: object, configurable: Mapping[str, Any]) -> object:
    if isinstance(value, FromConfig):
        return configurable.get(value.key, value.default)
    if isinstance(value, dict):
        return {key: _looked_up(inner, configurable) for key, inner in value.items()}
    return value


def is_late(value: object) -> bool:
    """Whether an option, or one inside it, is still to be looked up."""
    if isinstance(value, dict):
        return any(is_late(inner) for inner in value.values())
    return isinstance(value, FromConfig)


def supported_options(
    options: CallOptions,
    unsupported: frozenset[str],
    where: str,
    on_unsupported: Literal["warn", "raise"],
) -> CallOptions:
    """Leave out options that the model does not take, each with a warning; or raise."""
    refused = sorted(key for key in unsupported & options.keys() if options[key] is not None)
    if not refused:
        return options
    message = f"{where} does not take {', '.join(refused)}"
    if on_unsupported == "raise":
        raise UsageError(f"{message}: leave it out, or use another model")
    warnings.warn(f"{message}: left out of the request", UserWarning, stacklevel=2)
    return {key: value for key, value in options.items() if key not in refused}
