"""Graphs drawn as text: boxes in layers, `*` for an edge, `.` for an edge that is not always taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

from foldline.exceptions import UsageError
from foldline.runnables._graph_layout import EdgePath, Item, Layout, columns, lay_out, left_of
from foldline.runnables.graph import Edge

__all__ = ["AsciiCanvas", "VertexViewer", "draw_ascii"]

BOX_ROWS = 3
FEWEST_ROWS, MOST_ROWS = 3, 7
"""Limits of the number of rows between two layers."""


class VertexViewer:
    """The size of a node's box."""

    HEIGHT = BOX_ROWS

    def __init__(self, name: str) -> None:
        """Measure a name."""
        self._name = name

    @property
    def h(self) -> int:
        """The height in rows."""
        return self.HEIGHT

    @property
    def w(self) -> int:
        """The width in columns."""
        return columns(self._name) + 4


class AsciiCanvas:
    """Rows and columns of characters."""

    def __init__(self, cols: int, lines: int) -> None:
        """Make an empty canvas."""
        if cols <= 1 or lines <= 1:
            raise UsageError(
                f"a canvas needs more than one column and line, not {cols} and {lines}"
            )
        self.cols = cols
        self.lines = lines
        self.canvas: list[list[str]] = [[" "] * cols for _ in range(lines)]

    def draw(self) -> str:
        """Return the drawing."""
        return "\n".join("".join(line).rstrip() for line in self.canvas)

    def point(self, x: int, y: int, char: str) -> None:
        """Draw one character."""
        if not (0 <= x < self.cols and 0 <= y < self.lines):
            raise UsageError(f"({x}, {y}) is not on a canvas of {self.cols} x {self.lines}")
        if len(char) != 1:
            raise UsageError(f"a point is one character, not {char!r}")
        self.canvas[y][x] = char

    def line(self, x0: int, y0: int, x1: int, y1: int, char: str) -> None:
        """Draw a line of one character."""
        steps = max(abs(x1 - x0), abs(y1 - y0))
        for step in range(steps + 1):
            fraction = step / steps if steps else 0
            self.point(round(x0 + (x1 - x0) * fraction), round(y0 + (y1 - y0) * fraction), char)

    def text(self, x: int, y: int, text: str) -> None:
        """Draw a text; a wide character takes two columns, a combining one is added to the one before."""
        for char in text:
            width = columns(char)
            if width == 0 and x > 0:
                self.canvas[y][x - 1] += char
                continue
            self.point(x, y, char)
            if width == 2:
                self.canvas[y][x + 1] = ""
            x += width

    def box(self, x0: int, y0: int, width: int, height: int) -> None:
        """Draw an empty box."""
        if width <= 1 or height <= 1:
            raise UsageError(f"a box needs more than one column and line, not {width} and {height}")
        bottom = y0 + height - 1
        for y in range(y0, bottom + 1):
            side, middle = ("+", "-") if y in (y0, bottom) else ("|", " ")
            self.text(x0, y, side + middle * (width - 2) + side)


def draw_ascii(vertices: Mapping[str, str], edges: Sequence[Edge]) -> str:
    """Draw a graph: id -> name, and edges between ids."""
    if not vertices:
        return ""
    loops = {edge.source for edge in edges if edge.source == edge.target}
    names = {id_: f"{name} (loop)" if id_ in loops else name for id_, name in vertices.items()}
    layout = lay_out(names, edges)
    rows = _rows(layout)
    canvas = AsciiCanvas(max(2, layout.width), rows[-1] + BOX_ROWS)
    for route in layout.routes:
        _draw_route(canvas, route, rows, layout)
    for route in layout.routes:
        _draw_tip(canvas, route, rows)
        for item in route.items[1:-1]:
            if item.text is not None:
                canvas.text(
                    left_of(item), rows[item.layer] + _height(layout, item.layer) // 2, item.text
                )
    for item in layout.boxes.values():
        left, top = left_of(item), rows[item.layer]
        canvas.box(left, top, item.width, BOX_ROWS)
        canvas.text(left + 2, top + 1, item.text or "")
    return canvas.draw().rstrip("\n")


def _height(layout: Layout, layer: int) -> int:
    return BOX_ROWS if any(item.is_box for item in layout.layers[layer]) else 1


def _rows(layout: Layout) -> list[int]:
    """Return the first row of each layer: the further its edges go sideways, the more rows follow."""
    rows = [0]
    for index, layer in enumerate(layout.layers[:-1]):
        horizontal_distance = max(
            (abs(item.center - lower_item.center) for item in layer for lower_item in item.below),
            default=0,
        )
        gap = min(MOST_ROWS, max(FEWEST_ROWS, round(horizontal_distance / 6) + 2))
        rows.append(rows[-1] + _height(layout, index) + gap)
    return rows


def _draw_route(canvas: AsciiCanvas, route: EdgePath, rows: list[int], layout: Layout) -> None:
    char = "." if route.edge.conditional else "*"
    for upper, lower in zip(route.items, route.items[1:], strict=False):
        top = rows[upper.layer] + _height(layout, upper.layer)
        bottom = rows[lower.layer] - 1
        canvas.line(_column(upper), top, _column(lower), bottom, char)
        if lower is not route.items[-1]:  # through the layer that the edge passes
            end = rows[lower.layer] + _height(layout, lower.layer) - 1
            canvas.line(_column(lower), bottom, _column(lower), end, char)


def _draw_tip(canvas: AsciiCanvas, route: EdgePath, rows: list[int]) -> None:
    upper, lower = route.items[0], route.items[-1]
    if route.is_upward:
        canvas.point(_column(upper), rows[upper.layer] + BOX_ROWS, "^")
    else:
        canvas.point(_column(lower), rows[lower.layer] - 1, "v")


def _column(item: Item) -> int:
    """Return the column of an item's center, rounded in the same way for all items."""
    return min(max(floor(item.center + 0.5), left_of(item)), left_of(item) + item.width - 1)
