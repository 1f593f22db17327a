"""Settings of the whole process: the default cache, verbose and debug printing."""

from __future__ import annotations

from weft.caches.base import BaseCache
from weft.callbacks.base import BaseCallbackHandler
from weft.callbacks.hooks import register_configure_hook

__all__ = ["get_debug", "get_llm_cache", "get_verbose", "set_debug", "set_llm_cache", "set_verbose"]

_verbose = False
_debug = False
_llm_cache: BaseCache | None = None


def set_verbose(value: bool) -> None:  # noqa: FBT001  LangChain's signature
    """Let every model and chain print what it does."""
    global _verbose
    _verbose = value


def get_verbose() -> bool:
    """Whether everything prints what it does."""
    return _verbose


class _Printing:
    """Joins every run while debugging is on, as a handler in a context variable would."""

    printer: BaseCallbackHandler | None = None

    def get(self) -> BaseCallbackHandler | None:
        """The handler to add, if any."""
        return self.printer


_printing = _Printing()
register_configure_hook(_printing, inheritable=True)


def set_debug(value: bool) -> None:  # noqa: FBT001
    """Let every run be printed with its inputs and outputs."""
    global _debug
    _debug = value
    if value:
        from weft.tracers.stdout import ConsoleCallbackHandler  # noqa: PLC0415  only debugging prints

        _printing.printer = ConsoleCallbackHandler()
    else:
        _printing.printer = None


def get_debug() -> bool:
    """Whether every run is printed."""
    return _debug


def set_llm_cache(value: BaseCache | None) -> None:
    """Set the cache for models that name none of their own."""
    global _llm_cache
    _llm_cache = value


def get_llm_cache() -> BaseCache | None:
    """Give the cache for models that name none of their own."""
    return _llm_cache
