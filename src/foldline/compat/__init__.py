"""Programs written for LangChain: where its names live here, and ways to run them.

- `foldline.compat.names`: the map, from LangChain's names to ours, as data (`langchain.json`)
- `foldline.compat._rewrite`: a program's source with its imports renamed (`foldline migrate`)
- `foldline.compat.convert`: parts of one library used in the other (`from_langchain`, `to_langchain`)
- `foldline.compat.langchain`: an import hook, by which unmodified programs run on foldline
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.compat.convert import (
        from_langchain as from_langchain,
        to_langchain as to_langchain,
    )
    from foldline.compat.names import (
        find_home as find_home,
        rows as rows,
    )
