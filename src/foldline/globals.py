"""Settings of the whole process: the default cache, verbose and debug printing."""

from __future__ import annotations

from foldline.caches.base import BaseCache
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.hooks import EVERYWHERE

__all__ = ["get_debug", "get_llm_cache", "get_verbose", "set_debug", "set_llm_cache", "set_verbose"]


class Settings:
    """What holds for the whole process unless a model or chain says otherwise."""

    __slots__ = ("debug", "llm_cache", "verbose")

    def __init__(self) -> None:
        self.verbose: bool = False
        self.debug: BaseCallbackHandler | None = None
        """What prints every run; None while nobody debugs."""
        self.llm_cache: BaseCache | None = None


SETTINGS = Settings()


def set_verbose(value: bool) -> None:  # noqa: FBT001  LangChain's signature
    """Let every model and chain print what it does."""
    SETTINGS.verbose = value


def get_verbose() -> bool:
    """Whether everything prints what it does."""
    return SETTINGS.verbose


def set_debug(value: bool) -> None:  # noqa: FBT001
    """Let every run be printed with its inputs and outputs."""
    if SETTINGS.debug is not None:
        EVERYWHERE.remove(SETTINGS.debug)
        SETTINGS.debug = None
    if value:
        from foldline.tracers.stdout import ConsoleCallbackHandler  # noqa: PLC0415  only debugging prints

        SETTINGS.debug = ConsoleCallbackHandler()
        EVERYWHERE.append(SETTINGS.debug)


def get_debug() -> bool:
    """Whether every run is printed."""
    return SETTINGS.debug is not None


def set_llm_cache(value: BaseCache | None) -> None:
    """Set the cache for models that name none of their own."""
    SETTINGS.llm_cache = value


def get_llm_cache() -> BaseCache | None:
    """Return the cache for models that name none of their own."""
    return SETTINGS.llm_cache
