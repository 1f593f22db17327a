"""Programs written for LangChain: where its names live here, and ways to run them.

- `foldline.compat.names`: the map, from LangChain's names to ours, as data (`langchain.json`)
- `foldline.compat.rewrite`: a program's source with its imports renamed (`foldline migrate`)
- `foldline.compat.convert`: parts of one library used in the other (`from_langchain`, `to_langchain`)
- `foldline.compat.langchain`: an import hook, by which unmodified programs run on foldline
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline.compat.convert import from_langchain, to_langchain
    from foldline.compat.names import Home, find_home, find_module, rows

__all__ = ["Home", "find_home", "find_module", "from_langchain", "rows", "to_langchain"]

__getattr__ = lazy_exports(
    __name__,
    {
        ".convert": "from_langchain to_langchain",
        ".names": "Home find_home find_module rows",
    },
)
