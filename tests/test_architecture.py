"""Guards of the house style: each a few lines, each saying what to do when it fails."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import langchain_names
from tests.layers_page import PAGES, STATES_PAGE, layers, with_layers, with_states

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "foldline"
SOURCES = sorted(PACKAGE.rglob("*.py"))

WAITING = {"asyncio", "threading", "concurrent", "anyio", "trio"}
MAY_WAIT = (
    "_io/",
    "transports/",
    "providers/local/_chunk_stream.py",
)
"""Paths in src/foldline that may import modules which wait: the transports, one of them to a server in this process."""

BUILT_IN_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type)
    and issubclass(value, BaseException)
    and not issubclass(value, Warning)
}

LONGEST_FILE = 600
LONG_FOR_A_REASON: dict[str, str] = {
    "src/foldline/runnables/base.py": "the signatures of its methods, where checkers and editors look for them",
}
"""Path -> why it may be longer: a data table, a generated file."""

CORE = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
"""What `import foldline` may load besides the standard library and itself. Not even HTTP."""
MOST_MODULES = 400
"""Modules in memory after `import foldline`, the standard library's included."""


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module imported anywhere in a file, inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def module_body(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if TYPE_CHECKING:` and `with lazy_exports(...):` included."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If | ast.With) else [node]


def bound_names(tree: ast.Module) -> set[str]:
    """The public names a package defines or, where it only gathers, imports from its modules."""
    defined, reexports = set(), set()
    for node in module_body(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("foldline")
            and node.module != "foldline._lazy"
        ):
            reexports |= {alias.asname or alias.name for alias in node.names}
    public = {name for name in defined if not name.startswith("_")}
    only_gathers = defined <= {"__getattr__", "__dir__"}
    return {name for name in reexports if not name.startswith("_")} if only_gathers else public


def announced(tree: ast.Module) -> set[str] | None:
    """The names in `__all__` or in the block of exports, or None where there is neither."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return set(ast.literal_eval(node.value)) if node.value else set()
    blocks = [node for node in tree.body if isinstance(node, ast.With)]
    aliases = (node for block in blocks for node in ast.walk(block) if isinstance(node, ast.alias))
    return {alias.name for alias in aliases} or None


ACTS = {PACKAGE / "compat" / "langchain.py"}
"""Modules whose import is an act, which is done in a process of its own: LangChain's names are put in place."""


def is_public(path: Path) -> bool:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return not any(part.startswith("_") for part in parts if part != "__init__")


def wrong_exports(path: Path) -> str | None:
    """Return what is wrong with the `__all__` of a file, if anything."""
    tree = parse_file(path)
    is_package = path.name == "__init__.py"
    exported = bound_names(tree) if is_package else set()
    names = announced(tree)
    if names is None:
        return f"exports {exported}: give it an __all__" if is_package and exported else None
    module = ".".join(("foldline", *path.relative_to(PACKAGE).with_suffix("").parts))
    loaded_module = __import__(module.removesuffix(".__init__"), fromlist=["*"])
    if absent := {name for name in names if not hasattr(loaded_module, name)}:
        return f"{absent} is in __all__, and is not there"
    if is_package and (
        silent := exported - names
    ):  # a plain module may have names that only its siblings use
        return f"{silent} is exported, and is not in __all__ (or give it an underscore)"
    return None


def test_all_equals_what_is_exported():
    problems = {
        short(path): wrong_exports(path) for path in SOURCES if is_public(path) and path not in ACTS
    }

    assert {path: reason for path, reason in problems.items() if reason} == {}


def test_a_module_whose_import_is_an_act_has_the_names_it_announces():
    for path in ACTS:
        module = ".".join(("foldline", *path.relative_to(PACKAGE).with_suffix("").parts))
        program = f"import {module} as m; assert all(hasattr(m, name) for name in m.__all__)"

        subprocess.run([sys.executable, "-c", program], check=True)


def test_imports_are_absolute():
    relative = {
        short(path): [module for module in imported(parse_file(path)) if module.startswith(".")]
        for path in SOURCES
    }

    assert {path: modules for path, modules in relative.items() if modules} == {}


def test_only_io_may_wait():
    waiting = {
        short(path): [
            module for module in imported(parse_file(path)) if module.split(".")[0] in WAITING
        ]
        for path in SOURCES
        if not path.relative_to(PACKAGE).as_posix().startswith(MAY_WAIT)
    }

    assert {path: modules for path, modules in waiting.items() if modules} == {}, (
        "wait through `io` (docs/house-style.md)"
    )


CAUGHT_INSIDE = {
    "_io/waiting.py": "OutOfTime",
    "graph/task_run.py": "ParentCommand",
    "output_parsers/_xml_stream.py": "XmlError",
    "serve/errors.py": "ServeError",  # becomes an HTTP answer
    "transports/_http1.py": "BadHttp HeadTooLarge CutShort",
    "transports/_wait.py": "Expired",
    "utils/_json_strict.py": "_Refused",
    "utils/_schema_validate.py": "_TooLong",
    "workflows/interrupts.py": "FlowInterrupt",
    "workflows/_flow_scope.py": "RunClosed",
}
"""Exceptions that no program gets: their own part catches them."""


def test_every_error_that_a_program_gets_is_in_the_tree_of_exceptions():
    outside = {}
    for path in SOURCES:
        classes = [node for node in ast.walk(parse_file(path)) if isinstance(node, ast.ClassDef)]
        bases = {node.name: {ast.unparse(base) for base in node.bases} for node in classes}
        names = {name for name, parents in bases.items() if parents and parents <= BUILT_IN_ERRORS}
        expected = set(CAUGHT_INSIDE.get(path.relative_to(PACKAGE).as_posix(), "").split())
        if path != PACKAGE / "exceptions.py" and names != expected:
            outside[short(path)] = names

    assert outside == {}, "derive from a class of foldline.exceptions (docs/house-style.md)"


def test_a_file_opens_with_what_it_is():
    silent = [short(path) for path in SOURCES if not ast.get_docstring(parse_file(path))]

    assert silent == [], "the first line says what the file is for"


def test_a_file_is_short():
    files = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
    lines = {short(path): path.read_text(encoding="utf-8").count("\n") for path in files}
    long = {path: count for path, count in lines.items() if count > LONGEST_FILE}

    assert long.keys() - LONG_FOR_A_REASON.keys() == set(), (
        "cut it, or write down why in LONG_FOR_A_REASON"
    )


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
    """Return the files that git tracks; in a copy without git all files but environments and caches."""
    if (ROOT / ".git").exists():
        command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        paths = [ROOT / name for name in listing.decode().split("\0") if name]
    else:
        paths = [
            path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith(".")
        ]
    return [path for path in paths if path.is_file()]


def test_no_registry_host_and_no_path_of_this_machine_is_written_down():
    # Put together here, so that this file does not find itself.
    unwanted = ["py" + "pi.org", "index" + "-url", "https://" + "pypi", "pythonhosted" + ".org"]
    unwanted += ["registry." + "npmjs", "/" + "root/"]
    if len(ROOT.parts) > 2:
        unwanted.append(f"{ROOT}/")
    findings = []
    for path in committed_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        findings += [f"{short(path)}: {word}" for word in unwanted if word in text]

    assert findings == []


def test_every_name_of_langchain_is_here_or_its_absence_has_a_reason():
    missing, gaps = langchain_names.find_missing(), langchain_names.read_gaps()

    assert langchain_names.unexplained(missing, gaps) == [], (
        "add it, or a line to langchain_gaps.txt"
    )
    assert langchain_names.stale(missing, gaps) == [], "landed: run python -m tests.langchain_names"


@pytest.mark.parametrize("page", PAGES)
def test_the_layers_on_a_page_are_those_of_the_contract(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == with_layers(text), "run python -m tests.layers_page"


def test_the_states_of_a_call_on_the_page_are_those_of_the_table():
    text = (ROOT / STATES_PAGE).read_text(encoding="utf-8")
    assert text == with_states(text), "run python -m tests.layers_page"


def test_the_drawing_of_the_layers_in_the_readme_is_in_the_order_of_the_contract():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    drawing = text.partition("## How it is built\n\n```\n")[2].partition("```")[0]
    heights = {module: height for height, layer in enumerate(layers()) for module in layer}
    rows = [line.split("   ")[0].split() for line in drawing.splitlines()]

    places = [heights[module] for row in rows for module in row]
    assert len(places) > 15
    assert places == sorted(places)
