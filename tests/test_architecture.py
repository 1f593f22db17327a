"""Guards of the house style: each a few lines, each saying what to do when it fails."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import langchain_names

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "foldline"
SOURCES = sorted(PACKAGE.rglob("*.py"))

WAITING = {"asyncio", "threading", "concurrent", "anyio", "trio"}
MAY_WAIT = (
    "_io/",
    "transports/",
    "providers/local/_bridge.py",
    "serve/",
)
"""What of src/foldline may import what waits: the transports, one of which leads to a server in this process, and the HTTP server."""

LONGEST_FILE = 600
LONG_FOR_A_REASON: dict[str, str] = {}
"""Path -> why it may be longer: a data table, a generated file."""

CORE = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
"""What `import foldline` may load besides the standard library and itself. Not even HTTP."""
MOST_MODULES = 400
"""Modules in memory after `import foldline`, the standard library's included."""


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module imported anywhere in a file, inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def module_body(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if TYPE_CHECKING:` included."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If) else [node]


def bound_names(tree: ast.Module) -> set[str]:
    """The public names a package defines or, where it only gathers, imports from its modules."""
    defined, gathered = set(), set()
    for node in module_body(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("foldline")
            and node.module != "foldline._lazy"
        ):
            gathered |= {alias.asname or alias.name for alias in node.names}
    public = {name for name in defined if not name.startswith("_")}
    only_gathers = defined <= {"__getattr__", "__dir__"}
    return {name for name in gathered if not name.startswith("_")} if only_gathers else public


def announced(tree: ast.Module) -> set[str] | None:
    """The names in `__all__`, or None where there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return set(ast.literal_eval(node.value)) if node.value else set()
    return None


def is_public(path: Path) -> bool:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return not any(part.startswith("_") for part in parts if part != "__init__")


@pytest.mark.parametrize("path", [path for path in SOURCES if is_public(path)], ids=short)
def test_all_equals_what_is_exported(path: Path):
    tree = parsed(path)
    is_package = path.name == "__init__.py"
    exported = bound_names(tree) if is_package else set()
    names = announced(tree)
    if names is None:
        assert not (is_package and exported), (
            f"{short(path)} exports {exported}: give it an __all__"
        )
        return
    module = ".".join(("foldline", *path.relative_to(PACKAGE).with_suffix("").parts))
    loaded = __import__(module.removesuffix(".__init__"), fromlist=["*"])

    assert {name for name in names if not hasattr(loaded, name)} == set(), "in __all__, not there"
    if is_package:  # a plain module may have names that only its siblings use
        assert exported - names == set(), "exported, not in __all__ (or give it an underscore)"


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_imports_are_absolute_and_only_io_may_wait(path: Path):
    modules = list(imported(parsed(path)))
    may_wait = path.relative_to(PACKAGE).as_posix().startswith(MAY_WAIT)

    assert [module for module in modules if module.startswith(".")] == []
    waiting = [module for module in modules if module.split(".")[0] in WAITING]
    assert may_wait or waiting == [], "wait through `io` (docs/house-style.md)"


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_a_file_is_short_and_opens_with_what_it_is(path: Path):
    text = path.read_text(encoding="utf-8")

    assert ast.get_docstring(ast.parse(text)), "the first line says what the file is for"
    if short(path) not in LONG_FOR_A_REASON:
        assert text.count("\n") <= LONGEST_FILE, "cut it, or write down why in LONG_FOR_A_REASON"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=short)
def test_a_test_file_is_short_too(path: Path):
    assert path.read_text(encoding="utf-8").count("\n") <= LONGEST_FILE


def test_importing_foldline_loads_no_provider_and_little_else():
    program = "import sys, foldline, json; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-Ic", program], capture_output=True, check=True
    ).stdout
    bare = subprocess.run(
        [sys.executable, "-Ic", "import sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        check=True,
    ).stdout
    modules = set(json.loads(output))
    tops = {module.split(".")[0] for module in modules - set(json.loads(bare))}
    foreign = tops - set(sys.stdlib_module_names) - {"foldline"} - CORE

    assert {module for module in modules if module.startswith("foldline.providers.")} == set()
    assert {module for module in foreign if not module.startswith("_")} == set()
    assert len(modules) <= MOST_MODULES


def committed_files() -> list[Path]:
    """What git knows; in a copy without git everything but environments and caches."""
    if (ROOT / ".git").exists():
        command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        found = [ROOT / name for name in listing.decode().split("\0") if name]
    else:
        found = [
            path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith(".")
        ]
    return [path for path in found if path.is_file()]


def test_no_registry_host_and_no_path_of_this_machine_is_written_down():
    # Put together here, so that this file does not find itself.
    unwanted = ["py" + "pi.org", "index" + "-url", "https://" + "pypi", "pythonhosted" + ".org"]
    unwanted += ["registry." + "npmjs", "/" + "root/"]
    if len(ROOT.parts) > 2:
        unwanted.append(f"{ROOT}/")
    found = []
    for path in committed_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{short(path)}: {word}" for word in unwanted if word in text]

    assert found == []


def test_every_name_of_langchain_is_here_or_its_absence_has_a_reason():
    missing, gaps = langchain_names.find_missing(), langchain_names.read_gaps()

    assert langchain_names.unexplained(missing, gaps) == [], (
        "add it, or a line to langchain_gaps.txt"
    )
    assert langchain_names.stale(missing, gaps) == [], "landed: run python -m tests.langchain_names"
