"""Settings of the process: the default cache, verbose and debug printing."""

from __future__ import annotations

from foldline.caches.base import BaseCache
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.hooks import EVERYWHERE

__all__ = ["get_debug", "get_llm_cache", "get_verbose", "set_debug", "set_llm_cache", "set_verbose"]


def __dir__() -> list[str]:
    return sorted(__all__)


class Settings:
    """Settings of the process, which a model or chain may override."""

    __slots__ = ("debug", "llm_cache", "verbose")

    def __init__(self) -> None:
        self.verbose: bool = False
        self.debug: BaseCallbackHandler | None = None
        """The handler that prints every run; None if debugging is off."""
        self.llm_cache: BaseCache | None = None


SETTINGS = Settings()


def set_verbose(value: bool) -> None:  # noqa: FBT001  LangChain's signature
    """Set whether every model and chain prints what it does."""
    SETTINGS.verbose = value


def get_verbose() -> bool:
    """Return whether every model and chain prints what it does."""
    return SETTINGS.verbose


def set_debug(value: bool) -> None:  # noqa: FBT001
    """Set whether every run is printed with its inputs and outputs."""
    if SETTINGS.debug is not None:
        EVERYWHERE.remove(SETTINGS.debug)
        SETTINGS.debug = None
    if value:
        from foldline.tracers.stdout import ConsoleCallbackHandler  # noqa: PLC0415  only debugging prints

        SETTINGS.debug = ConsoleCallbackHandler()
        EVERYWHERE.append(SETTINGS.debug)


def get_debug() -> bool:
    """Return whether every run is printed."""
    return SETTINGS.debug is not None


def set_llm_cache(value: BaseCache | None) -> None:
    """Set the cache for models that have none of their own."""
    SETTINGS.llm_cache = value


def get_llm_cache() -> BaseCache | None:
    """Return the cache for models that have none of their own."""
    return SETTINGS.llm_cache
