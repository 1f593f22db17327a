"""The text that `help()` and `?` show of a class with fields: its docstring, and the docstring of each field.

Python does not keep the text below a field: it is read from the source when somebody asks for the text of the class.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from foldline._lazy import ClassDoc

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = ["class_doc", "field_docs", "plain_description"]


def class_doc(cls: type, text: str) -> str:
    """Return the docstring of a class, with a line for each field that has one.

    ```python
    import inspect

    from foldline.messages import AIMessage

    print(inspect.getdoc(AIMessage).splitlines()[-3].strip())
    #> usage_metadata: The token counts of this message.
    ```
    """
    described = field_docs(cls)
    if not described:
        return text
    lines = [f"    {name}{_default(cls, name)}: {doc}" for name, doc in described.items()]
    return "\n".join([inspect.cleandoc(text), "", "Fields:", *lines]).lstrip()


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, in one line each, in the order of the fields."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _docs_of_class(base)
    return {name: found[name] for name in _fields(cls) if name in found}


def plain_description(
    cls: type,
    core_schema: CoreSchema,
    handler: GetJsonSchemaHandler,
) -> JsonSchemaValue:
    """Return the JSON Schema of a class, described by its docstring alone: its fields have their own place there."""
    schema = handler(core_schema)
    target = handler.resolve_ref_schema(schema)
    own = cls.__dict__.get("__doc__")
    if isinstance(own, ClassDoc) and target.get("description") == inspect.cleandoc(
        cls.__doc__ or ""
    ):
        target["description"] = inspect.cleandoc(str(own))
    return schema


def _default(cls: Any, name: str) -> str:  # noqa: ANN401  a class of any metaclass
    """Return ` = value` for a plain default."""
    default = getattr(_fields(cls).get(name), "default", None)
    return f" = {default!r}" if isinstance(default, str | int | float) else ""


def _fields(cls: Any) -> dict[str, Any]:  # noqa: ANN401  a class of any metaclass
    fields: dict[str, Any] = getattr(cls, "model_fields", None) or getattr(
        cls, "__dataclass_fields__", {}
    )
    return fields


def _docs_of_class(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields that a class of foldline declares itself."""
    if not cls.__module__.startswith("foldline"):
        return {}
    files = [getattr(sys.modules.get(cls.__module__), "__file__", None)]
    # A class that says a public module is defined in another file: that of its functions.
    functions = filter(inspect.isfunction, cls.__dict__.values())
    files += dict.fromkeys(function.__code__.co_filename for function in functions)
    for file in filter(None, files):
        if (docs := _docs_of_file(file).get(cls.__name__)) is not None:
            return docs
    return {}


@cache
def _docs_of_file(file: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by class; nothing for a file that cannot be read."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {node.name: _read_docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _read_docs(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = " ".join(following.value.value.split())
    return docs
