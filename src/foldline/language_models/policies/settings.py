"""`CallSettings`: the model's settings for a managed call, overlaid by those of the call. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from foldline.language_models.call.model import CallModel
from foldline.language_models.call.request import ChatRequest, OutputFileType
from foldline.language_models.policies.call_options import is_late, merge_options
from foldline.language_models.policies.file_resolver import FileResolver
from foldline.language_models.policies.model_hooks import ModelHooks
from foldline.language_models.policies.output_check import OutputCheck
from foldline.messages import AIMessage

__all__ = ["NO_SETTINGS", "CallSettings", "Guard", "GuardMode", "take_settings"]

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
    instructions: str | None = None

    def cache_key(self) -> Any:
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
    _overlay_options(request, settings.pop("model_options", None) or {}, configurable)
    options = request.options
    taken = {key: options.pop(key) for key in SETTING_NAMES & options.keys()}
    if not settings and not taken:
        return NO_SETTINGS
    values = {**settings, **taken}
    values["hooks"] = ModelHooks.of(values.get("hooks"))
    request.output_file_type = values.get("output_file_type")
    return CallSettings(**values)


def _overlay_options(
    request: ChatRequest, under: Mapping[str, Any], configurable: Mapping[str, Any]
) -> None:
    """Lay the options of the call over those of the model, and look up values that come from the config."""
    if not (
        under
        or "model_options" in configurable
        or (request.options and ("model_options" in request.options or is_late(request.options)))
    ):
        return
    called = dict(request.options)
    over = called.pop("model_options", None) or {}
    request.options = merge_options(
        under, configurable.get("model_options") or {}, over, called, configurable=configurable
    )
    if (stop := request.options.pop("stop", None)) is not None and request.stop is None:
        request.stop = [stop] if isinstance(stop, str) else list(stop)
