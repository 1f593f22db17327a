"""`Progress`: what is displayed where, and that an error of the display never stops the work."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from foldline.exceptions import UsageError
from foldline.utils.progress import Progress, show_progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_function_is_told_of_every_step():
    steps = []

    with Progress(3, "x", show=lambda done, total: steps.append((done, total))) as progress:
        progress.advance()
        progress.advance(2)

    assert steps == [(0, 3), (1, 3), (3, 3)]


def test_lines_come_now_and_then_and_at_the_end():
    stream, clock = io.StringIO(), Clock()

    with Progress(4, "indexing", stream=stream, clock=clock) as progress:
        for _ in range(4):
            clock.now += 1.5
            progress.advance()

    assert stream.getvalue().splitlines() == [
        "indexing: 2/4 (50%), 3 s",
        "indexing: 4/4 (100%), 6 s",
    ]


def test_work_that_is_over_at_once_shows_nothing():
    stream = io.StringIO()

    with Progress(2, "x", stream=stream, clock=Clock()) as progress:
        progress.advance(2)

    assert stream.getvalue() == ""


def test_work_of_unknown_length_and_bytes():
    stream, clock = io.StringIO(), Clock()

    with Progress(None, "", stream=stream, clock=clock, is_bytes=True) as progress:
        clock.now = 5
        progress.advance(1_500_000)
        progress.update(2_000_000, 4_000_000)

    assert stream.getvalue().splitlines() == [
        "working: 1.5 MB, 5 s",
        "working: 2.0 MB/4.0 MB (50%), 5 s",
    ]


def test_a_terminal_gets_a_bar():
    screen = Screen()

    with Progress(2, "loading [1]", stream=screen) as progress:
        progress.advance(2)

    assert "loading [1]" in screen.getvalue()
    assert "2/2" in screen.getvalue()


def test_a_terminal_without_rich_gets_lines(monkeypatch):
    monkeypatch.setattr("foldline.utils.progress.find_spec", lambda name: None)
    screen, clock = Screen(), Clock()

    with Progress(1, "x", stream=screen, clock=clock) as progress:
        clock.now = 9
        progress.advance()

    assert screen.getvalue() == "x: 1/1 (100%), 9 s\n"


def test_a_notebook_gets_a_widget(monkeypatch):
    displayed_widgets = []
    bar = SimpleNamespace(value=0, max=1, bar_style="")
    ipython, display, widgets = (
        ModuleType("IPython"),
        ModuleType("IPython.display"),
        ModuleType("ipywidgets"),
    )
    ipython.get_ipython = lambda: type("ZMQInteractiveShell", (), {})()  # type: ignore[attr-defined]
    display.display = displayed_widgets.append  # type: ignore[attr-defined]
    widgets.IntProgress = lambda **options: bar  # type: ignore[attr-defined]
    widgets.Label = lambda text: SimpleNamespace(value=text)  # type: ignore[attr-defined]
    widgets.HBox = list  # type: ignore[attr-defined]
    for module in (ipython, display, widgets):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("foldline.utils.progress.find_spec", lambda name: object())

    with Progress(2, "x") as progress:
        progress.advance(2)

    assert (bar.max, bar.value, bar.bar_style) == (2, 2, "success")
    assert len(displayed_widgets) == 1


def test_a_stream_that_goes_away_does_not_fail_the_work():
    stream, clock = io.StringIO(), Clock()

    with Progress(2, "x", stream=stream, clock=clock) as progress:
        stream.close()
        clock.now = 9
        progress.advance()
        progress.advance()

    assert progress.done == 2


def test_what_is_no_way_to_show_is_refused():
    with pytest.raises(UsageError, match="progress is True, False or a function of"):
        show_progress("yes", 1, "x")  # type: ignore[arg-type]
    for nothing in (False, None):
        with show_progress(nothing, 1, "x") as progress:
            progress.advance()
        assert progress.done == 1
