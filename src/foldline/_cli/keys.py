"""`foldline keys`: API keys that the command line stores in a file of mode 0600 or in the keyring.

An environment variable takes precedence over a stored key. No command prints a key.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from foldline._cli import places
from foldline._cli.models import key_variables, main_names
from foldline._cli.settings import read_json, write_json
from foldline._cli.terminal import echo, is_terminal, note, table
from foldline.exceptions import FoldlineError, MissingExtraError, UsageError
from foldline.providers import find_provider, provider_names
from foldline.utils.strings import suggestion

__all__ = ["keys", "keys_file", "use_stored_keys"]

KEYRING = "foldline"
ACTIONS = ("list", "set", "delete", "path")


def keys_file() -> Path:
    """Return the file of the keys."""
    return places.data_dir() / "keys.json"


def keys(action: str, name: str | None, *, in_keyring: bool, as_json: bool) -> int:
    """List, set or delete."""
    if action == "path":
        echo(str(keys_file()))
    elif action == "list":
        _list(as_json=as_json)
    elif action not in ACTIONS:
        raise UsageError(
            f"foldline keys {action}: it is list, set, delete or path{suggestion(action, ACTIONS)}"
        )
    elif not name:
        raise UsageError(f"which one? foldline keys {action} PROVIDER, for example openai")
    elif action == "set":
        _set(_variable(name), in_keyring=in_keyring)
    else:
        _delete(_variable(name))
    return 0


def use_stored_keys() -> None:
    """Put the stored keys into the environment of this process, where it has none."""
    for name, entry in read_json(keys_file()).items():
        if os.environ.get(name):
            continue
        value = entry if isinstance(entry, str) else _from_keyring(name)
        if value:
            os.environ[name] = value


def _from_keyring(name: str) -> str | None:
    with suppress(
        Exception
    ):  # the keyring is locked or missing: the provider will say which key it needs
        password = import_module("keyring").get_password(KEYRING, name)
        return None if password is None else str(password)
    return None


def _variable(name: str) -> str:
    """Return the variable of a provider's key; a name in capitals is one itself."""
    if name.isupper():
        return name
    provider = name.replace("-", "_").lower()
    if provider not in provider_names():
        raise UsageError(
            f"there is no provider {name!r}{suggestion(provider, provider_names())}: `foldline models` lists them; "
            "a variable is written in capitals"
        )
    variables = key_variables(find_provider(provider))
    if not variables:
        raise UsageError(
            f"{provider} needs no key: foldline chat -m {provider}:MODEL works without"
        )
    return variables[0]


def _set(name: str, *, in_keyring: bool) -> None:
    value = _read_key(name)
    entry: Any = value
    if in_keyring:
        try:
            import_module("keyring").set_password(KEYRING, name, value)
        except ImportError:
            raise MissingExtraError(
                "--keyring needs the keyring package: pip install keyring"
            ) from None
        except Exception as error:
            raise UsageError(
                f"the keyring does not take it: {error}; leave --keyring out"
            ) from error
        entry = {"keyring": True}
    write_json(keys_file(), {**read_json(keys_file()), name: entry})
    note(f"{name} is kept in {'the keyring' if in_keyring else keys_file()}")


def _read_key(name: str) -> str:
    if is_terminal(sys.stdin):
        value = getpass.getpass(f"{name} (not shown): ")
    else:
        value = sys.stdin.readline() if sys.stdin else ""
    value = value.strip()
    if not value or any(ord(letter) < 33 or ord(letter) > 126 for letter in value):
        raise UsageError(
            f"{name}: a key is one word of plain letters, digits and signs; type it, or pipe it in"
        )
    return value


def _delete(name: str) -> None:
    entries = read_json(keys_file())
    if name not in entries:
        raise UsageError(f"no key {name} is kept; foldline keys lists those that are")
    if not isinstance(entries.pop(name), str):
        with suppress(Exception):  # it may have been deleted already
            import_module("keyring").delete_password(KEYRING, name)
    write_json(keys_file(), entries)
    note(f"{name} is deleted")


def _list(*, as_json: bool) -> None:
    entries = read_json(keys_file())
    rows = []
    for provider in main_names():
        with suppress(FoldlineError):  # its package is missing
            names = key_variables(find_provider(provider))
            present = [name for name in names if name in entries or os.environ.get(name)]
            rows += [(provider, name, _place(name, entries)) for name in present]
    other_rows = [
        ("", name, _place(name, entries))
        for name in entries
        if name not in {row[1] for row in rows}
    ]
    rows += other_rows
    if as_json:
        fields = ("provider", "name", "kept")
        echo(json.dumps([dict(zip(fields, row, strict=True)) for row in rows]))
    elif rows:
        table(("provider", "name", "kept in"), rows)
    else:
        note("no keys; foldline keys set PROVIDER keeps one")


def _place(name: str, entries: dict[str, Any]) -> str:
    if os.environ.get(name):
        return "the environment"
    return "the file" if isinstance(entries[name], str) else "the keyring"
