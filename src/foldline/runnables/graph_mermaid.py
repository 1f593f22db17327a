"""Graphs in Mermaid's language: plain text that many viewers draw. Names are escaped; no image is made here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from foldline.exceptions import UsageError
from foldline.runnables.graph import CurveStyle, Edge, Node, NodeStyles

__all__ = ["draw_mermaid", "draw_mermaid_png"]

BARE_LABEL = re.compile(r"[\w .,/+*=:-]+")
"""Labels that Mermaid reads unquoted; others are quoted, with entities."""
BARE_YAML = re.compile(r"[A-Za-z_][\w -]*")
YAML_KEYWORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
RESERVED = re.compile(
    r"(?i)\b(end|graph|flowchart|subgraph|style|linkstyle|classdef|class|click|default|direction|interpolate|call|href)\b"
)
"""Mermaid's keywords, which no id or label may be."""
BOLD_LIKE_NAMES = ("__start__", "__end__")
"""Names with underscores that Markdown would read as bold: they are wrapped in a paragraph."""


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
    """Return a graph as Mermaid text; nodes `group:name` with edges among them become a subgraph."""
    lines = list(_frontmatter(curve_style, frontmatter_config)) if with_styles else []
    lines.append("graph TD;")
    groups = _groups(nodes, edges)

    def node_lines(group: str) -> Iterator[str]:
        for id_, node in nodes.items():
            if with_styles and _group_of(id_, groups) == group:
                yield "\t" + _node(node, id_, group, first_node, last_node)

    def edge_lines(group: str) -> Iterator[str]:
        for edge in edges:
            if _common_group(edge, groups) == group:
                yield "\t" + _edge(edge, wrap_label_n_words)

    lines += [*node_lines(""), *edge_lines("")]
    open_groups: list[str] = []
    for group in groups:
        while open_groups and not group.startswith(f"{open_groups[-1]}:"):
            lines.append("\tend")
            open_groups.pop()
        name = group.rsplit(":", 1)[-1]
        lines.append(
            f"\tsubgraph {name if BARE_YAML.fullmatch(name) else f'{_safe_id(group)} [{_label(name)}]'}"
        )
        open_groups.append(group)
        lines += [*node_lines(group), *edge_lines(group)]
    lines += ["\tend"] * len(open_groups)
    if with_styles:
        styles = node_styles or NodeStyles()
        lines += [
            f"\tclassDef {name} {getattr(styles, name)}" for name in ("default", "first", "last")
        ]
    return "\n".join(lines) + "\n"


def draw_mermaid_png(
    mermaid_syntax: str, output_file_path: str | None = None, **options: object
) -> NoReturn:
    """Raise: LangChain sends the text to a web service or starts a browser, and foldline does neither."""
    raise UsageError(
        "foldline makes no picture of Mermaid text, because that needs a web service or a browser: use "
        "graph.draw_svg(), or give the text of graph.draw_mermaid() to a viewer (GitHub, VS Code, the `mmdc` command)"
    )


# -- groups


def _groups(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> list[str]:
    """Return the prefixes of ids that have a subgraph, outer ones before inner ones."""
    prefixes: set[str] = set()
    for id_ in nodes:
        parts = id_.split(":")[:-1]
        for length in range(1, len(parts) + 1):
            prefix = ":".join(parts[:length])
            if prefix and not prefix.isspace():
                prefixes.add(prefix)
    ids_by_prefix = {
        prefix: [id_ for id_ in nodes if id_.startswith(f"{prefix}:")] for prefix in prefixes
    }
    connected = {id_ for edge in edges for id_ in (edge.source, edge.target)}
    return sorted(
        prefix for prefix, ids in ids_by_prefix.items() if connected & set(ids) or len(ids) > 1
    )


def _group_of(id_: str, groups: Sequence[str]) -> str:
    matching = [group for group in groups if id_.startswith(f"{group}:")]
    return max(matching, key=len, default="")


def _common_group(edge: Edge, groups: Sequence[str]) -> str:
    matching = [
        group
        for group in groups
        if edge.source.startswith(f"{group}:") and edge.target.startswith(f"{group}:")
    ]
    return max(matching, key=len, default="")


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
    if name in BOLD_LIKE_NAMES:
        label = f"<p>{name}</p>"
    shape, style = f"({label})", ""
    if id_ == first:
        shape, style = f"([{label}])", ":::first"
    elif id_ == last:
        shape, style = f"([{label}])", ":::last"
    return f"{_safe_id(id_)}{shape}{style}"


def _edge(edge: Edge, max_words: int) -> str:
    source, target = _safe_id(edge.source), _safe_id(edge.target)
    if edge.data is None:
        return f"{source} {'-.->' if edge.conditional else '-->'} {target};"
    words = str(edge.data).split()
    lines = [
        " ".join(words[start : start + max_words]) for start in range(0, len(words), max_words)
    ]
    label = "&nbsp<br>&nbsp".join(_entities(line) for line in lines)
    begin, end = ("-.", ".->") if edge.conditional else ("--", "-->")
    return f"{source} {begin} &nbsp;{label}&nbsp; {end} {target};"


def _safe_id(id_: str) -> str:
    if id_.startswith("-") or RESERVED.match(id_):
        return f"\\{ord(id_[0]):x}" + _escape_id(id_[1:])
    return _escape_id(id_)


def _escape_id(id_: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "_-") else f"\\{ord(char):x}"
        for char in id_
    )


def _label(name: str) -> str:
    return (
        name if BARE_LABEL.fullmatch(name) and not RESERVED.search(name) else f'"{_entities(name)}"'
    )


def _entities(text: str) -> str:
    """Return a text with the characters that Mermaid or HTML would interpret as numeric entities."""
    return "".join(
        char if char.isalnum() or char in " _.,/+*=:-'!?\n" else f"#{ord(char)};"
        for char in text
        if char.isprintable() or char == "\n"
    )


# -- frontmatter


def _frontmatter(curve: CurveStyle, frontmatter: Mapping[str, Any] | None) -> Iterator[str]:
    config = dict((frontmatter or {}).get("config") or {})
    config["flowchart"] = {"curve": curve.value, **(config.get("flowchart") or {})}
    yield "---"
    yield from _yaml({**(frontmatter or {}), "config": config}, "")
    yield "---"


def _yaml(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        key_text = _scalar(str(key))
        if isinstance(item, Mapping) and item:
            yield f"{indent}{key_text}:"
            yield from _yaml(item, indent + "  ")
        else:
            yield f"{indent}{key_text}: {_scalar(item)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and BARE_YAML.fullmatch(value) and value.lower() not in YAML_KEYWORDS:
        return value
    return json.dumps(value, default=str)  # JSON is YAML
