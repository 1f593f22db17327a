"""Graphs in Mermaid's language: plain text that many viewers draw. Names are escaped; no picture is made here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from foldline.exceptions import UsageError
from foldline.runnables.graph import CurveStyle, Edge, Node, NodeStyles

__all__ = ["draw_mermaid", "draw_mermaid_png"]

BARE_LABEL = re.compile(r"[\w .,/+*=:-]+")
"""Labels that Mermaid reads as they are; others are quoted, with entities."""
BARE_YAML = re.compile(r"[A-Za-z_][\w -]*")
SMALL_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
RESERVED = re.compile(
    r"(?i)\b(end|graph|flowchart|subgraph|style|linkstyle|classdef|class|click|default|direction|interpolate|call|href)\b"
)
"""Mermaid's own words, which no id and no label may be."""
MARKED = ("__start__", "__end__")
"""Names with underscores that Markdown would read as bold: they go in a paragraph of their own."""


def draw_mermaid(
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    *,
    first_node: str | None = None,
    last_node: str | None = None,
    with_styles: bool = True,
    curve_style: CurveStyle = CurveStyle.LINEAR,
    node_styles: NodeStyles | None = None,
    wrap_label_n_words: int = 9,
    frontmatter_config: Mapping[str, Any] | None = None,
) -> str:
    """Describe a graph; nodes `group:name` with edges among them become a subgraph."""
    lines = list(_frontmatter(curve_style, frontmatter_config)) if with_styles else []
    lines.append("graph TD;")
    groups = _groups(nodes, edges)

    def declared(inside: str) -> Iterator[str]:
        for id_, node in nodes.items():
            if with_styles and _group_of(id_, groups) == inside:
                yield "\t" + _node(node, id_, inside, first_node, last_node)

    def drawn(inside: str) -> Iterator[str]:
        for edge in edges:
            if _common(edge, groups) == inside:
                yield "\t" + _edge(edge, wrap_label_n_words)

    lines += [*declared(""), *drawn("")]
    opened: list[str] = []
    for group in groups:
        while opened and not group.startswith(f"{opened[-1]}:"):
            lines.append("\tend")
            opened.pop()
        name = group.rsplit(":", 1)[-1]
        lines.append(
            f"\tsubgraph {name if BARE_YAML.fullmatch(name) else f'{_safe_id(group)} [{_label(name)}]'}"
        )
        opened.append(group)
        lines += [*declared(group), *drawn(group)]
    lines += ["\tend"] * len(opened)
    if with_styles:
        styles = node_styles or NodeStyles()
        lines += [
            f"\tclassDef {name} {getattr(styles, name)}" for name in ("default", "first", "last")
        ]
    return "\n".join(lines) + "\n"


def draw_mermaid_png(
    mermaid_syntax: str, output_file_path: str | None = None, **options: object
) -> NoReturn:
    """Refuse: LangChain sends the text to a web service or starts a browser, and foldline does neither."""
    raise UsageError(
        "foldline makes no picture of Mermaid text, because that needs a web service or a browser: use "
        "graph.draw_svg(), or give the text of graph.draw_mermaid() to a viewer (GitHub, VS Code, the `mmdc` command)"
    )


# -- groups


def _groups(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> list[str]:
    """Return the prefixes of ids that have a subgraph, outer ones before inner ones."""
    found: set[str] = set()
    for id_ in nodes:
        parts = id_.split(":")[:-1]
        for length in range(1, len(parts) + 1):
            prefix = ":".join(parts[:length])
            if prefix and not prefix.isspace():
                found.add(prefix)
    inside = {prefix: [id_ for id_ in nodes if id_.startswith(f"{prefix}:")] for prefix in found}
    used = {id_ for edge in edges for id_ in (edge.source, edge.target)}
    return sorted(prefix for prefix, ids in inside.items() if used & set(ids) or len(ids) > 1)


def _group_of(id_: str, groups: Sequence[str]) -> str:
    fitting = [group for group in groups if id_.startswith(f"{group}:")]
    return max(fitting, key=len, default="")


def _common(edge: Edge, groups: Sequence[str]) -> str:
    fitting = [
        group
        for group in groups
        if edge.source.startswith(f"{group}:") and edge.target.startswith(f"{group}:")
    ]
    return max(fitting, key=len, default="")


# -- lines


def _node(node: Node, id_: str, group: str, first: str | None, last: str | None) -> str:
    name = node.name.removeprefix(f"{group}:") if group else node.name
    label = _label(name)
    if node.metadata:
        pairs = "\n".join(
            f"{_entities(str(key))} = {_entities(str(value))}"
            for key, value in node.metadata.items()
        )
        label = f"{label}<hr/><small><em>{pairs}</em></small>"
        if '"' in label:
            label = '"' + label.replace('"', "") + '"'
    if name in MARKED:
        label = f"<p>{name}</p>"
    shape, style = f"({label})", ""
    if id_ == first:
        shape, style = f"([{label}])", ":::first"
    elif id_ == last:
        shape, style = f"([{label}])", ":::last"
    return f"{_safe_id(id_)}{shape}{style}"


def _edge(edge: Edge, most_words: int) -> str:
    source, target = _safe_id(edge.source), _safe_id(edge.target)
    if edge.data is None:
        return f"{source} {'-.->' if edge.conditional else '-->'} {target};"
    words = str(edge.data).split()
    lines = [
        " ".join(words[start : start + most_words]) for start in range(0, len(words), most_words)
    ]
    label = "&nbsp<br>&nbsp".join(_entities(line) for line in lines)
    begin, end = ("-.", ".->") if edge.conditional else ("--", "-->")
    return f"{source} {begin} &nbsp;{label}&nbsp; {end} {target};"


def _safe_id(id_: str) -> str:
    if id_.startswith("-") or RESERVED.match(id_):
        return f"\\{ord(id_[0]):x}" + _spelled(id_[1:])
    return _spelled(id_)


def _spelled(id_: str) -> str:
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "_-") else f"\\{ord(one):x}"
        for one in id_
    )


def _label(name: str) -> str:
    return (
        name if BARE_LABEL.fullmatch(name) and not RESERVED.search(name) else f'"{_entities(name)}"'
    )


def _entities(text: str) -> str:
    """Spell what Mermaid or HTML would read as its own by its number."""
    return "".join(
        one if one.isalnum() or one in " _.,/+*=:-'!?\n" else f"#{ord(one)};"
        for one in text
        if one.isprintable() or one == "\n"
    )


# -- frontmatter


def _frontmatter(curve: CurveStyle, given: Mapping[str, Any] | None) -> Iterator[str]:
    config = dict((given or {}).get("config") or {})
    config["flowchart"] = {"curve": curve.value, **(config.get("flowchart") or {})}
    yield "---"
    yield from _yaml({**(given or {}), "config": config}, "")
    yield "---"


def _yaml(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, one in value.items():
        shown = _scalar(str(key))
        if isinstance(one, Mapping) and one:
            yield f"{indent}{shown}:"
            yield from _yaml(one, indent + "  ")
        else:
            yield f"{indent}{shown}: {_scalar(one)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and BARE_YAML.fullmatch(value) and value.lower() not in SMALL_WORDS:
        return value
    return json.dumps(value, default=str)  # JSON is YAML
