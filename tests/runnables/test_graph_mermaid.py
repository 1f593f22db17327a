"""Graphs in Mermaid's language."""

from __future__ import annotations

from typing import Any

from foldline.runnables import RunnableLambda, RunnableParallel
from foldline.runnables.graph import CurveStyle, Edge, Graph, NodeStyles
from foldline.runnables.graph_mermaid import draw_mermaid

F: Any = RunnableLambda(lambda x: x, name="f")
G: Any = RunnableLambda(lambda x: x, name="g")


def agent() -> Graph:
    graph = Graph()
    start, call, tools, end = (
        graph.add_node(None, "__start__"), graph.add_node(F, "agent"),
        graph.add_node(G, "tools", metadata={"limit": 3, "note": "<b>"}), graph.add_node(None, "__end__"),
    )  # fmt: skip
    graph.add_edge(start, call)
    graph.add_edge(call, tools, "go on", conditional=True)
    graph.add_edge(tools, call)
    graph.add_edge(call, end, conditional=True)
    return graph


def test_a_graph_as_langchain_writes_it():
    assert agent().draw_mermaid() == (
        "---\n"
        "config:\n"
        "  flowchart:\n"
        "    curve: linear\n"
        "---\n"
        "graph TD;\n"
        "\t__start__([<p>__start__</p>]):::first\n"
        "\tagent(agent)\n"
        "\ttools(tools<hr/><small><em>limit = 3\nnote = #60;b#62;</em></small>)\n"
        "\t__end__([<p>__end__</p>]):::last\n"
        "\t__start__ --> agent;\n"
        "\tagent -. &nbsp;go on&nbsp; .-> tools;\n"
        "\ttools --> agent;\n"
        "\tagent -.-> __end__;\n"
        "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
        "\tclassDef first fill-opacity:0\n"
        "\tclassDef last fill:#bfb6fc\n"
    )


def test_ids_are_spelled_and_labels_quoted_where_mermaid_would_misread_them():
    text = RunnableParallel(a=F).get_graph().draw_mermaid()

    assert '\tParallel\\3ca\\3eInput(["Parallel#60;a#62;Input"]):::first' in text
    hostile = Graph()
    a = hostile.add_node(F, 'end"];<script>x</script>\n\x1b')
    hostile.add_edge(a, a, 'x"|<img src=//evil>')
    text = hostile.draw_mermaid()
    assert "<script>" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert '"]' not in text.replace('"])', "")


def test_styles_curves_and_frontmatter_may_be_chosen():
    text = agent().draw_mermaid(
        curve_style=CurveStyle.BASIS,
        node_colors=NodeStyles(default="fill:red"),
        frontmatter_config={
            "title": "A: graph",
            "config": {"theme": "neutral", "flowchart": {"padding": 3}, "look": "on"},
        },
    )

    assert text.startswith(
        '---\ntitle: "A: graph"\nconfig:\n  theme: neutral\n'
        '  flowchart:\n    curve: basis\n    padding: 3\n  look: "on"\n---\n'
    )
    assert "\tclassDef default fill:red\n" in text


def test_without_styles_there_are_only_edges():
    assert agent().draw_mermaid(with_styles=False) == (
        "graph TD;\n"
        "\t__start__ --> agent;\n"
        "\tagent -. &nbsp;go on&nbsp; .-> tools;\n"
        "\ttools --> agent;\n"
        "\tagent -.-> __end__;\n"
    )


def test_long_labels_are_wrapped():
    graph = Graph()
    graph.add_edge(graph.add_node(F, "a"), graph.add_node(F, "b"), "one two three four five")

    assert "a -- &nbsp;one two three&nbsp<br>&nbspfour five&nbsp; --> b;" in graph.draw_mermaid(
        wrap_label_n_words=3
    )


def test_ids_with_colons_are_subgraphs():
    graph = Graph()
    out, x, y, deep = (graph.add_node(F, id_) for id_ in ("out", "sub:x", "sub:y", "sub:inner:z"))
    graph.add_edge(out, x)
    graph.add_edge(x, y, conditional=True)
    graph.add_edge(y, deep)
    graph.add_edge(deep, out)

    assert graph.draw_mermaid().split("graph TD;\n")[1].split("\tclassDef")[0] == (
        "\tout(out)\n"
        "\tout --> sub\\3ax;\n"
        "\tsub\\3ainner\\3az --> out;\n"
        "\tsubgraph sub\n"
        "\tsub\\3ax(x)\n"
        "\tsub\\3ay(y)\n"
        "\tsub\\3ax -.-> sub\\3ay;\n"
        "\tsub\\3ay --> sub\\3ainner\\3az;\n"
        "\tsubgraph inner\n"
        "\tsub\\3ainner\\3az(z)\n"
        "\tend\n"
        "\tend\n"
    )


def test_it_draws_plain_nodes_and_edges_too():
    nodes = F.get_graph().reid().nodes

    text = draw_mermaid(nodes, [Edge("f", "f_output")], first_node="f_input", last_node="f_output")
    assert "\tf --> f_output;" in text


def test_subgraphs_side_by_side_are_closed_one_after_the_other():
    graph = Graph()
    for id_ in ("a:x", "a:y", "b:x", "b:y"):
        graph.add_node(F, id_)

    assert [line for line in graph.draw_mermaid().splitlines() if "subgraph" in line or line == "\tend"] == [
        "\tsubgraph a", "\tend", "\tsubgraph b", "\tend"
    ]  # fmt: skip


def test_metadata_of_a_name_in_quotes_stays_in_the_quotes():
    graph = Graph()
    graph.add_node(F, "a|b", metadata={"m": '"'})

    assert '(["a#124;b<hr/><small><em>m = #34;</em></small>"])' in graph.draw_mermaid()


def test_mermaids_own_words_are_no_ids():
    graph = Graph()
    graph.add_edge(graph.add_node(F, "end"), graph.add_node(G, "-class x"))

    text = graph.draw_mermaid()
    assert '\t\\65nd(["end"]):::first' in text
    assert "\t\\65nd --> \\2dclass\\20x;" in text
