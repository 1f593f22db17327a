"""For notebooks: `show` displays a list of messages, a dict of tokens, the result of an agent.

Messages, documents, runs, agents, streams and graphs display themselves (`_repr_html_`, `_repr_svg_`); a plain list or
dict cannot. `%load_ext foldline.notebook` makes a notebook display lists and dicts of them too.
"""

from __future__ import annotations

from typing import Any

from foldline._display.parts import Value
from foldline._display.show import NotebookView, html_of

__all__ = ["load_ipython_extension", "show", "unload_ipython_extension"]


def __dir__() -> list[str]:
    return sorted(__all__)


def show(value: Value) -> NotebookView:
    """Return a view of a value for notebooks: messages, documents, tool calls, tokens, runs, an agent's result.

    ```python
    from foldline.messages import AIMessage, HumanMessage
    from foldline.notebook import show

    view = show([HumanMessage("Hi"), AIMessage("**Hello**")])
    print("<strong>Hello</strong>" in view._repr_html_())
    #> True
    ```
    """
    return NotebookView(value)


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401  IPython's
    """Register a display of lists, tuples and dicts of foldline's objects (`%load_ext foldline.notebook`)."""
    formatter = shell.display_formatter.formatters["text/html"]
    for kind in (list, tuple, dict):
        formatter.for_type(kind, html_of)


def unload_ipython_extension(shell: Any) -> None:  # noqa: ANN401  IPython's
    """Undo `load_ipython_extension` (`%unload_ext foldline.notebook`)."""
    formatter = shell.display_formatter.formatters["text/html"]
    for kind in (list, tuple, dict):
        formatter.pop(kind, None)
