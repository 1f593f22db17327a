"""`SETTINGS`: the settings as rows, with their flags and variables; and where the value of each comes from.

A flag wins over the environment, the environment over the file, the file over the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from foldline.exceptions import UsageError
from foldline.serve.settings import ProcessSettings, ServeSettings, SettingFacts, facts_of

__all__ = [
    "DEFAULT",
    "FILE_NAMES",
    "SETTINGS",
    "VARIABLE_PREFIX",
    "Setting",
    "SettingValue",
    "expand_variables",
    "find_values",
    "hide_password",
    "settings_of",
    "unknown_variables",
]

DEFAULT: Final = "default"
"""The source of a value that nobody set."""
VARIABLE_PREFIX: Final = "FOLDLINE_SERVE_"
WORDS: Final = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
VARIABLE: Final = re.compile(r"\$(\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
Flags: TypeAlias = Mapping[str, object]
"""What was typed, by the name of the setting: a text, a list of texts, or whether a switch was given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    annotation: Any
    default: Any
    facts: SettingFacts
    owner: type[ServeSettings] | type[ProcessSettings]

    @property
    def types(self) -> tuple[Any, ...]:
        """What its value may be, apart from None."""
        if get_origin(self.annotation) is Literal:
            return (self.annotation,)
        kinds = get_args(self.annotation) if NoneType in get_args(self.annotation) else None
        return tuple(kind for kind in kinds or (self.annotation,) if kind is not NoneType)

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return self.types == (bool,)

    @property
    def is_list(self) -> bool:
        """Whether it is a list of texts."""
        return get_origin(self.types[0]) is not None and not self.choices

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be, if there are only some."""
        kind = self.types[0]
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Its flags; that of a switch has its opposite after a slash."""
        flag = f"--{self.name.replace('_', '-')}"
        if self.is_switch and not self.name.startswith("no_"):
            flag += f"/--no-{self.name.replace('_', '-')}"
        return (flag, *self.facts.flags)

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return VARIABLE_PREFIX + self.name.upper()

    @property
    def shown_default(self) -> str:
        """The default, as the docs and the help show it."""
        if self.facts.shown is not None:
            return self.facts.shown
        if self.default is None or self.default == ():
            return "–"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        is_whole = isinstance(self.default, int)
        is_number = isinstance(self.default, int | float)
        return format(self.default, "," if is_whole else "g") if is_number else str(self.default)

    @property
    def metavar(self) -> str | None:
        """What the help shows for its value."""
        if self.is_switch:
            return None
        if self.choices:
            return "|".join(self.choices)
        kind = self.types[0]
        return {int: "INTEGER", float: "NUMBER"}.get(kind, "TEXT")

    def parse(self, text: str, place: str) -> object:
        """Return the value that a text means; raise `UsageError`, with the place, if it means none."""
        words = text.strip()
        if words.lower() == "none" and NoneType in get_args(self.annotation):
            return None
        if self.is_switch and words.lower() in WORDS:
            return WORDS[words.lower()]
        if self.is_list:
            return [part.strip() for part in words.split(",") if part.strip()]
        for kind in self.types:
            if kind in (int, float):
                try:
                    return kind(words.replace("_", ""))
                except ValueError:
                    continue
            if kind is str or words in self.choices:
                return words
        raise UsageError(f"{place}: {text!r:.80} is not {self._wanted()}")

    def check(self, value: object, place: str) -> object:
        """Return a value of the file; raise `UsageError`, with the place, if it is of another type."""
        from foldline.utils._options import fits  # noqa: PLC0415  every command imports this list

        if value == "none" and NoneType in get_args(self.annotation):
            return None
        if value is None or not fits(value, self.annotation):
            raise UsageError(f"{place}: {value!r:.80} is not {self._wanted()}")
        return value

    def _wanted(self) -> str:
        if self.choices:
            return " or ".join(self.choices)
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        words = [names.get(kind, "a list of texts") for kind in self.types]
        return " or ".join([*words, "none"] if NoneType in get_args(self.annotation) else words)


def _rows(owner: type[ServeSettings] | type[ProcessSettings]) -> list[Setting]:
    hints = get_type_hints(owner)
    facts = facts_of(owner)
    return [
        Setting(each.name, hints[each.name], each.default, facts[each.name], owner)
        for each in fields(owner)
        if each.default is not MISSING
    ]


SETTINGS: Final = {row.name: row for row in (*_rows(ProcessSettings), *_rows(ServeSettings))}
"""Every setting by its name, in the order of the docs."""
FILE_NAMES: Final = frozenset(SETTINGS) | {
    f"{row.name}_file" for row in SETTINGS.values() if row.facts.is_secret
}
"""The names that `[serve]` of a configuration file may have."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting, and where it is from."""

    setting: Setting
    value: Any
    source: str

    @property
    def shown(self) -> str:
        """The value without passwords."""
        if self.value is None:
            return "none"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, Sequence) and not isinstance(self.value, str):
            return ", ".join(self.value) or "–"
        return hide_password(str(self.value)) if self.setting.facts.is_secret else str(self.value)


def hide_password(place: str) -> str:
    """Return the URL of a database without its user and password."""
    scheme, mark, rest = place.partition("://")
    if not mark:
        return place
    address = rest.rpartition("@")[2].partition("?")[0]
    return f"{scheme}://…@{address}" if "@" in rest else f"{scheme}://{address}"


def find_values(
    flags: Flags, environment: Mapping[str, str], file: Mapping[str, Any], file_name: str
) -> dict[str, SettingValue]:
    """Return the value of every setting: of its flag, else its variable, else the file, else its default."""
    values: dict[str, SettingValue] = {}
    for name, row in SETTINGS.items():
        values[name] = (
            _of_flags(row, flags)
            or _of_environment(row, environment)
            or _of_file(row, file, file_name)
            or SettingValue(row, row.default, DEFAULT)
        )
    return values


def _of_flags(row: Setting, flags: Flags) -> SettingValue | None:
    flag = row.flags[0].partition("/")[0]
    given = flags.get(row.name)
    path = flags.get(f"{row.name}_file")
    if path is not None:
        _refuse_both(given, flag, f"{flag}-file")
        return _of_path(row, str(path), f"{flag}-file")
    if given is None or given == []:
        return None
    if isinstance(given, list):
        parts = [part for text in given for part in _as_list(row.parse(str(text), flag))]
        return SettingValue(row, parts, flag)
    value = row.parse(given, flag) if isinstance(given, str) else row.check(given, flag)
    return SettingValue(row, value, flag)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _of_environment(row: Setting, environment: Mapping[str, str]) -> SettingValue | None:
    """Return what the environment says; an empty variable says nothing, as container files often set one."""
    text = environment.get(row.variable)
    path = environment.get(f"{row.variable}_FILE") if row.facts.is_secret else None
    if path:
        _refuse_both(text or None, row.variable, f"{row.variable}_FILE")
        return _of_path(row, path, f"{row.variable}_FILE")
    return SettingValue(row, row.parse(text, row.variable), row.variable) if text else None


def _of_file(row: Setting, file: Mapping[str, Any], file_name: str) -> SettingValue | None:
    place = f"{file_name} [serve] {row.name}"
    path = file.get(f"{row.name}_file")
    if path is not None:
        _refuse_both(file.get(row.name), row.name, f"{row.name}_file")
        return _of_path(row, str(path), f"{place}_file")
    if row.name not in file:
        return None
    return SettingValue(row, row.check(file[row.name], place), place)


def _refuse_both(value: object, name: str, file_name: str) -> None:
    if value is not None:
        raise UsageError(f"{name} and {file_name} are both given: give one of them")


def _of_path(row: Setting, path: str, place: str) -> SettingValue:
    """Read the value of a secret from a file."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"{place}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: {path} is not UTF-8") from error
    if not text:
        raise UsageError(f"{place}: {path} is empty")
    return SettingValue(row, row.parse(text, place), place)


def settings_of(
    values: Mapping[str, SettingValue],
) -> tuple[ProcessSettings, ServeSettings]:
    """Return the settings of the process and those of the app."""
    options: dict[type, dict[str, Any]] = {ProcessSettings: {}, ServeSettings: {}}
    for name, each in values.items():
        options[each.setting.owner][name] = each.value
    return ProcessSettings(**options[ProcessSettings]), ServeSettings(**options[ServeSettings])


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that begins like a setting and is none: most are misspelt."""
    from foldline.utils.strings import suggestion  # noqa: PLC0415  every command imports this list

    known = {row.variable for row in SETTINGS.values()}
    known |= {f"{row.variable}_FILE" for row in SETTINGS.values() if row.facts.is_secret}
    return [
        f"{name} is no setting{suggestion(name, sorted(known))}: it has no effect"
        for name in sorted(environment)
        if name.startswith(VARIABLE_PREFIX) and name not in known
    ]


def expand_variables(value: Any, environment: Mapping[str, str], place: str) -> Any:  # noqa: ANN401  any value of TOML
    """Replace `${NAME}` in the texts of a file by variables; `$$` is a dollar.

    A variable that is not set is an error.
    """
    if isinstance(value, dict):
        return {
            name: expand_variables(item, environment, f"{place} {name}")
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [expand_variables(item, environment, place) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match[2]
        if name is None:
            return "$"
        if name not in environment:
            raise UsageError(f"{place}: the environment has no {name}: set it, or write $$ for $")
        return environment[name]

    return VARIABLE.sub(replace, value)
