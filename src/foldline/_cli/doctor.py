"""`foldline doctor`: checks the installation, and says what to do about each problem.

It connects only to servers on this machine and to addresses that the user has configured.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, urlsplit

from foldline import __version__
from foldline._cli import places
from foldline._cli.models import host_of, key_variables, main_names, url_variables
from foldline._cli.start import Code
from foldline._cli.terminal import echo
from foldline.exceptions import FoldlineError
from foldline.providers import find_provider
from foldline.providers.local.fetch import MODELS, cache_dir, is_fetched
from foldline.transports._proxy_environment import (
    CERTIFICATE_VARIABLES,
    environment_proxy,
    read_variable,
)

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel

__all__ = ["doctor"]

EXTRAS = {
    "local": "xllamacpp",
    "cli": "typer",
    "postgres": "psycopg",
    "redis": "redis",
    "serve": "httptools",
    "studio": "starlette",
    "mcp": "mcp",
    "otel": "opentelemetry.sdk",
    "httpx": "httpx2",
    "jinja": "jinja2",
    "vectors": "numpy",
    "pdf": "pypdf",
    "sql": "sqlalchemy",
    "aws": "botocore",
    "google": "google.auth",
    "langsmith": "langsmith",
    "migrate": "libcst",
    "parquet": "pyarrow",
    "ray": "ray",
    "dbos": "dbos",
    "temporal": "temporalio",
}
"""Extra -> a module that is there where it is installed."""
PATIENCE = 1.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
STYLES = {"ok": "green", "info": "dim", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    level: Literal["ok", "info", "warning", "problem"]
    what: str
    todo: str = ""


def doctor(*, as_json: bool) -> int:
    """Run all checks, print the findings, and fail where there is a problem."""
    findings = []
    for finding in _findings():
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        echo(json.dumps([asdict(result) for result in findings], ensure_ascii=False))
    return Code.FAILED if any(result.level == "problem" for result in findings) else Code.FINE


def _print(finding: CheckResult) -> None:
    echo(f"{finding.level:<8} ", end="", style=STYLES[finding.level])
    echo(finding.what + (f"\n         -> {finding.todo}" if finding.todo else ""))


def _findings() -> Iterator[CheckResult]:
    yield _python()
    yield CheckResult("ok", f"foldline {__version__}")
    yield from _extras()
    yield from _folders()
    yield from _environment()
    yield from _local_models()
    yield from _providers()


def _python() -> CheckResult:
    version = ".".join(map(str, sys.version_info[:3]))
    return CheckResult("ok", f"Python {version} at {sys.executable}")


def _extras() -> Iterator[CheckResult]:
    for extra, module in EXTRAS.items():
        if _has(module):
            yield CheckResult("ok", f"extra {extra}: {module} {_version(module)}".rstrip())
        else:
            level: Literal["warning", "info"] = "warning" if extra == "local" else "info"
            yield CheckResult(
                level,
                f"extra {extra}: not installed",
                f'if you want it: pip install "foldline[{extra}]"',
            )


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _version(module: str) -> str:
    try:
        return importlib.metadata.version(module.replace(".", "-"))
    except importlib.metadata.PackageNotFoundError:
        return ""


def _folders() -> Iterator[CheckResult]:
    for use, folder, variable in (
        ("cache", cache_dir(), "FOLDLINE_CACHE_DIR"),
        ("data", places.data_dir(), "FOLDLINE_DATA_DIR"),
    ):
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            yield CheckResult(
                "problem",
                f"{use} folder {folder}: cannot be written",
                f"set {variable} to a folder you may write to",
            )
            continue
        free = shutil.disk_usage(existing).free
        needed = sum(model.size + model.wheel.size for model in MODELS.values())
        if use == "cache" and free < needed and not is_fetched():
            todo = f"free {(needed - free) / 1e6:.0f} MB, or set {variable} to a folder on another disk"
            yield CheckResult("warning", f"{use} folder {folder}: {free / 1e6:.0f} MB free", todo)
        else:
            yield CheckResult("ok", f"{use} folder {folder}: {free / 1e9:.1f} GB free")


def _environment() -> Iterator[CheckResult]:
    """Check the variables for proxies and certificates."""
    for scheme in ("http", "https"):
        name, value = read_variable(f"{scheme}_proxy")
        if not value:
            name, value = read_variable("all_proxy")
        if value:
            yield _proxy(scheme, name)
    name, value = read_variable("no_proxy")
    if value:
        yield CheckResult("ok", f"no proxy for: {value} ({name})")
    for name in CERTIFICATE_VARIABLES:
        if path := os.environ.get(name):
            yield _certificates(name, path)


def _proxy(scheme: str, name: str) -> CheckResult:
    try:
        proxy = environment_proxy(f"{scheme}://", exemptions="")
    except FoldlineError as error:
        return CheckResult("problem", f"proxy for {scheme}: {error}", f"correct or unset {name}")
    parts = urlsplit(proxy or "")
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without the password
    if parts.scheme != "http" and not _has("httpx2"):
        return CheckResult(
            "problem",
            f"proxy for {scheme}: {address} ({name}) needs httpx2",
            'pip install "foldline[httpx]"',
        )
    return CheckResult("ok", f"proxy for {scheme}: {address} ({name})")


def _certificates(name: str, path: str) -> CheckResult:
    is_file = name == "SSL_CERT_FILE"
    if os.path.isfile(path) if is_file else any(map(os.path.isdir, path.split(os.pathsep))):
        return CheckResult("ok", f"certificates: {path} ({name})")
    return CheckResult(
        "problem", f"certificates: {path} ({name}) is not there", f"correct or unset {name}"
    )


def _local_models() -> Iterator[CheckResult]:
    for name, model in MODELS.items():
        if is_fetched(name):
            yield CheckResult("ok", f"model {name}: {model.path}")
        elif model.path.exists():
            yield CheckResult(
                "warning",
                f"model {name}: {model.path} is damaged",
                "it is fetched again at its next use",
            )
        else:
            yield CheckResult("info", f"model {name}: not here yet", "fetched at its first use")


def _providers() -> Iterator[CheckResult]:
    for name in main_names():
        try:
            kind = find_provider(name)
        except FoldlineError as error:
            yield CheckResult("info", f"provider {name}: {error}")
            continue
        keys = key_variables(kind)
        set_keys = [key for key in keys if os.environ.get(key)]
        if set_keys:
            yield CheckResult("ok", f"provider {name}: {set_keys[0]} is set")
        yield from _endpoint(name, kind)


def _endpoint(name: str, kind: type[BaseChatModel]) -> Iterator[CheckResult]:
    host = host_of(kind)
    addresses = [(key, os.environ[key]) for key in url_variables(kind) if os.environ.get(key)]
    url = addresses[0][1] if addresses else str(getattr(host, "base_url", "") or "")
    parts = urlsplit(url)
    if not addresses and parts.hostname not in LOOPBACK:
        return
    address = f"{parts.hostname}:{_port(parts)}"
    if _answers(parts):
        yield CheckResult("ok", f"provider {name}: {address} answers")
    elif addresses:
        yield CheckResult(
            "problem",
            f"provider {name}: no server answers at {address} ({addresses[0][0]})",
            f"start the server, or correct or unset {addresses[0][0]}",
        )
    else:
        yield CheckResult(
            "info", f"provider {name}: no server at {address}", "start one if you want it"
        )


def _port(parts: SplitResult) -> int:
    try:
        return int(parts.port or (443 if parts.scheme == "https" else 80))
    except ValueError:
        return 0


def _answers(parts: SplitResult) -> bool:
    try:
        with socket.create_connection((parts.hostname, _port(parts)), timeout=PATIENCE):
            return True
    except (OSError, OverflowError, TypeError):
        return False
