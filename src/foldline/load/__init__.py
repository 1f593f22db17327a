"""Writing values as JSON and reading them back: `dumps`, `dumpd`, `loads`, `load`, and the registry."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.load.dump import dumpd as dumpd, dumps as dumps
    from foldline.load.load import (
        InitValidator as InitValidator,
        default_init_validator as default_init_validator,
        load as load,
        loads as loads,
    )
    from foldline.load.registry import register_loadable as register_loadable
    from foldline.load.serializable import Serializable as Serializable
