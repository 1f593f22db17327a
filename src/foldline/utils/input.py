"""Colors for text on a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

__all__ = ["get_bolded_text", "get_color_mapping", "get_colored_text", "print_text"]

COLORS = {"blue": "36;1", "yellow": "33;1", "pink": "38;5;200", "green": "32;1", "red": "31;1"}


def get_color_mapping(items: list[str], excluded_colors: list[str] | None = None) -> dict[str, str]:
    """Return a color for each item, in turn."""
    colors = [color for color in COLORS if color not in (excluded_colors or ())]
    if not colors:
        raise ValueError(f"no colors left: there are {', '.join(COLORS)}, and all are excluded")
    return {item: colors[number % len(colors)] for number, item in enumerate(items)}


def get_colored_text(text: str, color: str) -> str:
    """Wrap text in the codes of a color."""
    return f"\033[{COLORS[color]}m\033[1;3m{text}\033[0m"


def get_bolded_text(text: str) -> str:
    """Wrap text in the codes for bold."""
    return f"\033[1m{text}\033[0m"


def print_text(
    text: str, color: str | None = None, end: str = "", file: TextIO | None = None
) -> None:
    """Write text, optionally in a color, and flush a file."""
    target = file or sys.stdout
    target.write((get_colored_text(text, color) if color else text) + end)
    if file is not None:
        file.flush()
