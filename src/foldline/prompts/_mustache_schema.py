"""The variables of a mustache template as a Pydantic model: sections and dotted names are nested objects."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from foldline.runnables._types import object_model
from foldline.utils.mustache import compile_mustache

__all__ = ["mustache_schema"]

TAG = re.compile(r"\{\{\{?\s*+([#^/&]?)\s*+([\w.\-]++)\s*+\}?\}\}")

Shape = dict[str, "Shape"]
SECTION = ""
"""Marks a section, which is an object even if it is empty."""


def mustache_schema(template: str) -> type[BaseModel]:
    """Return the variables of a mustache template as a model, every one of them optional."""
    compile_mustache(template)  # raises if it is malformed
    root: Shape = {}
    open_sections: list[Shape] = [root]
    for kind, name in TAG.findall(template):
        if kind == "/":
            if len(open_sections) > 1:
                open_sections.pop()
            continue
        inner = _add_name(open_sections[-1], name)
        if kind == "#":
            inner.setdefault(SECTION, {})
            open_sections.append(inner)
        elif kind == "^":
            open_sections.append(open_sections[-1])
    return _model("PromptInput", root)


def _add_name(shape: Shape, name: str) -> Shape:
    if name == ".":
        return {}
    for key in name.split("."):
        shape = shape.setdefault(key, {})
    return shape


def _model(name: str, shape: Shape) -> type[BaseModel]:
    fields: dict[str, Any] = {
        key: (_model(key, inner) if inner else str, None)
        for key, inner in shape.items()
        if key != SECTION
    }
    return object_model(name, fields)
