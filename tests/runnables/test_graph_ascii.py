"""Graphs drawn with letters."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RunnableLambda, RunnableParallel
from foldline.runnables._graph_layout import columns, lay_out, left_of, right_of
from foldline.runnables.graph import Edge, Graph
from foldline.runnables.graph_ascii import AsciiCanvas, VertexViewer, draw_ascii

F: Any = RunnableLambda(lambda x: x, name="f")
G: Any = RunnableLambda(lambda x: x, name="g")


def drawing(text: str) -> str:
    """A drawing as written in a test: without its first line break, and indented as the test is."""
    lines = text.strip("\n").splitlines()
    return "\n".join(line[4:].rstrip() for line in lines)


def test_a_sequence_goes_straight_down():
    assert (F | G).get_graph().draw_ascii() == drawing("""
    +---------+
    | f_input |
    +---------+
         *
         *
         v
       +---+
       | f |
       +---+
         *
         *
         v
       +---+
       | g |
       +---+
         *
         *
         v
    +----------+
    | g_output |
    +----------+
""")


def test_branches_stand_side_by_side():
    assert RunnableParallel(a=F, b=G).get_graph().draw_ascii() == drawing("""
     +--------------------+
     | Parallel<a,b>Input |
     +--------------------+
               *
            *** ***
           v       v
         +---+   +---+
         | f |   | g |
         +---+   +---+
           *       *
            *** ***
               v
    +---------------------+
    | Parallel<a,b>Output |
    +---------------------+
""")


def test_edges_that_are_not_always_taken_are_dotted_and_labels_are_written():
    picture = draw_ascii(
        {"a": "ask", "b": "book", "c": "cook"},
        [Edge("a", "b", "yes", conditional=True), Edge("a", "c", "no", conditional=True)],
    )

    assert "." in picture
    assert "*" not in picture
    line = next(line for line in picture.splitlines() if "yes" in line)
    assert "no" in line


def test_a_circle_has_its_tip_at_the_upper_end():
    picture = draw_ascii({"a": "agent", "t": "tools"}, [Edge("a", "t"), Edge("t", "a", "back")])

    assert "^" in picture
    assert "v" in picture
    assert picture.index("agent") < picture.index("back") < picture.index("tools")


def test_a_part_that_leads_to_itself_says_so():
    assert "| f (loop) |" in draw_ascii({"f": "f"}, [Edge("f", "f")])


def test_every_part_is_drawn_whole_and_once_in_any_graph():
    dice = random.Random(7)
    for _ in range(60):
        names = {str(n): f"node{n}" + "x" * dice.randrange(9) for n in range(dice.randrange(1, 12))}
        ids = list(names)
        edges = [
            Edge(
                dice.choice(ids),
                dice.choice(ids),
                dice.choice([None, None, "why"]),
                dice.random() < 0.3,
            )
            for _ in range(dice.randrange(2 * len(ids)))
        ]
        picture = draw_ascii(names, edges)
        loops = {edge.source for edge in edges if edge.source == edge.target}
        for id_, name in names.items():
            assert picture.count(f"| {name} (loop) |" if id_ in loops else f"| {name} |") == 1
        proper = [edge for edge in edges if edge.source != edge.target and edge.data]
        assert picture.count("why") == len(proper)


def test_neighbours_never_overlap_and_edges_go_down():
    dice = random.Random(11)
    ids = [str(n) for n in range(30)]
    edges = [Edge(*dice.sample(ids, 2)) for _ in range(60)]
    layout = lay_out({id_: "n" * dice.randrange(1, 20) for id_ in ids}, edges)

    for layer in layout.layers:
        for left_node, other in pairwise(layer):
            assert right_of(left_node) < left_of(other)
    for route in layout.routes:
        assert [item.layer for item in route.items] == list(
            range(route.items[0].layer, route.items[-1].layer + 1)
        )


def test_a_long_chain_is_laid_out_without_recursion():
    ids = [str(n) for n in range(3000)]
    edges = [Edge(source, other) for source, other in pairwise(ids)]

    assert draw_ascii({id_: id_ for id_ in ids}, edges).count("| 2999 |") == 1


def test_wide_and_dangerous_characters_keep_the_box_whole():
    picture = draw_ascii({"a": "漢字", "b": "red\x1b[31m\nline", "c": "e\u0301"}, [])

    assert "| 漢字 |" in picture
    assert "\x1b" not in picture
    assert "red\N{REPLACEMENT CHARACTER}[31m line" in picture
    assert columns("漢字") == 4
    assert columns("e\u0301") == 1


def test_an_edge_to_nowhere_is_refused_and_nothing_is_nothing():
    with pytest.raises(UsageError, match="names the node 'b'"):
        draw_ascii({"a": "a"}, [Edge("a", "b")])
    assert Graph().draw_ascii() == ""


def test_it_is_printed(capsys):
    (F | G).get_graph().print_ascii()

    assert capsys.readouterr().out.startswith("+---------+\n| f_input |")


def test_a_canvas_takes_points_lines_texts_and_boxes():
    canvas = AsciiCanvas(9, 5)
    canvas.box(0, 0, 5, 3)
    canvas.text(2, 1, "x")
    canvas.line(5, 0, 8, 3, "*")
    canvas.point(0, 4, "!")

    assert canvas.draw() == "+---+*\n| x | *\n+---+  *\n        *\n!"
    for draw in (
        lambda: AsciiCanvas(1, 5),
        lambda: canvas.point(9, 0, "x"),
        lambda: canvas.point(0, 0, "xy"),
        lambda: canvas.box(0, 0, 1, 1),
    ):
        with pytest.raises(UsageError):
            draw()
    assert (VertexViewer("abc").w, VertexViewer("abc").h) == (7, 3)


def test_many_edges_are_drawn_in_good_time():
    ids = [str(n) for n in range(40)]
    edges = [
        Edge(source, other) for place, source in enumerate(ids) for other in ids[place + 1 :: 3]
    ]

    assert draw_ascii({id_: id_ for id_ in ids}, edges).count("| 39 |") == 1
