"""The layout of a graph that is drawn from top to bottom: layers, the order in each layer, horizontal positions.

The usual steps: edges that close a cycle are reversed, a node comes one layer below its last predecessor, an edge over
several layers gets a bend in each, the order in a layer follows the neighbours, and horizontal positions are as close
to the neighbours as the widths allow. Widths are in columns; this file does not know how the graph is drawn.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor

from foldline.exceptions import UsageError
from foldline.runnables.graph import Edge

SWEEPS = 8
"""How often the order, and then the positions, are improved."""
SPACE = 3
"""Columns between two neighbours."""


@dataclass(eq=False)
class Item:
    """A node, the label of an edge, or a bend of an edge that passes through a layer."""

    text: str | None
    """None for a bend."""
    is_box: bool
    width: int
    layer: int
    center: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)


@dataclass
class EdgePath:
    """An edge as drawn: from the upper node through bends to the lower one."""

    items: list[Item]
    is_upward: bool
    """Whether the edge leads from the lower node to the upper one."""
    edge: Edge


@dataclass
class Layout:
    """Everything that is drawn, with its position."""

    boxes: dict[str, Item]
    layers: list[list[Item]]
    routes: list[EdgePath]
    loops: set[str]
    """Nodes that have an edge to themselves."""

    @property
    def width(self) -> int:
        """The width of the drawing in columns."""
        return max((right_of(item) for layer in self.layers for item in layer), default=0)


def left_of(item: Item) -> int:
    """Return the first column of an item."""
    return floor(item.center - (item.width - 1) / 2 + 0.5)


def right_of(item: Item) -> int:
    """Return the first column after an item."""
    return left_of(item) + item.width


def plain(text: object) -> str:
    """Return a text as one line, without control characters and others that cannot be drawn."""
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(
        char if char.isprintable() else " " if char.isspace() else unknown for char in str(text)
    )


def columns(text: str) -> int:
    """Return the width of a text in columns: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def lay_out(vertices: Mapping[str, str], edges: Sequence[Edge]) -> Layout:
    """Compute the position of everything."""
    for edge in edges:
        for id_ in (edge.source, edge.target):
            if id_ not in vertices:
                raise UsageError(f"an edge names the node {id_!r}, which is not in the graph")
    loops = {edge.source for edge in edges if edge.source == edge.target}
    proper = [edge for edge in edges if edge.source != edge.target]
    directed = _without_circles(list(vertices), proper)
    layer_of = _layers(list(vertices), directed)
    boxes = {id_: _box(name, layer_of[id_]) for id_, name in vertices.items()}
    layers: list[list[Item]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for item in boxes.values():
        layers[item.layer].append(item)
    routes = [
        _route(boxes[upper], boxes[lower], up, edge, layers) for upper, lower, up, edge in directed
    ]
    _order(layers)
    _place(layers)
    return Layout(boxes, layers, routes, loops)


def _box(name: str, layer: int) -> Item:
    text = plain(name)
    return Item(text, is_box=True, width=columns(text) + 4, layer=layer)


# -- layers

Directed = tuple[str, str, bool, Edge]
"""Upper node, lower node, whether the edge is reversed, the edge."""


def _without_circles(ids: Sequence[str], edges: Sequence[Edge]) -> list[Directed]:
    leads_to = defaultdict(list)
    for edge in edges:
        leads_to[edge.source].append(edge.target)
    entered = {edge.target for edge in edges}
    reversed_edges: set[tuple[str, str]] = set()
    on_path, visited = set[str](), set[str]()
    for start in sorted(
        ids, key=lambda id_: id_ in entered
    ):  # nodes without predecessors come first
        if start in visited:
            continue
        path = [(start, iter(leads_to[start]))]
        on_path.add(start)
        while path:
            id_, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                on_path.discard(id_)
                visited.add(id_)
            elif target in on_path:
                reversed_edges.add((id_, target))
            elif target not in visited:
                on_path.add(target)
                path.append((target, iter(leads_to[target])))
    return [
        (edge.target, edge.source, True, edge)
        if (edge.source, edge.target) in reversed_edges
        else (edge.source, edge.target, False, edge)
        for edge in edges
    ]


def _layers(ids: Sequence[str], directed: Sequence[Directed]) -> dict[str, int]:
    below = defaultdict(list)
    predecessor_count = dict.fromkeys(ids, 0)
    for upper, lower, _, edge in directed:
        # A label needs a layer of its own.
        below[upper].append((lower, 1 if edge.data is None else 2))
        predecessor_count[lower] += 1
    roots = [id_ for id_ in ids if not predecessor_count[id_]]
    ready, layer = deque(roots), dict.fromkeys(ids, 0)
    while ready:
        id_ = ready.popleft()
        for lower, distance in below[id_]:
            layer[lower] = max(layer[lower], layer[id_] + distance)
            predecessor_count[lower] -= 1
            if not predecessor_count[lower]:
                ready.append(lower)
    for root in roots:  # as close to their successors as possible
        layer[root] = min((layer[lower] - distance for lower, distance in below[root]), default=0)
    return layer


def _route(
    upper: Item,
    lower: Item,
    is_upward: bool,  # noqa: FBT001  private, with one caller
    edge: Edge,
    layers: list[list[Item]],
) -> EdgePath:
    layers_between = range(upper.layer + 1, lower.layer)
    label_at = layers_between[len(layers_between) // 2] if edge.data is not None else None
    items = [upper]
    for layer in layers_between:
        text = plain(edge.data) if layer == label_at else None
        item = Item(text, is_box=False, width=max(1, columns(text or "")), layer=layer)
        layers[layer].append(item)
        items.append(item)
    items.append(lower)
    for upper_item, lower_item in pairwise(items):
        upper_item.below.append(lower_item)
        lower_item.above.append(upper_item)
    return EdgePath(items, is_upward, edge)


# -- order


def _order(layers: list[list[Item]]) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            fixed_positions = {
                item: position
                for position, item in enumerate(layers[index - 1 if down else index + 1])
            }
            positions = {item: position for position, item in enumerate(layers[index])}
            layers[index].sort(
                key=lambda item: _mean(
                    (
                        fixed_positions[neighbour]
                        for neighbour in (item.above if down else item.below)
                    ),
                    positions[item],
                )
            )
        if (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _crossings(layers: list[list[Item]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        position_of = {item: position for position, item in enumerate(lower)}
        ends = [
            position_of[below]
            for item in upper
            for below in sorted(item.below, key=lambda lower_item: position_of[lower_item])
        ]
        if len(ends) > 200:
            return 1  # too many to count; the sweeps still improve the order
        total += sum(
            first > second for position, first in enumerate(ends) for second in ends[position + 1 :]
        )
    return total


def _mean(values: Iterable[float], otherwise: float) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else otherwise


# -- horizontal positions


def _place(layers: list[list[Item]]) -> None:
    for layer in layers:
        _set_centers(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _set_centers(layer, [_preferred_center(item, down=sweep % 2 == 0) for item in layer])
    for layer in layers:
        _set_centers(
            layer,
            [
                _mean((neighbour.center for neighbour in (*item.above, *item.below)), item.center)
                for item in layer
            ],
        )
    first = min((left_of(item) for layer in layers for item in layer), default=0)
    for layer in layers:
        for item in layer:
            item.center -= first


def _preferred_center(item: Item, *, down: bool) -> float:
    neighbours = (item.above if down else item.below) or item.above or item.below
    return _mean((neighbour.center for neighbour in neighbours), item.center)


def _set_centers(layer: list[Item], preferred_centers: list[float]) -> None:
    """Place the items of a layer as close to the preferred centers as their widths allow (least squares)."""
    offsets, groups = [0.0], list[tuple[float, int]]()
    for left_item, right_item in pairwise(layer):
        offsets.append(offsets[-1] + (left_item.width + right_item.width) / 2 + SPACE)
    for preferred, offset in zip(preferred_centers, offsets, strict=False):
        mean, count = preferred - offset, 1
        while groups and groups[-1][0] > mean:  # they would overlap, so they move together
            previous_mean, previous_count = groups.pop()
            mean, count = (
                (mean * count + previous_mean * previous_count) / (count + previous_count),
                count + previous_count,
            )
        groups.append((mean, count))
    shifts = [mean for mean, count in groups for _ in range(count)]
    for item, shift, offset in zip(layer, shifts, offsets, strict=False):
        item.center = shift + offset
