"""`CallSettings`: the model's settings for a managed call, merged with those of the call. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import (
    KNOWN_OPTIONS,
    is_deferred,
    merge_options,
    read_option_names,
)
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.policies.file_resolver import FileResolver
from foldline.language_models._call.policies.model_hooks import ModelHooks
from foldline.language_models._call.policies.output_check import OutputCheck
from foldline.language_models._call.request import ChatRequest, OutputFileType
from foldline.language_models._profile_types import ModelProfile
from foldline.messages import AIMessage
from foldline.messages._output_version import output_version
from foldline.utils._suggest import warn_of_typo

__all__ = [
    "NO_SETTINGS",
    "CallSettings",
    "Guard",
    "GuardMode",
    "check_setting",
    "option_names",
    "settings_reader",
    "take_settings",
]

Guard = Callable[[AIMessage], Any]
"""Returns None or True to accept a message, False or a reason to reject it, or a message to return instead."""
GuardMode = Literal["buffer", "post"]


@dataclass(slots=True)
class CallSettings:
    """The settings of a managed call."""

    checks: list[OutputCheck] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    guard_mode: GuardMode = "buffer"
    hooks: ModelHooks | None = None
    file_resolver: FileResolver | None = None
    output_file_type: OutputFileType | None = None
    output_dir: str | Path | None = None
    max_input_tokens: int | None = None
    on_overflow: Literal["raise", "trim"] = "raise"
    on_unsupported: Literal["warn", "raise"] = "warn"
    prompt_cache: Any = None
    retry_on_error: Any = None
    prefer_input_file_type: Literal["file", "url"] | None = None
    """AIGNE's setting: "file" sends files as bytes also to a model that accepts URLs."""
    instructions: str | None = None
    policies: Sequence[Any] = ()
    """Policies of the program itself (subclasses of `Policy`), outside of foldline's."""

    def cache_key(self) -> object:
        """Return the part of the cache key that depends on checks and guards, as JSON."""
        if not self.checks and not self.guards:
            return None
        guards = [
            f"{guard.__module__}.{getattr(guard, '__qualname__', type(guard).__name__)}"
            for guard in self.guards
        ]
        return [[check.key() for check in self.checks], guards]


NO_SETTINGS: Final = CallSettings()
SETTING_NAMES: Final = frozenset(CallSettings.__slots__)
"""Call options of foldline: they never reach a provider."""


SETTING_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "guard_mode": ("buffer", "post"),
    "output_file_type": ("local", "file", "url"),
    "on_overflow": ("raise", "trim"),
    "on_unsupported": ("warn", "raise"),
    "prefer_input_file_type": ("file", "url"),
}
"""The words that a setting takes."""


def check_setting(name: str, value: Any, where: str) -> Any:  # noqa: ANN401  of any setting
    """Return a setting as a call uses it; raise `UsageError` for a value that has no meaning."""
    if value is None:
        return None
    if name in SETTING_WORDS and value not in SETTING_WORDS[name]:
        raise UsageError(f"{name} is one of {', '.join(SETTING_WORDS[name])}, not {value!r:.80}")
    if name == "hooks":
        return ModelHooks.of(value)
    if name == "output_version":
        output_version(value)
    elif name == "profile":
        _check_profile(value, where)
    elif name in SETTING_TYPES:
        _check_type(name, value)
    return value


SETTING_TYPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "file_resolver": ("a FileResolver", lambda value: isinstance(value, FileResolver)),
    "output_dir": ("the path of a folder", lambda value: isinstance(value, str | PathLike)),
    "max_input_tokens": (
        "a number from 1",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
    ),
    "policies": (
        "a list of subclasses of Policy",
        lambda value: (
            isinstance(value, list | tuple)
            and all(isinstance(kind, type) and hasattr(kind, "applies_to") for kind in value)
        ),
    ),
    "guards": (
        "a list of functions of the answer",
        lambda value: isinstance(value, list | tuple) and all(map(callable, value)),
    ),
}
"""What a setting is -> whether a value is that."""


def _check_type(name: str, value: object) -> None:
    description, is_right = SETTING_TYPES[name]
    if not is_right(value):
        raise UsageError(f"{name} is {description}, not {value!r:.80}")


def _check_profile(profile: Mapping[str, Any], where: str) -> None:
    """Warn of a mistyped key; keys of newer profiles are kept."""
    names = ModelProfile.__annotations__
    for name in profile.keys() - names.keys():
        warn_of_typo(f"{where}(profile=…)", name, names, "it has no effect")


def settings_reader(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads the fields of a model that are set, of these."""
    read, unset = itemgetter(*names), (None,) * len(names)

    def settings(model: Any) -> dict[str, Any]:  # noqa: ANN401  a model with these fields
        """The settings of a managed call that are set, except `profile`."""
        values = read(model.__dict__)
        if values == unset:  # the usual case
            return {}
        pairs = zip(names, values, strict=True)
        return {name: value for name, value in pairs if value is not None}

    return settings


def take_settings(
    model: CallModel, request: ChatRequest, configurable: Mapping[str, Any]
) -> CallSettings:
    """Merge the options of the model and the call, and take foldline's settings out of the request."""
    settings = model._settings
    if not (settings or request.options or configurable):
        return NO_SETTINGS
    _overlay_options(model, request, settings.pop("model_options", None) or {}, configurable)
    options = request.options
    call_settings = {key: options.pop(key) for key in SETTING_NAMES & options.keys()}
    if not settings and not call_settings:
        return NO_SETTINGS
    values = {**settings}
    for name, value in call_settings.items():
        values[name] = check_setting(name, value, type(model).__name__)
    request.output_file_type = values.get("output_file_type")
    return CallSettings(**values)


def _overlay_options(
    model: CallModel,
    request: ChatRequest,
    model_options: Mapping[str, Any],
    configurable: Mapping[str, Any],
) -> None:
    """Merge the options of the call over those of the model, and look up values that come from the config."""
    configured = configurable.get("model_options") or configurable.get("modelOptions")
    call_options = request.options
    has_layer = model_options or configured or not OPTION_LAYERS.isdisjoint(call_options)
    if not has_layer and not is_deferred(call_options):
        return
    call_options = dict(call_options)
    layers = [
        model_options,
        configured or {},
        *(call_options.pop(name, None) or {} for name in OPTION_LAYERS),
    ]
    names, option_layers = option_names(type(model)), []
    for layer in layers:
        options, unknown_names = read_option_names(layer, names)
        option_layers.append(options)
        if unknown_names and _sends_options(type(model)):
            request.notes.append(
                f"the model knows no option {', '.join(map(repr, unknown_names))}: sent as written"
            )
    request.options = merge_options(*option_layers, call_options, configurable=configurable)
    if (stop := request.options.pop("stop", None)) is not None and request.stop is None:
        request.stop = [stop] if isinstance(stop, str) else list(stop)


OPTION_LAYERS: Final = frozenset({"model_options", "modelOptions"})
"""The call option with options of the model, in both spellings."""


@cache
def option_names(cls: type[Any]) -> Mapping[str, str]:
    """Return the options that a model's class knows, in snake_case -> its name for each."""
    aliases: Mapping[str, str] = getattr(cls, "aliases", {})
    names = {*KNOWN_OPTIONS, *SETTING_NAMES, *cls.model_fields}
    return {**{name: name for name in names}, **aliases}


def _sends_options(cls: type[Any]) -> bool:
    """Return whether options are sent to a provider; an author's model reads them itself."""
    return bool(getattr(cls, "sent_fields", ()))
