"""`PngDrawer`: LangChain's interface to Graphviz, which foldline does not use; it raises and names alternatives."""

from __future__ import annotations

from typing import NoReturn

from foldline.exceptions import UsageError
from foldline.runnables.graph import LabelsDict

__all__ = ["PngDrawer"]


class PngDrawer:
    """Raises on `draw`: Graphviz is a program to install, not a Python package."""

    def __init__(self, fontname: str | None = None, labels: LabelsDict | None = None) -> None:
        """Accept LangChain's arguments."""
        self.fontname: str = fontname or "arial"
        self.labels: LabelsDict = labels or LabelsDict(nodes={}, edges={})

    def draw(self, graph: object, output_path: str | None = None) -> NoReturn:
        """Raise, and name the alternatives."""
        raise UsageError(
            "foldline draws no PNG: use graph.draw_svg('graph.svg'), which browsers show and rsvg-convert or Inkscape "
            "turn into a PNG"
        )
