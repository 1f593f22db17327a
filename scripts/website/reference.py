"""Write the pages of the API reference: every public name once, under the package that publishes it.

Public is what a module without an underscore in its path names in `__all__`, or a package in its block of exports
(docs/api-policy.md). The source is read, never imported, so that no extra has to be installed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import griffe

__all__ = ["ApiPage", "find_pages", "write_pages"]

PACKAGE = "foldline"
NOT_A_LIBRARY = ("foldline._cli",)
"""Packages whose names are no API: the command line is documented on its own page."""


@dataclass
class ApiPage:
    """One package with its modules."""

    package: str
    summary: str
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Module -> paths of the names that are shown here."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """Path of a name -> the path under which it is shown, on this page or another; or that of another package."""

    @property
    def file(self) -> str:
        """The name of the page's file."""
        return f"{self.package.removeprefix(f'{PACKAGE}.').replace('.', '-')}.md"


def find_pages(source: Path) -> list[ApiPage]:
    """Return the pages in the order of their packages."""
    root = griffe.load(PACKAGE, search_paths=[source], allow_inspection=False)
    assert isinstance(root, griffe.Module)
    modules = sorted(_public_modules(root), key=_rank)
    pages: dict[str, ApiPage] = {}
    shown: dict[str, str] = {}
    for module in modules:
        page = pages.setdefault(_page_of(module), ApiPage(_page_of(module), _summary(root, module)))
        for name in _exports(module):
            path = f"{module.path}.{name}"
            target = _target(module, name)
            if target is None:
                raise SystemExit(f"{path}: exported, and not in the source")
            if target in shown or not target.startswith(f"{PACKAGE}."):
                if shown.get(target) != path:
                    page.elsewhere[path] = shown.get(target, target)
                continue
            shown[target] = path
            page.names[module.path].append(path)
    return sorted(
        (page for page in pages.values() if page.names or page.elsewhere),
        key=lambda page: page.package,
    )


def _public_modules(module: griffe.Module) -> Iterator[griffe.Module]:
    if module.path in NOT_A_LIBRARY:
        return
    yield module
    for child in module.modules.values():
        if isinstance(child, griffe.Module) and not child.name.startswith("_"):
            yield from _public_modules(child)


def _exports(module: griffe.Module) -> list[str]:
    """Return the names in `__all__`, or in the block `with lazy_exports(__name__):` of a package."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    assert isinstance(module.filepath, Path)
    tree = ast.parse(module.filepath.read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.With)]
    aliases = (node for block in blocks for node in ast.walk(block) if isinstance(node, ast.alias))
    return sorted(alias.name for alias in aliases)


def _rank(module: griffe.Module) -> tuple[bool, bool, int, str]:
    """Names are shown under packages before modules, near the root first; the root itself only refers to them."""
    return (
        module.path == PACKAGE,
        not module.is_init_module,
        module.path.count("."),
        module.path,
    )


def _page_of(module: griffe.Module) -> str:
    parts = module.path.split(".")
    return ".".join(parts[:3] if parts[1:2] == ["providers"] else parts[:2])


def _summary(root: griffe.Module, module: griffe.Module) -> str:
    path = _page_of(module).removeprefix(PACKAGE).lstrip(".")
    owner = root[path] if path else root
    return owner.docstring.value.splitlines()[0] if owner.docstring else ""


def _target(module: griffe.Module, name: str) -> str | None:
    """Return the path where a name is defined."""
    member = module.all_members.get(name)
    if member is None:
        return None
    try:
        return member.final_target.path if isinstance(member, griffe.Alias) else member.path
    except griffe.AliasResolutionError as error:  # a name of another package
        return error.alias.target_path


def write_pages(pages: list[ApiPage], folder: Path) -> None:
    """Write a file for each page, and one that lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {path: page.file for page in pages for paths in page.names.values() for path in paths}
    for page in pages:
        (folder / page.file).write_text(_render(page, places), encoding="utf-8")
    rows = [f"| [`{page.package}`]({page.file}) | {page.summary} |" for page in pages]
    count = len(places)
    text = [
        "# API reference",
        "",
        f"The {count} public names of foldline, by package. Names keep LangChain's where LangChain has them. What "
        "*public* means, and how long a name stays: [public API and deprecations](../api-policy.md).",
        "",
        "| package | what is in it |",
        "|---|---|",
        *rows,
        "",
    ]
    (folder / "index.md").write_text("\n".join(text), encoding="utf-8")


def _render(page: ApiPage, places: dict[str, str]) -> str:
    lines = [f"# `{page.package}`", "", page.summary, ""]
    if page.elsewhere:
        lines += ["| also published as | shown as |", "|---|---|"]
        lines += [
            f"| `{path}` | [`{home}`]({places[home]}#{home}) |"
            if home in places
            else f"| `{path}` | `{home}` |"
            for path, home in sorted(page.elsewhere.items())
        ]
        lines += [""]
    for paths in page.names.values():
        for path in sorted(paths, key=str.lower):
            lines += [f"::: {path}", ""]
    return "\n".join(lines)
