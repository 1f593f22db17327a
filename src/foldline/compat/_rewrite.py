"""Rewrites LangChain's imports in the source of a program, and reports what it could not rewrite.

It works on the syntax tree (libcst, the extra `migrate`), so formatting and comments stay. Local names stay too: a name
that differs here is imported under its old name. A name without a counterpart keeps its import and becomes a `Finding`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foldline.compat.names import (
    Home,
    advice_for,
    find_home,
    find_module,
    is_langchain,
    keywords_of,
)
from foldline.exceptions import MissingExtraError, UsageError

try:
    import libcst as cst
    from libcst import metadata
except ImportError as error:
    raise MissingExtraError('migrating needs libcst: pip install "foldline[migrate]"') from error

__all__ = ["Finding", "Rewritten", "UnparsableError", "rewrite"]

IMPORTERS = {"import_module", "__import__", "patch", "find_spec"}
"""Calls whose first argument is a dotted path, where it is a string."""
GLOBALS = {"langchain.debug", "langchain.llm_cache", "langchain.verbose"}
"""Settings that were attributes of the package, and are functions of `foldline.globals`."""
MAX_DEPTH = 1000
"""Levels of a syntax tree that libcst's recursive parser takes; far more end the process with a stack overflow."""


class UnparsableError(UsageError):
    """A source that is not Python; `line` says where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Finding:
    """A place in the source that a person has to check."""

    line: int
    message: str
    is_gap: bool = True
    """Whether a name has no counterpart in foldline; else it needs a check."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The rewritten source, and the findings."""

    source: str
    findings: tuple[Finding, ...]


def rewrite(source: str) -> Rewritten:
    """Return the source with LangChain's names replaced by ours, and the findings."""
    _check_depth(source)
    renamer = _Renamer()
    try:
        module = cst.parse_module(source)
        wrapper = metadata.MetadataWrapper(module, unsafe_skip_copy=True)
        changed = wrapper.visit(renamer)
    except cst.ParserSyntaxError as error:
        raise UnparsableError(f"does not parse: {error.message}", error.raw_line) from error
    except RecursionError as error:
        raise _too_deep(1) from error
    findings = sorted(set(renamer.findings), key=lambda finding: (finding.line, finding.message))
    return Rewritten(changed.code, tuple(findings))


def _check_depth(source: str) -> None:
    """Raise `UnparsableError` if libcst might overflow the stack: Python's own parser has bounds, libcst's has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's, such as an escape that is not valid
            level: list[ast.AST] = [ast.parse(source)]
    except SyntaxError as error:
        line = error.lineno or 1
        if "nested" in error.msg:
            raise _too_deep(line) from error
        raise UnparsableError(f"does not parse: {error.msg}", line) from error
    except ValueError as error:  # a null byte
        raise UnparsableError(f"does not parse: {error}", 1) from error
    except (RecursionError, MemoryError) as error:
        raise _too_deep(1) from error
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise _too_deep(getattr(level[0], "lineno", 1))


def _too_deep(line: int) -> UnparsableError:
    return UnparsableError("does not parse: it is nested too deeply; split the expression", line)


def _dotted(node: cst.CSTNode | None) -> str | None:
    """Return the dotted path of a chain of names; None for other nodes."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        inner = _dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr.value}"
    return None


def _node(path: str) -> cst.Name | cst.Attribute:
    first, *others = path.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for part in others:
        node = cst.Attribute(value=node, attr=cst.Name(part))
    return node


def _local_name(alias: cst.ImportAlias) -> str:
    if alias.asname is not None:
        return str(_dotted(alias.asname.name))
    return str(_dotted(alias.name))


def _comments(node: cst.CSTNode) -> list[str]:
    """Return the comments inside a node, in order; they would be lost when a statement is split."""
    if isinstance(node, cst.Comment):
        return [node.value]
    return [comment for child in node.children for comment in _comments(child)]


class _Renamer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (metadata.PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self._modules: dict[str, str] = {}
        """Local name of an imported module (`import langchain_core.messages as m`: `m`) -> the module."""
        self._sources: dict[str, str] = {}
        """Local name of an imported class or function -> its path in LangChain."""
        self._roots: set[str] = set()
        """Packages that are imported as packages (`import langchain_core.messages`), whose chains are renamed."""
        self._needed: dict[str, None] = {}
        """Modules of ours that renamed chains need."""
        self._assigned: set[cst.Attribute] = set()
        """The settings of `GLOBALS` that are assigned to."""

    def _line(self, node: cst.CSTNode) -> int:
        return int(self.get_metadata(metadata.PositionProvider, node).start.line)

    def _note(self, node: cst.CSTNode, message: str, *, is_gap: bool = True) -> None:
        self.findings.append(Finding(self._line(node), message, is_gap))

    # -- what is imported, noted on the way down

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            path = _dotted(alias.name)
            if path is None or not is_langchain(path):
                continue
            if alias.asname is not None:
                self._modules[_local_name(alias)] = path
            else:
                self._roots.add(path.partition(".")[0])
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        path = _dotted(node.module) if node.module is not None and not node.relative else None
        if path is None or not is_langchain(path) or isinstance(node.names, cst.ImportStar):
            return False
        for alias in node.names:
            name = str(_dotted(alias.name))
            if find_module(f"{path}.{name}") is not None and find_home(path, name) is None:
                self._modules[_local_name(alias)] = f"{path}.{name}"
            else:
                self._sources[_local_name(alias)] = f"{path}.{name}"
        return False

    # -- statements

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Replace a line of imports by one line for each module of ours."""
        if not any(isinstance(part, cst.Import | cst.ImportFrom) for part in original_node.body):
            return updated_node
        parts: list[Any] = []
        for part in original_node.body:
            parts += self._import(part) if isinstance(part, cst.Import) else self._from(part)
        if parts == list(original_node.body):
            return updated_node
        if len(original_node.body) > 1 or len(parts) == 1:
            return updated_node.with_changes(body=_joined(parts))
        comments = [
            cst.EmptyLine(comment=cst.Comment(text)) for text in _comments(original_node.body[0])
        ]
        lines = [cst.SimpleStatementLine([part]) for part in parts]
        lines[0] = lines[0].with_changes(leading_lines=[*updated_node.leading_lines, *comments])
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def _import(self, node: cst.Import) -> list[Any]:
        unchanged, renamed = [], []
        for alias in node.names:
            path = _dotted(alias.name)
            if path is None or not is_langchain(path):
                unchanged.append(alias)
                continue
            home = find_module(path)
            if home is None:
                self._note(node, f"{path} has no home: {advice_for(path)}")
                unchanged.append(alias)
            else:
                renamed.append(alias.with_changes(name=_node(home)))
        if not renamed:
            return [node]
        names = [*unchanged, *renamed]
        return [node.with_changes(names=[*_with_commas(names)])]

    def _from(self, node: cst.BaseSmallStatement) -> list[Any]:
        if not isinstance(node, cst.ImportFrom) or node.module is None or node.relative:
            return [node]
        path = _dotted(node.module)
        if path is None or not is_langchain(path):
            return [node]
        if isinstance(node.names, cst.ImportStar):
            return [self._star(node, path)]
        homes = [(alias, find_home(path, str(_dotted(alias.name)))) for alias in node.names]
        for alias, home in homes:
            if home is None:
                name = str(_dotted(alias.name))
                self._note(node, f"{path}.{name} has no home: {advice_for(path, name)}")
        modules = {home.module for _, home in homes if home is not None}
        is_plain = all(home and home.name == _dotted(alias.name) for alias, home in homes)
        if is_plain and len(modules) == 1:
            return [node.with_changes(module=_node(modules.pop()))]
        return _split_import(node, homes)

    def _star(self, node: cst.ImportFrom, path: str) -> cst.ImportFrom:
        home = find_module(path)
        if home is None:
            self._note(node, f"{path} has no home: {advice_for(path)}")
            return node
        self._note(node, f"from {path} import *: check the names that it brought", is_gap=False)
        return node.with_changes(module=_node(home))

    # -- uses

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Rename a chain that begins with an imported package."""
        path = _dotted(original_node) or ""
        first, _, _ = path.partition(".")
        if self._setting_of(original_node) is not None:
            return self._read_setting(original_node, updated_node)
        if first in self._modules:
            return self._member(original_node, updated_node, self._modules[first], path)
        return (
            self._chain(original_node, updated_node, path) if first in self._roots else updated_node
        )

    def _chain(self, node: cst.Attribute, updated: cst.Attribute, path: str) -> cst.BaseExpression:
        """Return a chain that begins with an imported package, by its path here."""
        if (target := find_module(path)) is not None:
            self._needed[target] = None
            return _node(target)
        module, _, name = path.rpartition(".")
        home = find_home(module, name)
        if home is None:
            if find_module(module) is not None:
                self._note(node, f"{path} has no home: {advice_for(module, name)}")
            return updated
        self._needed[home.module] = None
        return _node(home.path)

    def _member(
        self, node: cst.Attribute, updated: cst.Attribute, module: str, path: str
    ) -> cst.BaseExpression:
        """Return a member of an imported module: by its full path where it lives in another module here."""
        if path.count(".") != 1 or find_module(module) is None:
            return updated
        name = path.split(".")[1]
        home = find_home(module, name)
        if home is None:
            self._note(node, f"{module}.{name} has no home: {advice_for(module, name)}")
            return updated
        if home == Home(str(find_module(module)), name):
            return updated
        self._needed[home.module] = None
        return _node(home.path)

    def _setting_of(self, node: cst.BaseExpression) -> str | None:
        """Return the name of a setting of the package `langchain`, if the node is one."""
        first, _, name = (_dotted(node) or "").partition(".")
        package = self._modules.get(first) or (first if first in self._roots else "")
        return name if f"{package}.{name}" in GLOBALS else None

    def _read_setting(self, node: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        if node in self._assigned:
            return updated  # `leave_Assign` replaces the statement
        self._needed["foldline.globals"] = None
        return cst.Call(_node(f"foldline.globals.get_{self._setting_of(node)}"))

    def visit_Assign(self, node: cst.Assign) -> None:
        """Note the settings that are assigned to: these are not read."""
        targets = [each.target for each in node.targets]
        self._assigned.update(target for target in targets if isinstance(target, cst.Attribute))

    def leave_Assign(
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.BaseSmallStatement:
        """Replace `langchain.debug = True` by a call: an attribute of the package would set nothing here."""
        settings = [self._setting_of(each.target) for each in original_node.targets]
        if len(settings) != 1 or settings[0] is None:
            return updated_node
        self._needed["foldline.globals"] = None
        setter = _node(f"foldline.globals.set_{settings[0]}")
        return cst.Expr(cst.Call(setter, [cst.Arg(updated_node.value)]))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Rename keywords that differ, and module paths in strings that are imported or patched."""
        callee = _dotted(original_node.func) or ""
        if callee.rpartition(".")[2] in IMPORTERS and original_node.args:
            return self._path_argument(original_node, updated_node)
        renames = keywords_of(self._sources.get(callee, ""))
        if not renames:
            return updated_node
        args = [
            arg.with_changes(keyword=cst.Name(renames[arg.keyword.value]))
            if arg.keyword is not None and arg.keyword.value in renames
            else arg
            for arg in updated_node.args
        ]
        return updated_node.with_changes(args=args)

    def _path_argument(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        value = original.args[0].value
        if not isinstance(value, cst.SimpleString):
            if isinstance(value, cst.FormattedString) and "langchain" in cst.Module(
                []
            ).code_for_node(value):
                self._note(original, "a dynamic import: change it by hand", is_gap=False)
            return updated
        path = value.raw_value
        if not is_langchain(path):
            return updated
        target = _target_of(path)
        if target is None:
            module, _, name = path.rpartition(".")
            self._note(original, f"{path} has no home: {advice_for(module or path, name)}")
            return updated
        argument = updated.args[0].with_changes(
            value=value.with_changes(value=f"{value.prefix}{value.quote}{target}{value.quote}")
        )
        return updated.with_changes(args=[argument, *updated.args[1:]])

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Import the modules that renamed chains need, and the packages whose names stayed, beside the imports."""
        code = updated_node.code
        modules = [
            *(
                module
                for module in self._needed
                if not any(
                    f"import {other}" in code for other in self._needed if _covers(other, module)
                )
            ),
            *(
                root
                for root in sorted(self._roots & _names_in(updated_node))
                if f"import {root}" not in code
            ),
        ]
        lines = [cst.parse_statement(f"import {module}") for module in modules]
        if not lines:
            return updated_node
        body = list(updated_node.body)
        place = next((i for i, line in enumerate(body) if _is_import(line)), 0)
        while place < len(body) and _is_future(body[place]):
            place += 1
        return updated_node.with_changes(body=[*body[:place], *lines, *body[place:]])


def _names_in(module: cst.Module) -> set[str]:
    """Return the names that a program uses, without those of its imports, members and keywords."""
    names: set[str] = set()

    class Collector(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:
            names.add(node.value)

        def visit_Import(self, node: cst.Import) -> bool:
            return False

        def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
            return False

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

    module.visit(Collector())
    return names


def _covers(imported: str, module: str) -> bool:
    """Whether importing one module imports the other too: itself, or a package above it."""
    return imported == module or imported.startswith(f"{module}.")


def _target_of(path: str) -> str | None:
    """Return our path for a dotted path of LangChain: a module, a name, or a member of a name."""
    if (module := find_module(path)) is not None:
        return module
    parts = path.split(".")
    for place in range(len(parts) - 1, 0, -1):
        home = find_home(".".join(parts[:place]), parts[place])
        if home is not None:
            return ".".join([home.path, *parts[place + 1 :]])
    return None


def _split_import(
    node: cst.ImportFrom, homes: Sequence[tuple[cst.ImportAlias, Home | None]]
) -> list[cst.ImportFrom]:
    """Return one import for each module of ours, and the old one for names without a counterpart."""
    groups: dict[str, list[cst.ImportAlias]] = {}
    for alias, home in homes:
        old = str(_dotted(alias.name))
        if home is None:
            groups.setdefault(str(_dotted(node.module)), []).append(alias)
            continue
        asname = alias.asname
        if asname is None and home.name != old:
            asname = cst.AsName(name=cst.Name(old))
        groups.setdefault(home.module, []).append(
            cst.ImportAlias(name=cst.Name(home.name), asname=asname)
        )
    return [
        cst.ImportFrom(module=_node(module), names=_with_commas(aliases))
        for module, aliases in groups.items()
    ]


def _with_commas(aliases: Sequence[cst.ImportAlias]) -> list[cst.ImportAlias]:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return [*(alias.with_changes(comma=comma) for alias in aliases[:-1]), last]


def _joined(parts: Sequence[Any]) -> list[Any]:
    semicolon = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    last = parts[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return [*(part.with_changes(semicolon=semicolon) for part in parts[:-1]), last]


def _is_import(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(
        line.body[0], cst.Import | cst.ImportFrom
    )


def _is_future(line: cst.CSTNode) -> bool:
    return (
        isinstance(line, cst.SimpleStatementLine)
        and isinstance(line.body[0], cst.ImportFrom)
        and _dotted(line.body[0].module) == "__future__"
    )
