"""The old paths of the policies, for one minor version."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

MOVED = {
    "base": "foldline.language_models._call.policy",
    "call_options": "foldline.language_models._call.call_options",
    "settings": "foldline.language_models._call.settings",
    "file_resolver": "foldline.language_models._call.policies.file_resolver",
    "model_hooks": "foldline.language_models._call.policies.model_hooks",
    "output_check": "foldline.language_models._call.policies.output_check",
    "prompt_caching": "foldline.language_models._call.policies.prompt_caching",
    "usage": "foldline.language_models._call.policies.usage",
    "usage_scope": "foldline.language_models._call.policies.usage_scope",
}

for _name, _home in MOVED.items():
    sys.modules[f"{__name__}.{_name}"] = import_module(_home)
warnings.warn(
    f"{__name__} is private and moved: import its names from foldline.language_models. The old paths go with the next "
    "minor version.",
    DeprecationWarning,
    stacklevel=2,
)
