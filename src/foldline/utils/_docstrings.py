"""Google-style docstrings: the description, and a sentence per argument."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

__all__ = ["Docstring", "parse_docstring"]

SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Keyword Args|Returns?|Yields?|Raises|Examples?):\s*(.*)\Z"
)
ARGUMENT_SECTIONS = ("Args", "Arguments", "Parameters", "Params", "Keyword Args")
ARGUMENT = re.compile(r"\*{0,2}([A-Za-z_]\w*)\s*(?:\([^)]*\))?\s*:\s*(.*)\Z")


class Docstring(NamedTuple):
    """A parsed docstring: the text before its sections, and the description of each argument."""

    description: str
    arguments: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring; everything but Google's sections is description.

    ```python
    parse_docstring("Add.\\n\\nArgs:\\n    a: The first.")  # Docstring("Add.", {"a": "The first."})
    ```
    """
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    arguments: dict[str, str] = {}
    section: str | None = None
    block: list[str] = []
    for line in lines:
        match = SECTION.match(line)
        # Only a header on its own line is one: "Returns: x" in a sentence is indented or prefixed.
        if match is not None:
            arguments.update(_arguments(section, block))
            section, block = match[1], []
        elif section is None:
            description.append(line)
        else:
            block.append(line)
    arguments.update(_arguments(section, block))
    return Docstring(_paragraphs(description), arguments)


def _paragraphs(lines: list[str]) -> str:
    """Join paragraphs by one space, as LangChain does; the lines of a paragraph stay."""
    paragraphs = re.split(r"\n[ \t]*\n", "\n".join(lines).strip())
    return " ".join(paragraph.strip() for paragraph in paragraphs if paragraph.strip())


def _arguments(section: str | None, block: list[str]) -> dict[str, str]:
    if section not in ARGUMENT_SECTIONS:
        return {}
    arguments: dict[str, str] = {}
    name, indent = None, None
    for line in block:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        match = ARGUMENT.match(line.strip()) if depth <= indent else None
        if match is not None:
            name = match[1]
            arguments[name] = match[2].strip()
        elif name is not None:
            arguments[name] = f"{arguments[name]} {line.strip()}".strip()
    return arguments
