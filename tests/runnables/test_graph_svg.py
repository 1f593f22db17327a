"""Graphs as SVG pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from foldline.runnables import RunnableLambda, RunnableParallel
from foldline.runnables.graph import Graph

F: Any = RunnableLambda(lambda x: x, name="f")
G: Any = RunnableLambda(lambda x: x, name="g")
SVG = "{http://www.w3.org/2000/svg}"


def picture_of(graph: Graph) -> ET.Element:
    return ET.fromstring(graph.draw_svg())


def test_every_part_has_a_box_with_its_name_and_every_edge_a_path():
    graph = (F | RunnableParallel(a=F, b=G) | G).get_graph()

    picture = picture_of(graph)

    assert [text.text for text in picture.iter(f"{SVG}text")] == [
        node.name for node in graph.nodes.values()
    ]
    paths = [path for path in picture.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(paths) == len(graph.edges)


def test_everything_is_inside_the_picture():
    picture = picture_of((F | RunnableParallel(a=F, b=F | G, c=G) | G).get_graph())

    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    for box in picture.iter(f"{SVG}rect"):
        left, top = float(box.get("x", 0)), float(box.get("y", 0))
        assert left >= 0
        assert top >= 0
        assert left + float(box.attrib["width"]) <= width
        assert top + float(box.attrib["height"]) <= height


def test_edges_that_are_not_always_taken_are_dashed_and_circles_point_up():
    graph = Graph()
    a, b = graph.add_node(F, "a"), graph.add_node(G, "b")
    graph.add_edge(a, b, "maybe", conditional=True)
    graph.add_edge(b, a)
    graph.add_edge(b, b)

    text = graph.draw_svg()

    assert text.count('class="maybe"') == 1
    assert text.count('marker-start="url(#tip)"') == 1
    assert '">maybe</text>' in text


def test_FV07_text_stays_text():
    hostile = "</text><script>alert(1)</script>&\"'\x1b\x00"
    graph = Graph()
    a = graph.add_node(F, hostile)
    b = graph.add_node(G, "b")
    graph.add_edge(a, b, "<img src=x onerror=alert(1)>")

    picture = picture_of(graph)

    assert "<script" not in graph.draw_svg()
    assert not list(picture.iter(f"{SVG}script"))
    assert next(picture.iter(f"{SVG}text")).text == "<img src=x onerror=alert(1)>"


def test_it_is_written_where_asked(tmp_path):
    path = tmp_path / "graph.svg"

    picture = F.get_graph().draw_svg(str(path))

    assert path.read_text(encoding="utf-8") == picture
    assert Graph().draw_svg().startswith("<svg")
