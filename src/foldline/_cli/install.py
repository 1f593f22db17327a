"""Installs an extra that a command needs, after the user at the terminal has agreed."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys

from foldline._cli.terminal import is_terminal, note
from foldline.exceptions import MissingExtraError
from foldline.providers.local._download import _find_uv

__all__ = ["install_extra"]


def install_extra(extra: str, missing: MissingExtraError) -> None:
    """Ask the user and install; raise `missing` without a terminal, without consent, or on failure."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise missing
    packages = requirements_of(extra)
    note(f"{missing}\nInstall {', '.join(packages)} into {sys.prefix} now? [Y/n] ", end="")
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        raise missing
    if subprocess.run([*_installer(missing), *packages], check=False).returncode != 0:
        raise missing
    importlib.invalidate_caches()


def requirements_of(extra: str) -> list[str]:
    """Return the packages of an extra."""
    marker = f'extra == "{extra}"'
    requirements = (
        requirement.replace("'", '"')
        for requirement in importlib.metadata.requires("foldline") or ()
    )
    return [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if marker in requirement.partition(";")[2]
    ]


def _installer(missing: MissingExtraError) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    if uv := _find_uv():
        return [uv, "pip", "install", "--python", sys.executable]
    raise missing
