"""Chains as JSON files: `Chain.save` writes one, `load_chain` reads it. Keys are never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foldline.chains._legacy_calls import LegacyCalls
from foldline.exceptions import UsageError
from foldline.load import dumpd, loads
from foldline.load.registry import AllowedObjects
from foldline.prompts._files import open_folder, write_text

__all__ = [
    "load_chain",
]


def save_chain(chain: LegacyCalls, path: Path | str) -> None:
    """Write a chain as a JSON file; raise `UsageError` where a part of it cannot be written."""
    dumped = dumpd(chain)
    if unserializable := _unserializable_names(dumped):
        raise UsageError(
            f"{chain.get_name()} cannot be saved: {', '.join(unserializable)} cannot be written"
        )
    write_text(path, json.dumps(dumped, indent=4, ensure_ascii=False))


def _unserializable_names(value: object) -> list[str]:
    if isinstance(value, dict):
        if value.get("lc") == 1 and value.get("type") == "not_implemented":
            return [str(value["id"][-1])]
        return [name for item in value.values() for name in _unserializable_names(item)]
    return (
        [name for item in value for name in _unserializable_names(item)]
        if isinstance(value, list)
        else []
    )


def load_chain(
    path: Path | str, *, allowed_objects: AllowedObjects = "all", **options: Any
) -> LegacyCalls:
    """Read a chain that `Chain.save` wrote; keys come from the environment. `options` are those of `loads`."""
    folder, name = open_folder(path, None)
    loaded = loads(folder.read(name), allowed_objects=allowed_objects, **options)
    if not isinstance(loaded, LegacyCalls):
        raise UsageError(f"{name} holds a {type(loaded).__name__}, not a chain")
    return loaded
