"""No assumption about Linux outside guarded places: the source is read for what Windows or macOS does not have.

A use is guarded where an `if` or a `try` around it asks for the platform, for the name (`hasattr`, `getattr`), or for
the import; what is left must stand in `ALLOWED`, with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import foldline

HOME = Path(foldline.__file__).parent
MODULES = {
    "fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "readline", "curses", "syslog", "posix", "crypt",
    "spwd", "msvcrt", "winreg", "_winapi",
}  # fmt: skip
"""Modules that one platform lacks."""
NAMES = {
    "os": {
        "fork", "forkpty", "getuid", "geteuid", "getgid", "setuid", "setsid", "killpg", "getpgid", "fchmod", "fchown",
        "chown", "mkfifo", "uname", "statvfs", "sched_getaffinity", "register_at_fork", "O_NOFOLLOW", "O_DIRECTORY",
        "O_CLOEXEC", "O_NONBLOCK", "getloadavg", "nice", "posix_fadvise", "fdatasync", "pipe2", "memfd_create",
        "startfile", "wait3",
    },
    "signal": {
        "SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE", "SIGQUIT", "SIGWINCH", "setitimer",
        "ITIMER_REAL", "alarm", "pause", "pthread_sigmask", "pthread_kill", "sigwait", "SIGTSTP",
    },
    "socket": {"AF_UNIX", "SO_REUSEPORT", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT", "socketpair"},
    "time": {"tzset", "clock_gettime"},
    "select": {"select", "poll", "epoll", "kqueue"},
}  # fmt: skip
"""Module -> names in it that one platform lacks, or that work on sockets alone there (`select.select`)."""
KEYWORDS = {"preexec_fn", "start_new_session", "dir_fd", "pass_fds", "creationflags"}
METHODS = {"add_signal_handler", "add_reader", "add_writer"}
FOLDERS = ("/tmp", "/proc", "/dev/", "/etc/", "/var/", "/usr/", "/home/", "/root", "C:\\")
TEXT_CALLS = {"read_text", "write_text"}

ALLOWED = {
    "_storage/workers.py:_boot": "on Linux only; elsewhere a worker is known by its beat",
    "_storage/workers.py:_start_of": "on Linux only; elsewhere a worker is known by its beat",
    "agents/middleware/execution.py:_bound": "after every platform but `linux` has left",
    "agents/middleware/execution.py:_start": "after `win32` has left with an error",
    "agents/middleware/_shell_session.py:_signal": "of a shell, which `_start` refuses on `win32`",
    "agents/middleware/_shell_session.py:_stop": "of a shell, which `_start` refuses on `win32`",
    "serve/_metrics.py:_process_facts": "what only Linux has; left out elsewhere",
    "serve/_systemd.py:notify_ready": "after `hasattr(socket, 'AF_UNIX')`",
    "transports/_wires.py": "select() on a socket, which works everywhere, where there is no poll()",
    "transports/_tls.py": "looks whether the usual files of certificates are there; takes Python's own where none is",
    "_cli/chat.py:_await_input": "select() on a pipe, after `win32` has left",
    "_cli/chat.py:/dev/null": "advice in a message",
    "_cli/interactive.py:_read_line": "after `hasattr(signal, 'setitimer')`, without which it reads plainly",
    "language_models/_call/policies/safe_files.py": "dir_fd where os.supports_dir_fd has it, else checked path by path",
}
"""Place (file, file:function or file:text) -> why it is right there."""


def sources() -> list[Path]:
    return sorted(HOME.rglob("*.py"))


def is_guard(node: ast.AST) -> bool:
    """Whether an `if` or a `try` tests the platform, a name or an import."""
    if isinstance(node, ast.Try):
        exceptions = " ".join(
            ast.unparse(handler.type) for handler in node.handlers if handler.type
        )
        return any(
            name in exceptions for name in ("ImportError", "AttributeError", "NotImplementedError")
        )
    if isinstance(node, ast.With):
        return any(
            re.search(r"suppress\((ImportError|AttributeError)", ast.unparse(item))
            for item in node.items
        )
    if isinstance(node, ast.If | ast.IfExp):
        condition = ast.unparse(node.test)
        conditions = (
            "sys.platform",
            "os.name",
            "hasattr",
            "getattr",
            "supports_dir_fd",
            "IS_WINDOWS",
        )
        return any(word in condition for word in conditions)
    return False


def unguarded(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield (function, node) of everything that no guard is around."""
    for node in ast.iter_child_nodes(tree):
        if is_guard(node):
            continue
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = node.name if is_function else function  # type: ignore[attr-defined]
        yield name, node
        yield from unguarded(node, name)


@cache
def files_with_findings() -> dict[str, list[tuple[str, str]]]:
    """Return, for each file of the package, (function, what) of every assumption in it."""
    return {
        path.relative_to(HOME).as_posix(): list(findings(path.read_text(encoding="utf-8")))
        for path in sources()
    }


def findings(source: str) -> Iterator[tuple[str, str]]:
    """Yield (function, what) of every assumption in a file."""
    tree = ast.parse(source)
    docs = {
        id(body[0].value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        and body
        and isinstance(body[0], ast.Expr)
    }
    for function, node in unguarded(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [name.name for name in node.names]
                if isinstance(node, ast.Import)
                else [node.module]
            )
            yield from (
                (function, str(module))
                for module in modules
                if str(module).split(".")[0] in MODULES
            )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, ()):
                yield function, f"{node.value.id}.{node.attr}"
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            yield from (
                (function, folder)
                for folder in FOLDERS
                if node.value.startswith(folder) or f" {folder}" in node.value
            )
        elif isinstance(node, ast.Call):
            yield from (
                (function, str(keyword.arg)) for keyword in node.keywords if keyword.arg in KEYWORDS
            )
            if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                yield function, node.func.attr


def is_allowed(file: str, function: str, finding: str) -> bool:
    places = {file, f"{file}:{function}"} | {
        place for place in ALLOWED if place == f"{file}:{finding}null"
    }
    return any(place in ALLOWED for place in places)


def test_nothing_is_assumed_that_a_platform_lacks():
    strays = set()
    for file, assumptions in files_with_findings().items():
        for function, finding in assumptions:
            if not is_allowed(file, function, finding):
                strays.add(f"{file}:{function}: {finding}")

    assert strays == set(), (
        "guard it (sys.platform, hasattr, ImportError), or write down why it is right"
    )


def test_every_allowance_is_used():
    allowances = set()
    for file, assumptions in files_with_findings().items():
        for function, finding in assumptions:
            allowances |= {file, f"{file}:{function}", f"{file}:{finding}null"}

    assert set(ALLOWED) - allowances == set()


def test_text_is_read_and_written_in_an_encoding_that_is_said():
    strays = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            has_encoding = any(keyword.arg in ("encoding", None) for keyword in node.keywords)
            has_encoding = has_encoding or (name == "read_text" and bool(node.args))
            is_text = name in TEXT_CALLS or (
                name in ("open", "open_private") and "b" not in opened_as(node)
            )
            is_path = isinstance(node.func, ast.Attribute) == (name in TEXT_CALLS)
            if is_text and is_path and not has_encoding:
                strays.append(f"{path.relative_to(HOME).as_posix()}:{node.lineno}")

    assert [stray for stray in strays if not stray.startswith("utils/_private_files.py")] == []


def opened_as(call: ast.Call) -> str:
    """Return the mode of a call of `open`; an unknown one counts as bytes."""
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] + call.args[1:2]
    if not modes:
        return "r" if call.args else "b"
    return (
        modes[0].value
        if isinstance(modes[0], ast.Constant) and isinstance(modes[0].value, str)
        else "b"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import fcntl",
        "import os\nos.fork()",
        "import signal\ndef f():\n    signal.signal(signal.SIGALRM, f)",
        "subprocess.run([], preexec_fn=f)",
        "path = '/tmp/x'",
        "loop.add_signal_handler(2, f)",
        "if True:\n    import readline",
    ],
)
def test_the_scan_finds(source):
    assert list(findings(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nif sys.platform == 'win32':\n    import msvcrt\nelse:\n    import fcntl",
        "try:\n    import readline\nexcept ImportError:\n    readline = None",
        "if hasattr(os, 'register_at_fork'):\n    os.register_at_fork(after_in_child=f)",
        "'''Keeps its files below /tmp.'''",
        "with suppress(ImportError, OSError):\n    import readline",
    ],
)
def test_the_scan_leaves_what_is_guarded(source):
    assert list(findings(source)) == []
