"""What a mustache template takes, as a Pydantic model: sections and dotted names are objects inside."""

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
"""Marks a name that is a section, and so an object, also where it names nothing inside."""


def mustache_schema(template: str) -> type[BaseModel]:
    """Return the variables of a mustache template as a model, every one of them optional."""
    compile_mustache(template)  # refuses what is not well formed
    root: Shape = {}
    open_sections: list[Shape] = [root]
    for kind, name in TAG.findall(template):
        if kind == "/":
            if len(open_sections) > 1:
                open_sections.pop()
            continue
        inner = _place(open_sections[-1], name)
        if kind == "#":
            inner.setdefault(SECTION, {})
            open_sections.append(inner)
        elif kind == "^":
            open_sections.append(open_sections[-1])
    return _model("PromptInput", root)


def _place(shape: Shape, name: str) -> Shape:
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
