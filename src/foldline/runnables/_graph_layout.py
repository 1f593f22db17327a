"""Where the parts of a graph go when it is drawn from top to bottom: layers, an order in each, a place across.

The steps are the usual ones: edges that close a circle are turned round, a part comes one layer below the last that
leads to it, an edge over several layers gets a bend in each, the order in a layer follows the neighbours', and places
across come as near to the neighbours' as the widths allow. Widths are in columns; no file here knows what is drawn.
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
"""How often the order, and then the places, are improved."""
SPACE = 3
"""Columns between two neighbours."""


@dataclass(eq=False)
class Item:
    """A part, the label of an edge, or the bend of an edge that passes by."""

    text: str | None
    """None for a bend."""
    is_box: bool
    width: int
    layer: int
    center: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)


@dataclass
class Route:
    """An edge as drawn: from the upper part through bends to the lower one."""

    items: list[Item]
    is_upward: bool
    """Whether the edge leads from the lower part to the upper one."""
    edge: Edge


@dataclass
class Layout:
    """Everything that is drawn, with its place."""

    boxes: dict[str, Item]
    layers: list[list[Item]]
    routes: list[Route]
    loops: set[str]
    """Parts that lead to themselves."""

    @property
    def width(self) -> int:
        """Columns from the first to the last."""
        return max((right_of(item) for layer in self.layers for item in layer), default=0)


def left_of(item: Item) -> int:
    """The first column of an item."""
    return floor(item.center - (item.width - 1) / 2 + 0.5)


def right_of(item: Item) -> int:
    """The first column after an item."""
    return left_of(item) + item.width


def plain(text: object) -> str:
    """One line of text without characters that move a cursor or cannot be in a picture."""
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(
        one if one.isprintable() else " " if one.isspace() else unknown for one in str(text)
    )


def columns(text: str) -> int:
    """The width of a text in columns: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def lay_out(vertices: Mapping[str, str], edges: Sequence[Edge]) -> Layout:
    """Find a place for everything."""
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
"""Upper part, lower part, whether the edge was turned round, the edge."""


def _without_circles(ids: Sequence[str], edges: Sequence[Edge]) -> list[Directed]:
    leads_to = defaultdict(list)
    for edge in edges:
        leads_to[edge.source].append(edge.target)
    entered = {edge.target for edge in edges}
    turned: set[tuple[str, str]] = set()
    open_, done = set[str](), set[str]()
    for start in sorted(
        ids, key=lambda id_: id_ in entered
    ):  # parts that nothing leads to come first
        if start in done:
            continue
        path = [(start, iter(leads_to[start]))]
        open_.add(start)
        while path:
            id_, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                open_.discard(id_)
                done.add(id_)
            elif target in open_:
                turned.add((id_, target))
            elif target not in done:
                open_.add(target)
                path.append((target, iter(leads_to[target])))
    return [
        (edge.target, edge.source, True, edge)
        if (edge.source, edge.target) in turned
        else (edge.source, edge.target, False, edge)
        for edge in edges
    ]


def _layers(ids: Sequence[str], directed: Sequence[Directed]) -> dict[str, int]:
    below = defaultdict(list)
    waiting = dict.fromkeys(ids, 0)
    for upper, lower, _, edge in directed:
        below[upper].append(
            (lower, 1 if edge.data is None else 2)
        )  # a label needs a layer of its own
        waiting[lower] += 1
    roots = [id_ for id_ in ids if not waiting[id_]]
    ready, layer = deque(roots), dict.fromkeys(ids, 0)
    while ready:
        id_ = ready.popleft()
        for lower, distance in below[id_]:
            layer[lower] = max(layer[lower], layer[id_] + distance)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    for root in roots:  # as near to what they lead to as they can be
        layer[root] = min((layer[lower] - distance for lower, distance in below[root]), default=0)
    return layer


def _route(
    upper: Item,
    lower: Item,
    is_upward: bool,  # noqa: FBT001  one caller, which has it at hand
    edge: Edge,
    layers: list[list[Item]],
) -> Route:
    passed = range(upper.layer + 1, lower.layer)
    label_at = passed[len(passed) // 2] if edge.data is not None else None
    items = [upper]
    for layer in passed:
        text = plain(edge.data) if layer == label_at else None
        item = Item(text, is_box=False, width=max(1, columns(text or "")), layer=layer)
        layers[layer].append(item)
        items.append(item)
    items.append(lower)
    for one, other in pairwise(items):
        one.below.append(other)
        other.above.append(one)
    return Route(items, is_upward, edge)


# -- order


def _order(layers: list[list[Item]]) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for place in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            fixed = {item: at for at, item in enumerate(layers[place - 1 if down else place + 1])}
            own = {item: at for at, item in enumerate(layers[place])}
            layers[place].sort(
                key=lambda item: _mean(
                    (fixed[one] for one in (item.above if down else item.below)), own[item]
                )
            )
        if (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _crossings(layers: list[list[Item]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        at = {item: place for place, item in enumerate(lower)}
        ends = [
            at[below] for item in upper for below in sorted(item.below, key=lambda one: at[one])
        ]
        if len(ends) > 200:
            return 1  # not worth counting: the sweeps do what they can
        total += sum(
            first > second for place, first in enumerate(ends) for second in ends[place + 1 :]
        )
    return total


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise


# -- places across


def _place(layers: list[list[Item]]) -> None:
    for layer in layers:
        _set(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _set(layer, [_wanted(item, down=sweep % 2 == 0) for item in layer])
    for layer in layers:
        _set(
            layer,
            [
                _mean((one.center for one in (*item.above, *item.below)), item.center)
                for item in layer
            ],
        )
    first = min((left_of(item) for layer in layers for item in layer), default=0)
    for layer in layers:
        for item in layer:
            item.center -= first


def _wanted(item: Item, *, down: bool) -> float:
    neighbours = (item.above if down else item.below) or item.above or item.below
    return _mean((one.center for one in neighbours), item.center)


def _set(layer: list[Item], wanted: list[float]) -> None:
    """Put the items of a layer as near to the wanted places as their widths allow (least squares)."""
    offsets, groups = [0.0], list[tuple[float, int]]()
    for one, other in pairwise(layer):
        offsets.append(offsets[-1] + (one.width + other.width) / 2 + SPACE)
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while groups and groups[-1][0] > mean:  # they would overlap: they move together
            before, others = groups.pop()
            mean, count = (mean * count + before * others) / (count + others), count + others
        groups.append((mean, count))
    shifts = [mean for mean, count in groups for _ in range(count)]
    for item, shift, offset in zip(layer, shifts, offsets, strict=False):
        item.center = shift + offset
