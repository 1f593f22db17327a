"""Private names of langchain-core that other packages import nevertheless.

Each does the least that those packages need; programs need none of them.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypedDict, TypeVar

from pydantic import BaseModel, SecretStr

from foldline._config import CONFIG_KEYS
from foldline.compat.names import versions
from foldline.language_models._types import LangSmithParams
from foldline.tools._arguments import is_injected

__all__ = ["PRIVATE_MODULES", "PRIVATE_NAMES"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class LangChainDeprecationWarning(DeprecationWarning):
    """A part of LangChain will be removed."""


class LangChainPendingDeprecationWarning(PendingDeprecationWarning):
    """A part of LangChain may be removed."""


class LangChainBetaWarning(DeprecationWarning):
    """A part of LangChain may still change."""


def unchanged(*_: Any, **__: Any) -> Callable[[T], T]:
    """Return a decorator that changes nothing: deprecations are the concern of the other package."""
    return lambda function: function


def warn_deprecated(since: str, *, message: str = "", name: str = "", **_: Any) -> None:
    """Warn that a part of LangChain is deprecated."""
    text = message or f"{name} is deprecated since LangChain {since}"
    warnings.warn(text, LangChainDeprecationWarning, stacklevel=3)


def warn_beta(*, message: str = "", name: str = "", obj_type: str = "", addendum: str = "") -> None:
    """Warn that a part of LangChain, or of a package around it, may still change."""
    subject = f"the {obj_type} {name}" if obj_type else name
    text = message or " ".join(filter(None, (f"{subject} is in beta and may change.", addendum)))
    warnings.warn(text, LangChainBetaWarning, stacklevel=3)


@contextmanager
def suppress_beta_warnings() -> Iterator[None]:
    """Show no beta warnings inside the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        yield


def show_beta_warnings() -> None:
    """Show beta warnings."""
    warnings.simplefilter("default", LangChainBetaWarning)


@contextmanager
def suppress_deprecation_warnings() -> Iterator[None]:
    """Show no deprecation warnings inside the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainDeprecationWarning)
        warnings.simplefilter("ignore", LangChainPendingDeprecationWarning)
        yield


def show_deprecation_warnings() -> None:
    """Show deprecation warnings."""
    warnings.simplefilter("default", LangChainDeprecationWarning)


class GatewayConfig(NamedTuple):
    """Where a provider's requests go."""

    base_url: Any
    api_key: Any
    base_url_from_gateway: bool = False


def resolve_gateway_config(
    *,
    base_url: object,
    api_key: object,
    base_url_env: str | Iterable[str] = (),
    api_key_env: str | Iterable[str] = (),
    default_base_url: str | None = None,
    **_: Any,
) -> GatewayConfig:
    """Return a provider's address and key, from the arguments or the environment; LangSmith's gateway is not used."""
    address = base_url if base_url is not None else _first_variable(base_url_env)
    key = api_key
    if key is None and (value := _first_variable(api_key_env)) is not None:
        key = SecretStr(value)
    return GatewayConfig(default_base_url if address is None else address, key)


def apply_gateway_config(
    values: dict[str, Any],
    cls: type[BaseModel],
    *,
    base_url_field: str,
    api_key_field: str,
    **options: Any,
) -> GatewayConfig:
    """Put a provider's address and key into the raw settings of a model."""
    config = resolve_gateway_config(
        base_url=_take(values, cls, base_url_field),
        api_key=_take(values, cls, api_key_field),
        **options,
    )
    values[base_url_field] = config.base_url
    if config.api_key is not None:
        values[api_key_field] = config.api_key
    return config


def _take(values: dict[str, Any], cls: type[BaseModel], field: str) -> object:
    field_value = None
    for name in (cls.model_fields[field].alias, field):
        value = values.pop(name, None) if name is not None else None
        field_value = value if value is not None else field_value
    return field_value


def _first_variable(names: str | Iterable[str]) -> str | None:
    names = [names] if isinstance(names, str) else names
    return next((value for name in names if (value := os.environ.get(name))), None)


def parse_gateway_metadata(headers: object) -> None:
    """Return None: no answer comes through LangSmith's gateway."""


def build_model_kwargs(values: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Move settings that are not fields into `model_kwargs`, with a warning."""
    extra = dict(values.get("model_kwargs") or {})
    for name in [name for name in values if name not in known]:
        if name in extra:
            raise ValueError(f"Found {name} supplied twice.")
        warnings.warn(f"{name} is not a setting: it was moved to model_kwargs.", stacklevel=7)
        extra[name] = values.pop(name)
    for name in known & extra.keys():
        warnings.warn(f"{name} should be given by itself, not in model_kwargs.", stacklevel=7)
        values[name] = extra.pop(name)
    return {**values, "model_kwargs": extra}


def as_import_path(
    file: Path | str, *, suffix: str | None = None, relative_to: Path | None = None
) -> str:
    """Return a file's path as a dotted path."""
    path = Path(file)
    path = path.relative_to(relative_to) if relative_to is not None else path
    dotted = ".".join(path.with_suffix("").parts)
    return f"{dotted}.{suffix}" if suffix else dotted


class FunctionDescription(TypedDict):
    """A function as OpenAI describes it."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolDescription(TypedDict):
    """A tool as OpenAI describes it."""

    type: str
    function: FunctionDescription


def is_injected_arg_type(annotation: object, injected_type: type[Any] | None = None) -> bool:
    """Whether an argument of a tool is filled in by the program and not by the model."""
    return is_injected(annotation, injected_type) if injected_type else is_injected(annotation)


def stringify(content: object) -> str:
    """Return the output of a tool as JSON, or as text where it has no JSON form."""
    try:
        return json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(content)


def openai_tool_calls(tool_calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tool calls as OpenAI writes them, with the arguments as JSON text."""
    return [
        {
            "type": "function",
            "id": call["id"],
            "function": {
                "name": call["name"],
                "arguments": json.dumps(call["args"], ensure_ascii=False),
            },
        }
        for call in tool_calls
    ]


def keep_message(message: T) -> T:
    """Return a message unchanged: fields of older versions are read where they are."""
    return message


DEPRECATION_NAMES: Mapping[str, Any] = {
    "LangChainBetaWarning": LangChainBetaWarning,
    "LangChainDeprecationWarning": LangChainDeprecationWarning,
    "LangChainPendingDeprecationWarning": LangChainPendingDeprecationWarning,
    "as_import_path": as_import_path,
    "beta": unchanged,
    "deprecated": unchanged,
    "internal": SimpleNamespace(is_caller_internal=lambda depth=2: False),
    "suppress_langchain_beta_warning": suppress_beta_warnings,
    "suppress_langchain_deprecation_warning": suppress_deprecation_warnings,
    "surface_langchain_beta_warnings": show_beta_warnings,
    "surface_langchain_deprecation_warnings": show_deprecation_warnings,
    "warn_beta": warn_beta,
    "warn_deprecated": warn_deprecated,
}
PRIVATE_MODULES: Mapping[str, Mapping[str, Any]] = {
    "langchain_core._api": DEPRECATION_NAMES,
    "langchain_core._api.beta_decorator": DEPRECATION_NAMES,
    "langchain_core._api.deprecation": DEPRECATION_NAMES,
    "langchain_core._api.internal": {"is_caller_internal": lambda depth=2: False},
    "langchain_core._api.path": DEPRECATION_NAMES,
    "langchain_core.utils._gateway": {
        "GATEWAY_METADATA_RESPONSE_KEY": "lc_gateway_metadata",
        "GatewayConfig": GatewayConfig,
        "_apply_gateway_config": apply_gateway_config,
        "_parse_gateway_metadata": parse_gateway_metadata,
        "_resolve_gateway_config": resolve_gateway_config,
    },
    "langchain_core.version": {"VERSION": versions()["langchain_core"]},
}
"""Modules that have no counterpart here -> their names."""
PRIVATE_NAMES: Mapping[str, Any] = {
    "langchain_core.VERSION": versions()["langchain_core"],
    "langchain_core.__version__": versions()["langchain_core"],
    "langchain_core.language_models.chat_models.LangSmithParams": LangSmithParams,
    "langchain_core.output_parsers.base.OutputParserLike": Any,
    "langchain_core.output_parsers.base.T": T,
    "langchain_core.runnables.config.COPIABLE_KEYS": [
        "tags",
        "metadata",
        "callbacks",
        "configurable",
    ],
    "langchain_core.runnables.config.CONFIG_KEYS": CONFIG_KEYS,
    "langchain_core.stores.K": K,
    "langchain_core.stores.V": V,
    "langchain_core.utils.html.DEFAULT_LINK_REGEX": re.compile(r"href=[\"']([^\"'#]+)"),
    "langchain_core.utils.utils.LC_AUTO_PREFIX": "lc_",
    "langchain_core.utils.utils.LC_ID_PREFIX": "lc_run-",
    "langchain_core.utils.utils._build_model_kwargs": build_model_kwargs,
    "langchain_core.utils.function_calling.FunctionDescription": FunctionDescription,
    "langchain_core.utils.function_calling.ToolDescription": ToolDescription,
    "langchain_core.tools.base._is_injected_arg_type": is_injected_arg_type,
    "langchain_core.tools.base._stringify": stringify,
    "langchain_core.messages.utils._convert_to_openai_tool_calls": openai_tool_calls,
    "langchain_core.messages.block_translators.openai._convert_from_v03_ai_message": keep_message,
}
"""Names of modules that do have one."""
