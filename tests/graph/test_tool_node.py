"""`ToolNode`: functions around tool calls, and which errors go to the model."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from foldline.graph import START, Command, MessagesState, StateGraph, ToolNode, interrupt
from foldline.messages import AIMessage, ToolMessage
from foldline.tools import tool
from tests.graph.lines import answer


class Approval(BaseModel):
    ok: bool


@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@tool
def fail(text: str) -> str:
    """Fail."""
    raise KeyError(text) if text == "key" else OSError(text)


def calls(*items):
    tool_calls = [
        {"name": name, "args": args, "id": str(number), "type": "tool_call"}
        for number, (name, args) in enumerate(items)
    ]
    return {"messages": [AIMessage("", tool_calls=tool_calls)]}


def graph(node, saver=None):
    builder = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools")
    return builder.compile(checkpointer=saver)


def texts(state):
    return [message.content for message in state["messages"][1:]]


def around(change):
    """The sync and the async form of a function around tool calls."""

    def wrap(request, handler):
        return change(request, handler(request))

    async def awrap(request, handler):
        return change(request, await handler(request))

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def test_G41_a_function_around_tool_calls_sees_and_changes_them(call):
    seen = []

    def note(request, message):
        seen.append((request.tool_call["name"], request.tool.name, request.runtime.tools))
        return ToolMessage(f"{message.content}!", tool_call_id=message.tool_call_id)

    node = ToolNode([double], **around(note))

    state = call.invoke(graph(node), calls(("double", {"number": 2})))

    assert texts(state) == ["4!"]
    assert seen == [("double", "double", [double])]


def test_G41_a_sync_wrapper_serves_async_runs_too(call):
    def twice(request, handler):
        handler(request)
        changed = {**request.tool_call, "args": {"number": 5}}
        return handler(request.override(tool_call=changed))

    state = call.invoke(
        graph(ToolNode([double], wrap_tool_call=twice)), calls(("double", {"number": 2}))
    )

    assert texts(state) == ["10"]


def test_G41_a_wrapper_may_answer_without_the_tool_and_for_one_that_does_not_exist(call):
    def stand_in(request, handler):
        if request.tool is None:
            return ToolMessage("nobody", tool_call_id=request.tool_call["id"])
        return Command(update={"messages": [ToolMessage("cached", tool_call_id="0")]})

    node = ToolNode([double], wrap_tool_call=stand_in)

    state = call.invoke(graph(node), calls(("double", {"number": 2}), ("lost", {})))

    assert sorted(texts(state)) == ["cached", "nobody"]


def test_G41_an_error_of_a_wrapper_is_handled_like_one_of_the_tool(call):
    def broken(request, handler):
        raise OSError("no wire")

    handled = ToolNode([double], wrap_tool_call=broken, handle_tool_errors="sorry")
    raised = ToolNode([double], wrap_tool_call=broken, handle_tool_errors=False)

    assert texts(call.invoke(graph(handled), calls(("double", {"number": 2})))) == ["Error: sorry"]
    with pytest.raises(OSError, match="no wire"):
        call.invoke(graph(raised), calls(("double", {"number": 2})))


def test_G41_a_handler_of_errors_takes_those_of_its_annotation(call):
    def explain(error: OSError | ValueError) -> str:
        return f"try later: {error}"

    node = ToolNode([fail], handle_tool_errors=explain)

    assert texts(call.invoke(graph(node), calls(("fail", {"text": "down"})))) == [
        "Error: try later: down"
    ]
    with pytest.raises(KeyError):
        call.invoke(graph(node), calls(("fail", {"text": "key"})))


@pytest.mark.parametrize("handler", [True, (ValueError,), "broken"])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_G41_questions_and_their_errors_pass_every_handler(
    call, saver, thread, handler, is_wrapped
):
    @tool
    def ask() -> str:
        """Ask."""
        return f"ok={interrupt('sure?', response_schema=Approval).ok}"

    wraps = around(lambda _, message: message) if is_wrapped else {}
    app = graph(ToolNode([ask], handle_tool_errors=handler, **wraps), saver)
    [question] = call.invoke(app, calls(("ask", {})), thread)["__interrupt__"]

    with pytest.raises(ValidationError):
        call.invoke(app, answer({"ok": "maybe"}), thread)

    assert call.run(app, "get_state", thread).interrupts == (question,)
    assert texts(call.invoke(app, answer({"ok": True}), thread)) == ["ok=True"]


def test_G41_a_call_that_has_its_message_is_not_run(call):
    state = calls(("double", {"number": 2}), ("double", {"number": 3}))
    state["messages"].append(ToolMessage("4", tool_call_id="0"))

    result = call.invoke(graph(ToolNode([double])), state)

    assert [message.content for message in result["messages"][2:]] == ["6"]
