"""Reading foldline's own source for what must not be there, or only in named places. The tables are in
`test_source.py`.

Each rule is a function from a parsed file to findings; a finding is `path::function`, so that an allowance covers
one function and not a whole file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "foldline"

EVALUATING = {"eval", "exec", "compile", "__import__", "breakpoint"}
UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "ruamel",
    "jinja2",
    "mako",
    "xml",
    "lxml",
    "defusedxml",
    "plistlib",
    "runpy",
    "code",
    "codeop",
    "pty",
    "telnetlib",
    "ctypes",
    "cffi",
    "multiprocessing",
    "webbrowser",
}
STARTING = {"system", "popen", "startfile", "posix_spawn", "posix_spawnp", "fork", "forkpty"}
NETWORK = {
    "socket",
    "ssl",
    "http",
    "urllib3",
    "requests",
    "httpx",
    "httpx2",
    "httpcore2",
    "pyreqwest",
}
NETWORK |= {"aiohttp", "websockets", "ftplib", "smtplib", "xmlrpc", "socketserver", "uvicorn"}
OPENING = {
    "open",
    "open_private",
    "fdopen",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkstemp",
}
OPENING |= {"NamedTemporaryFile", "TemporaryFile", "mktemp"}
SQL = {"execute", "executemany", "executescript", "rows", "_runs"}
SEAM = {"row", "run", "each", "pages"}
"""The other methods of the storage seam that take a statement; their names have other meanings elsewhere."""
SEAM_NAMES = {"connection", "database", "statements"}
"""What the seam's connections and databases are called everywhere."""
SEAM_TYPES = {"Connection", "Database", "SqliteConnection", "PostgresStatements"}


TELLING = (ast.Name, ast.Attribute, ast.Call, ast.Import, ast.ImportFrom, ast.keyword, ast.arg)
"""The kinds of nodes that a rule looks at."""

Nodes = list[tuple[ast.AST, str]]


@cache
def sources() -> dict[str, Nodes]:
    """Path inside the package -> the findings in it, with their functions."""
    return {
        path.relative_to(PACKAGE).as_posix(): read(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def read(text: str) -> Nodes:
    return [
        (node, place) for node, place in with_places(ast.parse(text)) if isinstance(node, TELLING)
    ]


def with_places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every node, with the names of the classes and functions around it."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, place = waiting.pop()
        yield node, place
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}" if place else node.name
        waiting += [(child, place) for child in ast.iter_child_nodes(node)]


def dotted(node: ast.AST) -> str:
    """`os.environ` of `os.environ`; empty for anything but a plain name of a module."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def imported_tops(node: ast.AST) -> set[str]:
    """The packages that an import statement or a literal `import_module` names, without their submodules."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".")[0]}
    if isinstance(node, ast.Call) and function_name(node) == "import_module" and node.args:
        return {first_words(node.args[0]).split(".")[0]}
    return set()


def first_words(node: ast.AST) -> str:
    """The literal beginning of a string expression."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr) and node.values:
        return first_words(node.values[0])
    return ""


def function_name(node: ast.Call) -> str:
    """Return the last name of a call: `open` in `path.open()`."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def is_fixed(node: ast.AST) -> bool:
    """Whether a text is written in the source: a literal, a constant of a module, or only such joined."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | int)
    if isinstance(node, ast.Name):
        return node.id.isupper()
    if isinstance(node, ast.Subscript):
        return is_fixed(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return is_fixed(node.left) and is_fixed(node.right)
    if isinstance(node, ast.JoinedStr):
        return all(is_fixed(part) for part in node.values)
    return isinstance(node, ast.FormattedValue) and is_fixed(node.value)


def evaluates(node: ast.AST) -> bool:
    """eval and its kin, called or only mentioned; a method of that name (`re.compile`) is something else."""
    if isinstance(node, ast.Name):
        return node.id in EVALUATING
    return (
        isinstance(node, ast.Attribute)
        and node.attr in EVALUATING
        and isinstance(node.value, ast.Name)
        and node.value.id in ("builtins", "__builtins__")
    )


def uses_unsafe_module(node: ast.AST) -> bool:
    return bool(imported_tops(node) & UNSAFE_MODULES)


def starts_a_program(node: ast.AST) -> bool:
    if "subprocess" in imported_tops(node):
        return True
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    starting = node.attr in STARTING or node.attr.startswith(("exec", "spawn"))
    return (node.value.id == "os" and starting) or node.attr.startswith("create_subprocess")


def uses_a_shell(node: ast.AST) -> bool:
    """`shell=` anything but a literal False, and asyncio's shell."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("create_subprocess_shell", "getoutput", "getstatusoutput")
    return (
        isinstance(node, ast.keyword) and node.arg == "shell" and ast.unparse(node.value) != "False"
    )


def imports_by_name(node: ast.AST) -> bool:
    """A module whose name is not written where it is imported."""
    return (
        isinstance(node, ast.Call)
        and function_name(node)
        in ("import_module", "spec_from_file_location", "find_spec", "find_loader")
        and not (node.args and isinstance(node.args[0], ast.Constant))
    )


def loads_arrays_with_pickle(node: ast.AST) -> bool:
    """`numpy.load` (and torch's) without a literal `allow_pickle=False`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if not (node.func.attr == "load" and ast.unparse(node.func.value) in ("np", "numpy", "torch")):
        return False
    return all(
        (word.arg, ast.unparse(word.value)) != ("allow_pickle", "False") for word in node.keywords
    )


def reaches_the_network(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return function_name(node) in (
            "create_connection",
            "open_connection",
            "urlopen",
            "getaddrinfo",
        )
    modules = imported_tops(node) & NETWORK
    return bool(modules) or (
        isinstance(node, ast.Import | ast.ImportFrom) and "urllib.request" in ast.unparse(node)
    )


def sends_a_request(node: ast.AST) -> bool:
    """`transport.open(request, blocking=…)`: the one way a request leaves."""
    return (
        isinstance(node, ast.Call)
        and function_name(node) == "open"
        and any(word.arg == "blocking" for word in node.keywords)
    )


def opens_a_file(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and function_name(node) in OPENING and not sends_a_request(node)
    )


def formats(node: ast.AST) -> bool:
    """`.format` on anything but a text written in the source, and every other formatter of Python's."""
    if dotted(node) in (
        "string.Formatter",
        "string.Template",
    ):
        return True
    if isinstance(node, ast.ImportFrom) and node.module == "string":
        return True
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr in ("format_map", "vformat", "safe_substitute"):
        return True
    return node.func.attr == "format" and not is_fixed(node.func.value)


def runs_built_sql(node: ast.AST) -> bool:
    """A statement that is not written in the source as a whole (methods of the storage seam pass theirs on)."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    is_sink = node.func.attr in SQL or (
        node.func.attr in SEAM and last_name(node.func.value).lstrip("_") in SEAM_NAMES
    )
    return is_sink and not is_fixed(node.args[0])


def last_name(node: ast.AST) -> str:
    """Return `_database` of `self._database`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def calls_the_seam_otherwise(node: ast.AST) -> bool:
    """A parameter with a connection or database of the seam that `runs_built_sql` would not know by its name."""
    return (
        isinstance(node, ast.arg)
        and node.annotation is not None
        and ast.unparse(node.annotation) in SEAM_TYPES
        and node.arg.lstrip("_") not in {*SEAM_NAMES, ""}
    )


def revives(node: ast.AST) -> bool:
    """Imports `resolve`, which turns a registered name into a class."""
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "foldline.load.registry"
        and bool({alias.name for alias in node.names} & {"resolve", "REGISTRY"})
    ) or (isinstance(node, ast.Attribute) and node.attr in ("__subclasses__", "mro_entries"))


def reads_the_environment(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (
        dotted(node) in ("os.environ", "os.getenv", "os.environb")
        or node.attr in ("getproxies", "getproxies_environment", "getproxies_registry")
    )


def found_by(rule: Callable[[ast.AST], bool], files: dict[str, Nodes]) -> set[str]:
    """Where a rule finds something: `path::place`."""
    return {
        f"{path}::{place}" if place else path
        for path, nodes in files.items()
        for node, place in nodes
        if rule(node)
    }
