"""Writing values as JSON and reading them back: `dumps`, `dumpd`, `loads`, `load`, and the registry."""

from weft.load.serializable import Serializable

__all__ = ["Serializable"]
