"""Line plots as SVG, written by hand: both axes logarithmic, one line per side; across linear where it begins at 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 70, 110, 40, 50
COLOURS = {"foldline": "#0b6e4f", "langchain": "#c1440e", "bare": "#555", "floor": "#999"}
Lines = dict[str, list[tuple[float, float]]]


def draw(title: str, x_name: str, y_name: str, lines: Lines) -> str:
    """Draw lines: name -> points."""
    points = [point for line in lines.values() for point in line]
    ys = _decades([y for _, y in points])
    marks, share = _across([x for x, _ in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = share(x) * (WIDTH - LEFT - RIGHT)
        up = (math.log10(y) - ys[0]) / (ys[1] - ys[0]) * (HEIGHT - TOP - BOTTOM)
        return LEFT + across, HEIGHT - BOTTOM - up

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 20, title, "middle", size=14),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name, "middle"),
        _text(LEFT, TOP - 8, y_name, "middle"),
    ]
    for mark in marks:
        x, _ = place(mark, 10 ** ys[0])
        parts.append(_rule(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 16, _short(mark), "middle"))
    for power in range(ys[0], ys[1] + 1):
        _, y = place(marks[0], 10**power)
        parts.append(_rule(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 6, y + 4, _short(10**power), "end"))
    for name, line in lines.items():
        colour = COLOURS.get(name, "#336")
        spots = [place(x, y) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        parts.append(_text(spots[-1][0] + 8, spots[-1][1] + 4, name, "start", colour=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _across(values: list[float]) -> tuple[list[float], Callable[[float], float]]:
    """Choose the marks of the axis, and how far along it a value stands, from 0 to 1."""
    if min(values) <= 0:
        marks = sorted(set(values))
        return marks, lambda x: x / marks[-1]
    low, high = _decades(values)
    decades: list[float] = [10**power for power in range(low, high + 1)]
    return decades, lambda x: (math.log10(x) - low) / (high - low)


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(
    x: float, y: float, text: str, anchor: str, *, size: int = 12, colour: str = "#222"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{colour}">{escape(text)}</text>'
    )
