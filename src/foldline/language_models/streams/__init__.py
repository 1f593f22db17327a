"""The old paths of streams, for one minor version."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

MOVED = {
    "projections": "foldline._streams.projections",
    "stream": "foldline._streams.stream",
}

for _name, _home in MOVED.items():
    sys.modules[f"{__name__}.{_name}"] = import_module(_home)
warnings.warn(
    f"{__name__} is private and moved: import its names from foldline.language_models. The old paths go with the next "
    "minor version.",
    DeprecationWarning,
    stacklevel=2,
)
