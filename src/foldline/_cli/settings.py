"""The user's settings: the default model, aliases, whether prompts are logged. Only the user can read the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from foldline._cli import places
from foldline.exceptions import StoreError
from foldline.utils._private_files import open_private

__all__ = [
    "read_json",
    "read_settings",
    "resolve_alias",
    "settings_file",
    "write_json",
    "write_settings",
]


def settings_file() -> Path:
    """Return the file of the settings."""
    return places.data_dir() / "settings.json"


def read_settings() -> dict[str, Any]:
    """Return the settings: `model`, `aliases`, `log`, `fragments`."""
    return read_json(settings_file())


def write_settings(**changes: Any) -> None:
    """Change some settings; None deletes one."""
    settings = {**read_settings(), **changes}
    write_json(
        settings_file(), {name: value for name, value in settings.items() if value is not None}
    )


def resolve_alias(model: str | None) -> str | None:
    """Return the model of an alias; the default model without a name; else the name itself."""
    settings = read_settings()
    name = model or settings.get("model")
    aliases = settings.get("aliases") or {}
    return str(aliases.get(name, name)) if name else None


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one where there is no file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(
            f"{file}: cannot be read: {error.strerror}; make it readable, or set FOLDLINE_DATA_DIR to another folder"
        ) from error
    try:
        content = json.loads(text)
    except ValueError as error:
        raise StoreError(f"{file}: is not JSON ({error}): correct it or delete it") from error
    if not isinstance(content, dict):
        raise StoreError(f"{file}: is not a JSON object: correct it or delete it")
    return content


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Write a file that only its owner can read; a crash leaves the old one."""
    partial = places.make_folder_of(file).with_name(f"{file.name}.{os.getpid()}.new")
    try:
        with open_private(partial, "w", encoding="utf-8") as output:
            json.dump(value, output, ensure_ascii=False, indent=2)
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"{file}: cannot be written: {error.strerror}; set FOLDLINE_DATA_DIR to a folder you may write to"
        ) from error
