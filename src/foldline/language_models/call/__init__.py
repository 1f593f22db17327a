"""The old paths of a call's parts, for one minor version."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

MOVED = {
    "author": "foldline.language_models._call.author",
    "call": "foldline.language_models._call.call",
    "chunk_bridge": "foldline.language_models._call.bridge",
    "request": "foldline.language_models._call.request",
    "retry": "foldline.language_models._call.retry_policy",
}

for _name, _home in MOVED.items():
    sys.modules[f"{__name__}.{_name}"] = import_module(_home)
warnings.warn(
    f"{__name__} is private and moved: import its names from foldline.language_models. The old paths go with the next "
    "minor version.",
    DeprecationWarning,
    stacklevel=2,
)
