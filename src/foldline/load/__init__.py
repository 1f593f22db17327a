"""Writing values as JSON and reading them back: `dumps`, `dumpd`, `loads`, `load`, and the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.load.dump import dumpd, dumps
    from foldline.load.load import InitValidator, default_init_validator, load, loads
    from foldline.load.registry import register_loadable
    from foldline.load.serializable import Serializable

__all__ = [
    "InitValidator",
    "Serializable",
    "default_init_validator",
    "dumpd",
    "dumps",
    "load",
    "loads",
    "register_loadable",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".dump": "dumpd dumps",
        ".load": "InitValidator default_init_validator load loads",
        ".registry": "register_loadable",
        ".serializable": "Serializable",
    },
)
