"""Graphs as SVG images, with the layout of `graph_ascii`. All text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from foldline.runnables._graph_layout import EdgePath, Item, Layout, lay_out
from foldline.runnables.graph import Edge, Node

__all__ = ["draw_svg"]

COLUMN = 8
"""Pixels of one column: a character of the monospaced font, 13 pixels high."""
BOX, LABEL, BETWEEN, MARGIN = 34, 20, 46, 16
"""Pixels: the height of a box, of a label, of the space between two layers, and around everything."""
FILL = {"first": "#ffffff", "last": "#bfb6fc", "": "#f2f0ff"}

STYLE = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;text-anchor:middle;"
    "fill:#1c1b29}"
    "rect{stroke:#7c6fd6;stroke-width:1.2}path{fill:none;stroke:#6b6880;stroke-width:1.3}"
    ".maybe{stroke-dasharray:5 4}.label{font-size:12px;fill:#4a4760}.under{stroke:none;fill:#ffffff}"
)
ARROW = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" style="fill:#6b6880;stroke:none"/></marker></defs>'
)


def draw_svg(
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    *,
    first: str | None = None,
    last: str | None = None,
) -> str:
    """Draw a graph; the first and the last node look different."""
    layout = lay_out({id_: node.name for id_, node in nodes.items()}, edges)
    tops = _tops(layout)
    width = layout.width * COLUMN + 2 * MARGIN + (24 if layout.loops else 0)
    height = tops[-1] + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img">',
        f"<style>{STYLE}</style>{ARROW}",
        f'<rect class="under" width="{width}" height="{height}"/>',
    ]
    parts += [_route(route, tops) for route in layout.routes]
    parts += [
        _label(item, tops)
        for route in layout.routes
        for item in route.items[1:-1]
        if item.text is not None
    ]
    for id_, item in layout.boxes.items():
        kind = "first" if id_ == first else "last" if id_ == last else ""
        parts.append(_box(item, tops, kind, loops=id_ in layout.loops))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _tops(layout: Layout) -> list[int]:
    """Return the top of each layer, and at the end the bottom of the image."""
    tops = [MARGIN]
    for layer in layout.layers:
        tops.append(tops[-1] + (BOX if any(item.is_box for item in layer) else LABEL) + BETWEEN)
    tops[-1] -= BETWEEN if layout.layers else 0
    return tops


def _x(item: Item) -> float:
    return MARGIN + (item.center + 0.5) * COLUMN


def _y(item: Item, tops: list[int]) -> float:
    """Return the middle of an item's layer."""
    bottom = tops[item.layer + 1] - (BETWEEN if item.layer + 2 < len(tops) else 0)
    return (tops[item.layer] + bottom) / 2


def _half(item: Item) -> float:
    return BOX / 2 if item.is_box else LABEL / 2 if item.text is not None else 0


def _route(route: EdgePath, tops: list[int]) -> str:
    path, previous = "", None
    for item in route.items:
        x, y, half = _x(item), _y(item, tops), _half(item)
        if previous is None:
            path = f"M{x:g} {y + half:g}"
        else:
            bend = (y - half - previous[1]) / 2
            path += f"C{previous[0]:g} {previous[1] + bend:g} {x:g} {y - half - bend:g} {x:g} {y - half:g}"
            if half and item is not route.items[-1]:
                path += f"L{x:g} {y + half:g}"
        previous = (x, y + half)
    end = "marker-start" if route.is_upward else "marker-end"
    dashed = ' class="maybe"' if route.edge.conditional else ""
    return f'<path d="{path}" {end}="url(#tip)"{dashed}/>'


def _label(item: Item, tops: list[int]) -> str:
    x, y, width = _x(item), _y(item, tops), item.width * COLUMN
    under = f'<rect class="under" x="{x - width / 2:g}" y="{y - LABEL / 2:g}" width="{width}" height="{LABEL}"/>'
    return f'{under}<text class="label" x="{x:g}" y="{y:g}" dy=".35em">{escape(item.text or "")}</text>'


def _box(item: Item, tops: list[int], kind: str, *, loops: bool) -> str:
    x, y, width = _x(item), _y(item, tops), item.width * COLUMN
    corner = BOX / 2 if kind else 6
    box = (
        f'<rect x="{x - width / 2:g}" y="{y - BOX / 2:g}" width="{width}" height="{BOX}" rx="{corner:g}" '
        f'fill="{FILL[kind]}"/><text x="{x:g}" y="{y:g}" dy=".35em">{escape(item.text or "")}</text>'
    )
    if not loops:
        return box
    right = x + width / 2
    loop = f"M{right:g} {y - 8:g}C{right + 26:g} {y - 16:g} {right + 26:g} {y + 16:g} {right:g} {y + 8:g}"
    return f'{box}<path d="{loop}" marker-end="url(#tip)"/>'
