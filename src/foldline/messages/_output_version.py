"""The form of a model's content: "v0", a string if it is plain text, or "v1", always standard blocks.

Set per model or per call; else by the environment: `FOLDLINE_OUTPUT_VERSION`, then LangChain's `LC_OUTPUT_VERSION`.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, cast

from foldline.exceptions import UsageError

__all__ = ["OutputVersion", "output_version"]

OutputVersion: TypeAlias = Literal["v0", "v1"]

VARIABLES = ("FOLDLINE_OUTPUT_VERSION", "LC_OUTPUT_VERSION")


def output_version(version: str | None = None) -> OutputVersion:
    """Return the requested version, else the environment's, else "v0"."""
    source = "output_version"
    for variable in VARIABLES:
        if version:
            break
        source, version = variable, os.environ.get(variable)
    if not version:
        return "v0"
    if version == "responses/v1":  # LangChain's, for one API; standard blocks contain the same
        return "v1"
    if version not in ("v0", "v1"):
        raise UsageError(f"{source} is 'v0' or 'v1', not {version!r}")
    return cast("OutputVersion", version)
