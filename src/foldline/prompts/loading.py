"""Load prompts from JSON files: `load_prompt`. Referenced files must be in the same folder; no code is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from foldline.exceptions import SchemaError, SecurityError, UsageError
from foldline.load import load
from foldline.load.registry import resolve
from foldline.prompts._files import Folder, open_folder
from foldline.prompts.base import BasePromptTemplate
from foldline.prompts.chat import ChatPromptTemplate
from foldline.prompts.few_shot import FewShotPromptTemplate
from foldline.prompts.few_shot_with_templates import FewShotPromptWithTemplates
from foldline.prompts.prompt import PromptTemplate

__all__ = ["load_prompt", "load_prompt_from_config"]

Config = dict[str, Any]


def load_prompt(
    path: str | Path,
    encoding: str | None = None,
    *,
    root: str | Path | None = None,
    allow_dangerous_paths: bool = False,
) -> BasePromptTemplate[Any]:
    """Return the prompt of a JSON file written by `save` or `foldline.load.dumps`.

    The file, and the files that it references (`template_path`, `examples`), must be inside `root`, by default the
    folder of the file. A path that leads out of it is a `SecurityError`.
    """
    if allow_dangerous_paths:
        raise UsageError(
            "paths never leave their folder: give a folder that holds the files as `root=`"
        )
    folder, name = open_folder(path, root)
    if Path(name).suffix in (".yaml", ".yml"):
        raise UsageError(f"{str(path)!r}: prompts are read from JSON; convert the file once")
    if Path(name).suffix != ".json":
        raise UsageError(
            f"{str(path)!r}: prompts are read from JSON files, whose names end in .json"
        )
    return _load(_json(folder, name, encoding), _relative_folder(folder, name))


def load_prompt_from_config(
    config: dict[str, Any], *, root: str | Path | None = None, allow_dangerous_paths: bool = False
) -> BasePromptTemplate[Any]:
    """Return the prompt of a dict in the format of `save`; referenced files must be inside `root`."""
    if allow_dangerous_paths:
        raise UsageError(
            "paths never leave their folder: give a folder that holds the files as `root=`"
        )
    folder = None if root is None else open_folder("prompt.json", root)[0]
    return _load(config, folder)


def _relative_folder(folder: Folder, name: str) -> Folder:
    """Return the folder for references of a file: they are relative to the file, under the same root."""
    return Folder((folder.root / name).parent)


def _json(folder: Folder, name: str, encoding: str | None = None) -> object:
    try:
        return json.loads(folder.read(name, encoding))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise SchemaError(f"{name!r} is not JSON: {error}") from error


def _load(config: object, folder: Folder | None) -> BasePromptTemplate[Any]:
    if not isinstance(config, Mapping):
        raise SchemaError(f"a prompt is written as an object, not {type(config).__name__}")
    if "lc" in config:
        loaded = load(dict(config))
        if not isinstance(loaded, BasePromptTemplate):
            raise SchemaError(f"this is no prompt but a {type(loaded).__name__}")
        return loaded
    config = dict(config)
    kind = config.pop("_type", "prompt")
    if kind not in LOADERS:
        raise SchemaError(f"{kind!r:.80} is no kind of prompt: {sorted(LOADERS)} are")
    if config.get("template_format") == "jinja2":
        raise SecurityError(
            "jinja2 templates are not read from files: they are programs; write an f-string or mustache template"
        )
    _read_parser(config)
    return LOADERS[kind](config, folder)


def _read_parser(config: Config) -> None:
    parser = config.get("output_parser")
    if parser is None:
        return
    if not isinstance(parser, Mapping) or parser.get("_type") != "default":
        raise SchemaError("an output parser is read from a file only if it is the default one")
    cls = resolve("foldline.output_parsers:StrOutputParser")
    config["output_parser"] = cls() if cls else None


def _read_text(config: Config, name: str, folder: Folder | None) -> None:
    """Replace `<name>_path` with the text of that file."""
    path = config.pop(f"{name}_path", None)
    if path is None:
        return
    if name in config:
        raise SchemaError(f"both {name!r} and '{name}_path' are given")
    if not isinstance(path, str) or Path(path).suffix != ".txt":
        raise SchemaError(f"'{name}_path' names a .txt file, not {path!r:.80}")
    config[name] = _require_folder(folder).read(path)


def _require_folder(folder: Folder | None) -> Folder:
    if folder is None:
        raise SecurityError(
            "this prompt names a file: say in which folder files may be read, `root=`"
        )
    return folder


def _prompt(config: Config, folder: Folder | None) -> PromptTemplate:
    _read_text(config, "template", folder)
    return PromptTemplate(**config)


def _read_examples(config: Config, folder: Folder | None) -> None:
    examples = config.get("examples")
    if isinstance(examples, str):
        if Path(examples).suffix != ".json":
            raise SchemaError(f"'examples' names a .json file, not {examples!r:.80}")
        config["examples"] = _json(_require_folder(folder), examples)
    if "example_prompt_path" in config:
        if "example_prompt" in config:
            raise SchemaError("both 'example_prompt' and 'example_prompt_path' are given")
        path = config.pop("example_prompt_path")
        if not isinstance(path, str):
            raise SchemaError("'example_prompt_path' names a .json file")
        config["example_prompt"] = _load(_json(_require_folder(folder), path), folder)
    elif isinstance(config.get("example_prompt"), Mapping):
        config["example_prompt"] = _load(config["example_prompt"], folder)
    if config.get("example_selector") is not None:
        raise SchemaError("an example selector cannot be read from a file")


def _few_shot(config: Config, folder: Folder | None) -> FewShotPromptTemplate:
    for name in ("prefix", "suffix"):
        _read_text(config, name, folder)
    _read_examples(config, folder)
    return FewShotPromptTemplate(**config)


def _few_shot_with_templates(config: Config, folder: Folder | None) -> FewShotPromptWithTemplates:
    for name in ("prefix", "suffix"):
        if isinstance(config.get(name), Mapping):
            config[name] = _load(config[name], folder)
    _read_examples(config, folder)
    return FewShotPromptWithTemplates(**config)


def _chat(config: Config, folder: Folder | None) -> ChatPromptTemplate:
    """Load LangChain's old format, which contains the template of one message."""
    try:
        template = config["messages"][0]["prompt"]["template"]
    except (KeyError, IndexError, TypeError) as error:
        raise SchemaError("a chat prompt without a template of its first message") from error
    return ChatPromptTemplate.from_template(template)


LOADERS: dict[str, Callable[[Config, Folder | None], BasePromptTemplate[Any]]] = {
    "prompt": _prompt,
    "few_shot": _few_shot,
    "few_shot_with_templates": _few_shot_with_templates,
    "chat": _chat,
}
