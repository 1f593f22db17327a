"""Which names of foldline are public: those that a page shows, and those of the libraries whose programs it runs.

A module is public if no part of its path has an underscore; its public names are those of its `__all__`. What this file
returns is compared with that by `test_public_names.py`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from functools import cache
from pathlib import Path

from foldline.compat.names import rows

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
NOT_IMPORTED = {
    "foldline.compat.langchain",  # its import puts LangChain's names in place
    "foldline.language_models.call",  # old paths, which warn for one minor version
    "foldline.language_models.policies",
    "foldline.language_models.streams",
}
"""Public modules that tests import in a process of their own, because the import has an effect."""


def module_of(path: Path) -> str:
    """Return the dotted path of a file."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def public_modules() -> tuple[str, ...]:
    """Return every module without an underscore in its path."""
    modules = map(module_of, sorted((SOURCE / "foldline").rglob("*.py")))
    return tuple(module for module in modules if "._" not in module)


@cache
def exported_names() -> dict[str, tuple[str, ...]]:
    """Return the names that each public module announces."""
    modules = [module for module in public_modules() if module not in NOT_IMPORTED]
    return {
        module: tuple(getattr(importlib.import_module(module), "__all__", ())) for module in modules
    }


@cache
def shown_code() -> str:
    """Return all code on the pages that people write: fences, code spans, the examples."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    code = [part for text in texts for part in re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)]
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.py")]
    return "\n".join([*code, *examples])


@cache
def shown_words() -> frozenset[str]:
    """Return every word of that code."""
    return frozenset(re.findall(r"\w+", shown_code()))


NOT_ANNOUNCED = {
    "foldline.prompts.string": {"PromptTemplateFormat"},
    "foldline.runnables.config": {
        "CONFIG_KEYS",
        "COPIED_KEYS",
        "DEFAULT_RECURSION_LIMIT",
        "var_child_runnable_config",
    },
    "foldline.tools.base": {"TOOL_MESSAGE_BLOCK_TYPES", "_DirectlyInjectedToolArg"},
}
"""Names that programs import from LangChain's modules although no list of LangChain's has them."""


@cache
def expected_names() -> dict[str, set[str]]:
    """Return the names that other libraries' programs look for, by module of ours."""
    frozen = json.loads((ROOT / "tests" / "langchain_names.json").read_text(encoding="utf-8"))
    names = {module: set(listed) for module, listed in frozen.items()}
    for module, unlisted in NOT_ANNOUNCED.items():
        names.setdefault(module, set()).update(unlisted)
    for row in rows():
        if row.home is not None:
            names.setdefault(row.home.module, set()).add(row.home.name)
    return names


def is_known_elsewhere(name: str) -> bool:
    """Return whether another library has the name, at whatever path."""
    return any(name in names for names in expected_names().values())


def undocumented_names() -> dict[str, list[str]]:
    """Return public names that no page shows and no other library has, by module."""
    found = {
        module: [
            name for name in names if name not in shown_words() and not is_known_elsewhere(name)
        ]
        for module, names in exported_names().items()
    }
    return {module: names for module, names in found.items() if names}


def shown_modules() -> set[str]:
    """Return the modules that a page names or imports from, with the packages above them."""
    found = set(re.findall(r"foldline(?:\.[A-Za-z]\w*)+", shown_code()))
    imports = [
        node
        for part in re.findall(r"^from foldline[\w.]* import [\w, ]+$", shown_code(), re.MULTILINE)
        for node in ast.parse(part).body
    ]
    for node in imports:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    mapped = json.loads(
        (SOURCE / "foldline" / "compat" / "langchain.json").read_text(encoding="utf-8")
    )
    found |= {
        *expected_names(),
        *(row["home"] for row in mapped["modules"].values() if "home" in row),
    }
    above = {path.rsplit(".", count)[0] for path in found for count in range(path.count(".") + 1)}
    return found | above


def homes_of_public_names() -> set[str]:
    """Return the modules that define a public name, with the packages above them."""
    homes: set[str] = set()
    for module, names in exported_names().items():
        package = importlib.import_module(module)
        if not hasattr(package, "__path__"):
            continue
        for name in names:
            value = getattr(package, name)
            home = getattr(value, "__module__", None)
            if (inspect.isroutine(value) or isinstance(value, type)) and isinstance(home, str):
                homes.add(home)
    return homes | {home.rpartition(".")[0] for home in homes}
