"""`PngDrawer`: LangChain's door to Graphviz, which foldline does not use; it says what to use instead."""

from __future__ import annotations

from typing import NoReturn

from foldline.exceptions import UsageError
from foldline.runnables.graph import LabelsDict

__all__ = ["PngDrawer"]


class PngDrawer:
    """Draws no PNG: Graphviz is a program to install, not a Python package."""

    def __init__(self, fontname: str | None = None, labels: LabelsDict | None = None) -> None:
        """Take what LangChain's takes."""
        self.fontname: str = fontname or "arial"
        self.labels: LabelsDict = labels or LabelsDict(nodes={}, edges={})

    def draw(self, graph: object, output_path: str | None = None) -> NoReturn:
        """Refuse, and say what to do."""
        raise UsageError(
            "foldline draws no PNG: use graph.draw_svg('graph.svg'), which browsers show and rsvg-convert or Inkscape "
            "turn into a PNG"
        )
