"""`CallSettings`: the model's settings for a managed call, overlaid by those of the call. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from foldline.language_models.call.model import CallModel
from foldline.language_models.call.request import ChatRequest, OutputFileType
from foldline.language_models.policies.call_options import (
    KNOWN_OPTIONS,
    is_late,
    merge_options,
    read_option_names,
)
from foldline.language_models.policies.file_resolver import FileResolver
from foldline.language_models.policies.model_hooks import ModelHooks
from foldline.language_models.policies.output_check import OutputCheck
from foldline.messages import AIMessage

__all__ = ["NO_SETTINGS", "CallSettings", "Guard", "GuardMode", "option_names", "take_settings"]

Guard = Callable[[AIMessage], Any]
"""Returns None or True to let a message pass, False or a reason to refuse it, or a message to give instead."""
GuardMode = Literal["buffer", "post"]


@dataclass(slots=True)
class CallSettings:
    """What a call is to be given besides an answer."""

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
    """AIGNE's word: "file" sends files as bytes also to a model that takes URLs."""
    instructions: str | None = None

    def cache_key(self) -> object:
        """Return what must tell cached answers apart, as JSON."""
        if not self.checks and not self.guards:
            return None
        guards = [
            f"{guard.__module__}.{getattr(guard, '__qualname__', type(guard).__name__)}"
            for guard in self.guards
        ]
        return [[check.key() for check in self.checks], guards]


NO_SETTINGS: Final = CallSettings()
SETTING_NAMES: Final = frozenset(CallSettings.__slots__)
"""Call options that are foldline's own: they never reach a provider."""


def take_settings(
    model: CallModel, request: ChatRequest, configurable: Mapping[str, Any]
) -> CallSettings:
    """Overlay the options of the model and the call, and take foldline's own out of the request."""
    settings = model._settings
    if not (settings or request.options or configurable):
        return NO_SETTINGS
    _overlay_options(model, request, settings.pop("model_options", None) or {}, configurable)
    options = request.options
    taken = {key: options.pop(key) for key in SETTING_NAMES & options.keys()}
    if not settings and not taken:
        return NO_SETTINGS
    values = {**settings, **taken}
    values["hooks"] = ModelHooks.of(values.get("hooks"))
    request.output_file_type = values.get("output_file_type")
    return CallSettings(**values)


def _overlay_options(
    model: CallModel,
    request: ChatRequest,
    under: Mapping[str, Any],
    configurable: Mapping[str, Any],
) -> None:
    """Lay the options of the call over those of the model, and look up values that come from the config."""
    configured = configurable.get("model_options") or configurable.get("modelOptions")
    called = request.options
    has_layer = under or configured or not OPTION_LAYERS.isdisjoint(called)
    if not has_layer and not is_late(called):
        return
    called = dict(called)
    layers = [under, configured or {}, *(called.pop(name, None) or {} for name in OPTION_LAYERS)]
    names, read = option_names(type(model)), []
    for layer in layers:
        options, unknown = read_option_names(layer, names)
        read.append(options)
        if unknown and _is_providers(type(model)):
            request.notes.append(
                f"the model knows no option {', '.join(map(repr, unknown))}: sent as written"
            )
    request.options = merge_options(*read, called, configurable=configurable)
    if (stop := request.options.pop("stop", None)) is not None and request.stop is None:
        request.stop = [stop] if isinstance(stop, str) else list(stop)


OPTION_LAYERS: Final = frozenset({"model_options", "modelOptions"})
"""The call option that holds options of the model, in both spellings."""


@cache
def option_names(cls: type[Any]) -> Mapping[str, str]:
    """Return the options that a model's class knows, in snake_case -> its own name for each."""
    aliases: Mapping[str, str] = getattr(cls, "aliases", {})
    names = {*KNOWN_OPTIONS, *SETTING_NAMES, *cls.model_fields}
    return {**{name: name for name in names}, **aliases}


def _is_providers(cls: type[Any]) -> bool:
    """Whether options go to a provider; those of an author's own model are what he reads."""
    return bool(getattr(cls, "sent_fields", ()))
