"""`foldline default`, `aliases`, `fragments` and `templates`: the user's stored choices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Template
from typing import Any

from foldline._cli import places
from foldline._cli.settings import read_json, read_settings, write_json, write_settings
from foldline._cli.terminal import echo, note, table
from foldline.exceptions import UsageError
from foldline.utils.strings import suggestion

__all__ = [
    "aliases",
    "default",
    "fill_template",
    "fragments",
    "read_template",
    "save_template",
    "templates",
]

NAME = re.compile(r"[\w.-]{1,64}")


def default(model: str | None, *, clear: bool) -> int:
    """Show, set or clear the model that is used without -m."""
    if clear:
        write_settings(model=None)
    elif model:
        from foldline._cli.choose import choose_model

        choose_model(model)  # fails now rather than at the next prompt
        write_settings(model=model)
    echo(read_settings().get("model") or "local:smollm2")
    return 0


def aliases(name: str | None, model: str | None, *, delete: bool, as_json: bool) -> int:
    """List, set or delete."""
    return _show_or_change("aliases", "alias", name, model, delete=delete, as_json=as_json)


def fragments(name: str | None, place: str | None, *, delete: bool, as_json: bool) -> int:
    """List, set or delete names of files and addresses."""
    if place and "://" not in place:
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"{path}: there is no such file: check the path")
        place = str(path)
    return _show_or_change("fragments", "fragment", name, place, delete=delete, as_json=as_json)


def _show_or_change(
    key: str, kind: str, name: str | None, value: str | None, *, delete: bool, as_json: bool
) -> int:
    entries: dict[str, str] = dict(read_settings().get(key) or {})
    if name is None:
        if as_json:
            echo(json.dumps(entries, ensure_ascii=False))
        elif entries:
            table((kind, "stands for"), sorted(entries.items()))
        else:
            note(f"no {key}; foldline {key} NAME VALUE makes one")
        return 0
    if delete or value is None:
        if name not in entries:
            raise UsageError(
                f"there is no {kind} {name!r}{suggestion(name, entries)}: foldline {key} lists them"
            )
        if not delete:
            echo(entries[name])
            return 0
        del entries[name]
    else:
        if not NAME.fullmatch(name):
            raise UsageError(
                f"{name!r}: choose a name of letters, digits, dots, dashes and underscores"
            )
        entries[name] = value
    write_settings(**{key: entries})
    note(f"{name} is {'deleted' if delete else f'kept: {value}'}")
    return 0


# -- templates


def _file(name: str) -> Path:
    if not NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(
            f"{name!r}: choose a name of letters, digits, dots, dashes and underscores"
        )
    return places.data_dir() / "templates" / f"{name}.json"


def _names() -> list[str]:
    return sorted(file.stem for file in (places.data_dir() / "templates").glob("*.json"))


def templates(name: str | None, *, delete: bool, as_json: bool) -> int:
    """List, show or delete."""
    if name is None:
        rows = [
            (
                template_name,
                " ".join(str(read_json(_file(template_name)).get("prompt") or "").split())[:60],
            )
            for template_name in _names()
        ]
        if as_json:
            echo(
                json.dumps(
                    {template_name: read_json(_file(template_name)) for template_name in _names()},
                    ensure_ascii=False,
                )
            )
        elif rows:
            table(("template", "prompt"), rows)
        else:
            note("no templates; foldline chat ... --save NAME makes one")
        return 0
    content = read_template(name)
    if delete:
        _file(name).unlink()
        note(f"{name} is deleted")
    else:
        echo(json.dumps(content, ensure_ascii=False, indent=None if as_json else 2))
    return 0


def read_template(name: str) -> dict[str, Any]:
    """Return a template."""
    if not _file(name).exists():
        raise UsageError(
            f"there is no template {name!r}{suggestion(name, _names())}: foldline templates lists them"
        )
    return read_json(_file(name))


def save_template(name: str, **content: Any) -> None:
    """Store the parts of a prompt as a template."""
    fields = {
        key: value for key, value in content.items() if value not in (None, "", [], {}, False)
    }
    if not fields:
        raise UsageError(
            "--save: there is nothing to save: give a prompt, --system, -m, -t, --schema or -o"
        )
    write_json(_file(name), fields)
    note(f"template {name} is kept: {', '.join(fields)}; -T {name} uses it")


def fill_template(text: str, values: dict[str, str], prompt: str) -> str:
    """Fill `$input` and the parameters of a template; a prompt that it does not use is appended."""
    names = _identifiers(text)
    missing = sorted(names - {"input"} - set(values))
    if missing:
        raise UsageError(
            f"the template needs {', '.join(missing)}: give -p {missing[0]}=VALUE (write $$ for a dollar sign)"
        )
    filled = Template(text).safe_substitute({**values, "input": prompt})
    return filled if "input" in names or not prompt else f"{filled}\n\n{prompt}".strip()


def _identifiers(text: str) -> set[str]:
    matches = Template.pattern.finditer(text)
    return {
        match["named"] or match["braced"] for match in matches if match["named"] or match["braced"]
    }
