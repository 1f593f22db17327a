"""`Graph`: the parts of a runnable and the edges between them, to be inspected and drawn.

Nodes are runnables, or the schemas of input and output. Drawing is in `graph_ascii`, `graph_mermaid` and `graph_svg`;
nothing there opens a connection, or a file that was not passed.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, TypedDict
from uuid import UUID, uuid4

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.load.serializable import Serializable, to_json_not_implemented
from foldline.runnables.base import Runnable

__all__ = [
    "Branch",
    "CurveStyle",
    "Edge",
    "Graph",
    "LabelsDict",
    "MermaidDrawMethod",
    "Node",
    "NodeStyles",
    "Stringifiable",
    "is_uuid",
    "node_data_json",
    "node_data_str",
]

Data = type[BaseModel] | Runnable[Any, Any] | None


class Stringifiable(Protocol):
    """An object that can be shown as text."""

    def __str__(self) -> str:
        """Return the text."""


class LabelsDict(TypedDict):
    """Other names for nodes and edges."""

    nodes: dict[str, str]
    edges: dict[str, str]


class Branch(NamedTuple):
    """A function that chooses the next node."""

    condition: Callable[..., str]
    ends: dict[str, str] | None


class CurveStyle(Enum):
    """How Mermaid bends its edges."""

    BASIS = "basis"
    BUMP_X = "bumpX"
    BUMP_Y = "bumpY"
    CARDINAL = "cardinal"
    CATMULL_ROM = "catmullRom"
    LINEAR = "linear"
    MONOTONE_X = "monotoneX"
    MONOTONE_Y = "monotoneY"
    NATURAL = "natural"
    STEP = "step"
    STEP_AFTER = "stepAfter"
    STEP_BEFORE = "stepBefore"


class MermaidDrawMethod(Enum):
    """How LangChain draws Mermaid text; foldline supports neither."""

    PYPPETEER = "pyppeteer"
    API = "api"


@dataclass
class NodeStyles:
    """Mermaid styles of the first node, the last one and the others."""

    default: str = "fill:#f2f0ff,line-height:1.2"
    first: str = "fill-opacity:0"
    last: str = "fill:#bfb6fc"


class Node(NamedTuple):
    """A part of the graph."""

    id: str
    name: str
    data: Data
    """The runnable, or the schema of an input or output."""
    metadata: dict[str, Any] | None

    def copy(self, *, id: str | None = None, name: str | None = None) -> Node:
        """Return a copy with another id or name."""
        return self._replace(id=id or self.id, name=name or self.name)


class Edge(NamedTuple):
    """A connection from one node to another."""

    source: str
    target: str
    data: Stringifiable | None = None
    """The label."""
    conditional: bool = False
    """Whether it is not always taken."""

    def copy(self, *, source: str | None = None, target: str | None = None) -> Edge:
        """Return a copy between other nodes."""
        return self._replace(source=source or self.source, target=target or self.target)


def is_uuid(value: str) -> bool:
    """Return whether an id was made by `next_id`."""
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def node_data_str(id: str, data: Data) -> str:
    """Return the name of a node: its id if the user chose it, else the name of its data."""
    if not is_uuid(id) or data is None:
        return id
    name = data.get_name() if isinstance(data, Runnable) else data.__name__
    return name.removeprefix("Runnable") or name


def node_data_json(node: Node, *, with_schemas: bool = False) -> dict[str, Any]:
    """Return a node as JSON."""
    node_json: dict[str, Any] = {}
    if isinstance(node.data, Runnable):
        id_ = (
            node.data.lc_id()
            if isinstance(node.data, Serializable)
            else to_json_not_implemented(node.data)["id"]
        )
        node_json = {
            "type": "runnable",
            "data": {"id": id_, "name": node_data_str(node.id, node.data)},
        }
    elif inspect.isclass(node.data) and issubclass(node.data, BaseModel):
        schema = (
            node.data.model_json_schema() if with_schemas else node_data_str(node.id, node.data)
        )
        node_json = {"type": "schema", "data": schema}
    elif node.data is not None:
        node_json = {"type": "unknown", "data": node_data_str(node.id, node.data)}
    if node.metadata:
        node_json["metadata"] = node.metadata
    return node_json


@dataclass
class Graph:
    """Nodes and the edges between them.

    ```python
    from foldline.runnables import RunnableLambda

    add = RunnableLambda(lambda x: x + 1, name="add")
    double = RunnableLambda(lambda x: x * 2, name="double")
    print([node.name for node in (add | double).get_graph().nodes.values()])
    #> ['add_input', 'add', 'double', 'double_output']
    ```
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def __repr__(self) -> str:
        names = [node.name for node in self.nodes.values()]
        return f"Graph(nodes={names!r}, edges={len(self.edges)})"

    # -- changes

    def __bool__(self) -> bool:
        """Whether there are any nodes."""
        return bool(self.nodes)

    def next_id(self) -> str:
        """Return an unused id."""
        return uuid4().hex

    def add_node(
        self, data: Data, id: str | None = None, *, metadata: dict[str, Any] | None = None
    ) -> Node:
        """Add a node."""
        if id is not None and id in self.nodes:
            raise UsageError(f"the graph has a node {id!r} already")
        id = id or self.next_id()
        node = Node(id=id, name=node_data_str(id, data), data=data, metadata=metadata)
        self.nodes[id] = node
        return node

    def remove_node(self, node: Node) -> None:
        """Remove a node and its edges."""
        self.nodes.pop(node.id, None)
        self.edges = [edge for edge in self.edges if node.id not in (edge.source, edge.target)]

    def add_edge(
        self,
        source: Node,
        target: Node,
        data: Stringifiable | None = None,
        conditional: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> Edge:
        """Add an edge between two nodes."""
        for role, node in (("source", source), ("target", target)):
            if node.id not in self.nodes:
                raise UsageError(f"the {role} {node.id!r} is not in the graph: add the node first")
        edge = Edge(source=source.id, target=target.id, data=data, conditional=conditional)
        self.edges.append(edge)
        return edge

    def extend(self, graph: Graph, *, prefix: str = "") -> tuple[Node | None, Node | None]:
        """Add all of another graph; return its first and its last node as they are here."""
        if all(is_uuid(id_) for id_ in graph.nodes):
            prefix = ""

        def prefixed(id_: str) -> str:
            return f"{prefix}:{id_}" if prefix else id_

        self.nodes.update(
            {prefixed(id_): node.copy(id=prefixed(id_)) for id_, node in graph.nodes.items()}
        )
        self.edges += [
            edge.copy(source=prefixed(edge.source), target=prefixed(edge.target))
            for edge in graph.edges
        ]
        first, last = graph.first_node(), graph.last_node()
        return (
            self.nodes[prefixed(first.id)] if first else None,
            self.nodes[prefixed(last.id)] if last else None,
        )

    def reid(self) -> Graph:
        """Return the same graph with readable ids: the names, numbered if several nodes share one."""
        counts = Counter(node.name for node in self.nodes.values())
        numbers: Counter[str] = Counter()
        ids: dict[str, str] = {}
        for node in self.nodes.values():
            if is_uuid(node.id):
                numbers[node.name] += 1
                ids[node.id] = (
                    node.name if counts[node.name] == 1 else f"{node.name}_{numbers[node.name]}"
                )
            else:
                ids[node.id] = node.id
        return Graph(
            nodes={ids[node.id]: node.copy(id=ids[node.id]) for node in self.nodes.values()},
            edges=[
                edge.copy(source=ids[edge.source], target=ids[edge.target]) for edge in self.edges
            ],
        )

    # -- ends

    def first_node(self) -> Node | None:
        """Return the only node without predecessors; None if there are several."""
        return self._end("target", ())

    def last_node(self) -> Node | None:
        """Return the only node without successors; None if there are several."""
        return self._end("source", ())

    def _end(self, side: str, excluded: Sequence[str]) -> Node | None:
        edges = [
            edge
            for edge in self.edges
            if edge.source not in excluded and edge.target not in excluded
        ]
        connected = {getattr(edge, side) for edge in edges}
        candidates = [
            node for id_, node in self.nodes.items() if id_ not in connected and id_ not in excluded
        ]
        return candidates[0] if len(candidates) == 1 else None

    def trim_first_node(self) -> None:
        """Remove the first node, if the graph then still has a single first node."""
        first = self.first_node()
        if first is None or sum(edge.source == first.id for edge in self.edges) > 1:
            return  # it has two edges: without it one of its successors would have no predecessor
        if self._end("target", [first.id]) is not None:
            self.remove_node(first)

    def trim_last_node(self) -> None:
        """Remove the last node, if the graph then still has a single last node."""
        last = self.last_node()
        if last is None or sum(edge.target == last.id for edge in self.edges) > 1:
            return
        if self._end("source", [last.id]) is not None:
            self.remove_node(last)

    # -- output

    def to_json(self, *, with_schemas: bool = False) -> dict[str, list[dict[str, Any]]]:
        """Return the graph as JSON."""
        ids: dict[str, int | str] = {
            node.id: index if is_uuid(node.id) else node.id
            for index, node in enumerate(self.nodes.values())
        }
        edges: list[dict[str, Any]] = []
        for edge in self.edges:
            edge_json: dict[str, Any] = {"source": ids[edge.source], "target": ids[edge.target]}
            if edge.data is not None:
                edge_json["data"] = edge.data
            if edge.conditional:
                edge_json["conditional"] = True
            edges.append(edge_json)
        nodes = [
            {"id": ids[node.id], **node_data_json(node, with_schemas=with_schemas)}
            for node in self.nodes.values()
        ]
        return {"nodes": nodes, "edges": edges}

    def draw_ascii(self) -> str:
        """Draw the graph as text."""
        from foldline.runnables.graph_ascii import draw_ascii  # noqa: PLC0415  it knows our edges

        return draw_ascii({node.id: node.name for node in self.nodes.values()}, self.edges)

    def print_ascii(self) -> None:
        """Print the graph as text."""
        print(self.draw_ascii())  # noqa: T201

    def draw_svg(self, output_file_path: str | None = None) -> str:
        """Draw the graph as SVG; write it to a file too, if a path is passed."""
        from foldline.runnables._graph_svg import draw_svg  # noqa: PLC0415

        first, last = self.first_node(), self.last_node()
        svg = draw_svg(self.nodes, self.edges, first=first and first.id, last=last and last.id)
        if output_file_path is not None:
            Path(output_file_path).write_text(svg, encoding="utf-8")
        return svg

    def _repr_svg_(self) -> str:
        return self.draw_svg()

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: CurveStyle = CurveStyle.LINEAR,
        node_colors: NodeStyles | None = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: dict[str, Any] | None = None,
    ) -> str:
        """Return the graph in Mermaid's language."""
        from foldline.runnables.graph_mermaid import draw_mermaid  # noqa: PLC0415

        graph = self.reid()
        first, last = graph.first_node(), graph.last_node()
        return draw_mermaid(
            graph.nodes,
            graph.edges,
            first_node=first and first.id,
            last_node=last and last.id,
            with_styles=with_styles,
            curve_style=curve_style,
            node_styles=node_colors,
            wrap_label_n_words=wrap_label_n_words,
            frontmatter_config=frontmatter_config,
        )

    def draw_mermaid_png(self, **options: Any) -> NoReturn:
        """Raise: an image of Mermaid text needs a web service or a browser, and foldline uses neither."""
        from foldline.runnables.graph_mermaid import draw_mermaid_png  # noqa: PLC0415

        draw_mermaid_png(self.draw_mermaid(), **options)

    def draw_png(
        self,
        output_file_path: str | None = None,
        fontname: str | None = None,
        labels: LabelsDict | None = None,
    ) -> NoReturn:
        """Raise: this needs Graphviz, which is not a Python package; see `draw_svg`."""
        from foldline.runnables.graph_png import PngDrawer  # noqa: PLC0415

        PngDrawer(fontname, labels).draw(self, output_file_path)
