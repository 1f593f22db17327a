"""Reads JSON from `foldline.load.dump` (or from LangChain) back into equal values.

The data may be hostile: it can name a row of the registry and nothing else. Anything beyond that (providers, secrets,
addresses) must be allowed by the caller, in code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from foldline.exceptions import SchemaError
from foldline.load._reader import DumpReader, InitValidator, Secrets
from foldline.load.registry import (
    Allowance,
    AllowedObjects,
    ClassId,
    is_provider,
    loadable_fields,
    our_id,
)
from foldline.utils._signature import show_defaults
from foldline.utils.json import JsonError, parse_strict

__all__ = ["InitValidator", "Reviver", "default_init_validator", "load", "loads"]


CODE_ONLY = ("url", "api_base", "endpoint", "header", "prox", "host", "transport", "client")
"""Parts of argument names that data may not set, at any depth: they decide where keys and prompts are sent."""


def default_init_validator(class_path: tuple[str, ...], kwargs: dict[str, Any]) -> None:
    """Reject jinja2 templates, which are programs, and a provider's arguments that it does not declare harmless."""
    if our_id(class_path)[:2] == ("foldline", "prompts"):
        _reject_templates(kwargs)
    if is_provider(class_path):
        _reject_addresses(class_path, kwargs)


def _reject_templates(kwargs: dict[str, Any]) -> None:
    # Also inside plain dicts, which Pydantic would turn into prompts without calling this again.
    pending: list[object] = [kwargs]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if value.get("template_format") == "jinja2":
                raise SchemaError(
                    "Jinja2 templates are not allowed: a jinja2 template is a program; data may not bring one"
                )
            pending.extend(value.values())
        elif isinstance(value, (list, tuple)):
            pending.extend(value)


def _reject_addresses(class_path: ClassId, kwargs: Mapping[str, object]) -> None:
    """Reject arguments that may change where a request is sent (F-Y01).

    A provider declares the arguments that are harmless; for one that does not, argument names decide.
    """
    loadable = loadable_fields(class_path)
    harmless = kwargs.keys() if loadable is None else loadable
    for name, value in kwargs.items():
        if value is not None and (name not in harmless or _sets_address({name: value})):
            raise SchemaError(
                f"data may not set {name!r}: it may say where keys and prompts are sent. "
                "If you trust the data, pass init_validator=None."
            )


def _sets_address(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(
            any(word in str(name).lower() for word in CODE_ONLY) or _sets_address(inner)
            for name, inner in value.items()
        )
    return isinstance(value, list | tuple) and any(map(_sets_address, value))


class Reviver:
    """`load` with its options set once, for many dumps.

    Pass complete dumps. As an `object_hook` of a JSON parser it would see the data from the inside out, before it can
    know that data only looks like a tag.

    ```python
    from foldline.load import dumpd
    from foldline.load.load import Reviver
    from foldline.messages import HumanMessage

    revive = Reviver("messages")
    print(revive(dumpd(HumanMessage("hello"))).text)
    #> hello
    ```
    """

    def __init__(
        self,
        allowed_objects: AllowedObjects = None,
        secrets_map: Mapping[str, str | None] | None = None,
        valid_namespaces: list[str] | None = None,
        secrets_from_env: Iterable[str] | bool = False,  # noqa: FBT001, FBT002  LangChain's order
        additional_import_mappings: dict[ClassId, ClassId] | None = None,
        *,
        ignore_unserializable_fields: bool = False,
        init_validator: InitValidator | None = default_init_validator,
    ) -> None:
        """Set the options of `load`."""
        self._allowance = Allowance(allowed_objects, valid_namespaces, additional_import_mappings)
        self._secrets = Secrets(secrets_map or {}, from_env=secrets_from_env)
        self._validator = init_validator
        self._skips_marks = ignore_unserializable_fields

    def __call__(self, value: object) -> Any:  # noqa: ANN401  any value that was dumped
        """Return the value of a dump of `dumpd`."""
        reader = DumpReader(
            self._allowance, self._secrets, self._validator, skips_marks=self._skips_marks
        )
        try:
            return reader.read(value)
        except RecursionError as error:
            raise SchemaError("the data is nested too deep for the stack left here") from error


@show_defaults
def loads(
    text: str | bytes,
    *,
    allowed_objects: AllowedObjects = None,
    secrets_map: Mapping[str, str | None] | None = None,
    valid_namespaces: list[str] | None = None,
    secrets_from_env: Iterable[str] | bool = False,
    additional_import_mappings: dict[ClassId, ClassId] | None = None,
    ignore_unserializable_fields: bool = False,
    init_validator: InitValidator | None = default_init_validator,
) -> Any:  # noqa: ANN401  any value that was dumped
    """Return the value of JSON text written by `dumps`; the options are those of `load`."""
    return load(
        _parse(text),
        allowed_objects=allowed_objects,
        secrets_map=secrets_map,
        valid_namespaces=valid_namespaces,
        secrets_from_env=secrets_from_env,
        additional_import_mappings=additional_import_mappings,
        ignore_unserializable_fields=ignore_unserializable_fields,
        init_validator=init_validator,
    )


@show_defaults
def load(
    obj: object,
    *,
    allowed_objects: AllowedObjects = None,
    secrets_map: Mapping[str, str | None] | None = None,
    valid_namespaces: list[str] | None = None,
    secrets_from_env: Iterable[str] | bool = False,
    additional_import_mappings: dict[ClassId, ClassId] | None = None,
    ignore_unserializable_fields: bool = False,
    init_validator: InitValidator | None = default_init_validator,
) -> Any:  # noqa: ANN401  any value that was dumped
    """Return the value of a dump of `dumpd`.

    `allowed_objects` is `"messages"`, `"core"` (the default: values, prompts, parsers, runnables), `"all"`
    (providers too) or a list of classes. `valid_namespaces` allows registered classes below a module.
    Secrets come from `secrets_map`, or from the environment variables named in `secrets_from_env`; True stands for
    those that the class declares in `lc_secrets` for the argument.
    """
    revive = Reviver(
        allowed_objects,
        secrets_map,
        valid_namespaces,
        secrets_from_env,
        additional_import_mappings,
        ignore_unserializable_fields=ignore_unserializable_fields,
        init_validator=init_validator,
    )
    return revive(obj)


def _parse(text: str | bytes) -> object:
    try:
        # The reader limits the depth; checking it in the text first would double the cost.
        return parse_strict(text, max_depth=sys.maxsize)
    except (JsonError, TypeError) as error:
        raise SchemaError(f"cannot load the text: it is not strict JSON: {error}") from error
