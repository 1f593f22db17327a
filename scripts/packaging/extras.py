"""Check that every extra can be installed on every supported Python, and that what needs it can be imported.

    python -m scripts.packaging.extras                    resolve each extra for each Python
    python -m scripts.packaging.extras --import           also install each into a fresh environment and import
    python -m scripts.packaging.extras --import pdf cli   only these

Resolving asks the package index for wheels and installs nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

__all__ = ["IMPORTS", "read_extras"]

ROOT = Path(__file__).parent.parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
NEXT_PYTHON = "3.14"
"""Resolved too, and reported; not supported before the tests have passed on it."""
DEVELOPMENT = ("test", "peers", "all")
"""Extras of this repository: resolved, but not imported one by one."""
IMPORTS = {
    "local": "foldline.providers.local.runtime:load_library()",
    "cli": "foldline._cli.app",
    "postgres": "foldline.checkpoint.postgres psycopg",
    "redis": "foldline.caches.redis redis",
    "serve": "foldline.serve.app uvicorn httptools",
    "studio": "foldline.studio.app uvicorn",
    "mcp": "foldline.tools.mcp mcp uvicorn",
    "otel": "foldline.tracers.otel opentelemetry.sdk.trace",
    "httpx": "foldline.transports.httpx httpx2",
    "jinja": "foldline.prompts jinja2.sandbox",
    "vectors": "foldline.vectorstores.in_memory numpy",
    "aws": "foldline.providers.bedrock botocore.session",
    "google": "foldline.providers.vertex google.auth",
    "langsmith": "foldline.tracers.langchain langsmith",
    "migrate": "foldline.compat._rewrite",
    "parquet": "foldline.batches pyarrow.parquet",
    "ray": "foldline.batches ray",
    "dbos": "foldline.workflows dbos",
    "temporal": "foldline.workflows.temporal",
    "pdf": "foldline.document_loaders.pdf pypdf",
    "sql": "foldline.utils.sql_database sqlalchemy",
}
"""Extra -> the modules that need it; `module:call()` also calls."""


def read_extras() -> list[str]:
    """Return the extras that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def _uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / "uv"
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, env=_environment()
    )


def _environment() -> dict[str, str]:
    """Return the environment with pip's settings under uv's names."""
    more = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
    return {
        **os.environ,
        **{new: os.environ[old] for new, old in more.items() if old in os.environ},
    }


def resolve(extra: str, python: str) -> str:
    """Return what is wrong where an extra cannot be resolved to wheels; "" where it can.

    Extras of this repository may be built from source.
    """
    wheels = () if extra in DEVELOPMENT else ("--only-binary", ":all:")
    outcome = _uv(
        "pip", "compile", "--quiet", *wheels, "--python-version", python,
        "--extra", extra, "--output-file", os.devnull, str(ROOT / "pyproject.toml"),
    )  # fmt: skip
    return "" if outcome.returncode == 0 else outcome.stderr.strip()


def import_in_fresh_environment(extra: str) -> str:
    """Return what is wrong where an extra is installed alone and its modules cannot be imported."""
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (
            ("venv", "--quiet", "--python", sys.executable, folder),
            ("pip", "install", "--quiet", "--python", folder, f"{ROOT}[{extra}]"),
        ):
            outcome = _uv(*arguments)
            if outcome.returncode:
                return outcome.stderr.strip()
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        ran = subprocess.run(
            [str(python), "-W", "ignore", "-c", _program(IMPORTS[extra])],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
    return ran.stderr.strip().splitlines()[-1] if ran.returncode else ""


def _program(places: str) -> str:
    lines = []
    for place in places.split():
        module, _, call = place.partition(":")
        lines.append(f"import {module}")
        if call:
            lines.append(f"{module}.{call}")
    return "\n".join(lines)


def main() -> int:
    """Check, tell, and return an exit code."""
    parser = argparse.ArgumentParser(description="Check the extras of foldline.")
    parser.add_argument("extras", nargs="*", help="only these")
    parser.add_argument(
        "--import", dest="is_importing", action="store_true", help="install and import too"
    )
    options = parser.parse_args()
    failed = 0
    for extra in options.extras or read_extras():
        failed_before = failed
        for python in (*PYTHONS, NEXT_PYTHON):
            if complaint := resolve(extra, python):
                is_failure = python != NEXT_PYTHON
                failed += is_failure
                what = "cannot be resolved" if is_failure else "not yet"
                sys.stdout.write(f"{extra}, Python {python}: {what}: {complaint}\n")
        if options.is_importing and extra not in DEVELOPMENT:
            complaint = import_in_fresh_environment(extra)
            failed += bool(complaint)
            sys.stdout.write(f"{extra}: {complaint or 'resolves, installs and imports'}\n")
        elif failed == failed_before:
            sys.stdout.write(f"{extra}: resolves on Python {', '.join(PYTHONS)}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
