"""Methods of `Runnable` that build other runnables. The only arrows in weft that point up, each a local import."""

from __future__ import annotations

from typing import Any


class Forward:
    """Methods of `Runnable` that build other runnables."""

    def __or__(self, other: Any) -> Any:
        """Run this, then the other."""
        return self.pipe(other)

    def __ror__(self, other: Any) -> Any:
        """Run the other, then this."""
        from weft.runnables.sequence import sequence_of

        return sequence_of([other, self])

    def pipe(self, *others: Any, name: str | None = None) -> Any:
        """Run this, then the others in turn."""
        from weft.runnables.sequence import sequence_of

        return sequence_of([self, *others], name=name)
