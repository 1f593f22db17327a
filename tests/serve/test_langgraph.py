"""LangGraph's two surfaces with the unmodified `langgraph-sdk`: runs over REST, and the thread protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError

from foldline.graph.store import InMemoryStore
from foldline.runnables import RunnableLambda
from foldline.serve import create_app
from tests.serve.conftest import KeyedServer
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess
from tests.serve.served import SECRET


def question(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.fixture
def client(server: ServeProcess) -> Iterator[Any]:
    with get_sync_client(url=server.url, api_key=None) as client:
        yield client


@pytest.mark.slow
def test_a_thread_is_made_run_on_and_looked_at(client: Any) -> None:
    thread = client.threads.create(metadata={"who": "me"})
    id = thread["thread_id"]
    parts = list(
        client.runs.stream(id, "agent", input=question("parallel tools"), stream_mode="values")
    )
    assert parts[0].event == "metadata"
    assert parts[-1].data["messages"][-1]["content"].startswith("The tools said")
    second_state = client.runs.wait(id, "agent", input=question("remember this"))
    assert second_state["messages"][-1]["content"] == "parallel tools | remember this"
    state = client.threads.get_state(id)
    assert len(state["values"]["messages"]) == len(second_state["messages"])
    assert state["next"] == []
    assert len(client.threads.get_history(id, limit=3)) == 3
    assert {run["status"] for run in client.runs.list(id)} == {"success"}
    assert [thread["thread_id"] for thread in client.threads.search(metadata={"who": "me"})] == [id]
    client.threads.delete(id)
    with pytest.raises(NotFoundError):
        client.threads.get(id)


def test_updates_and_messages_come_as_they_happen(client: Any) -> None:
    modes = ["updates", "messages-tuple", "messages"]
    parts = list(
        client.runs.stream(None, "agent", input=question("parallel tools"), stream_mode=modes)
    )
    nodes = [next(iter(part.data)) for part in parts if part.event == "updates"]
    assert nodes[0] == "model"
    assert "tools" in nodes
    pieces = [part.data[0] for part in parts if part.event == "messages"]
    text = "".join(piece["content"] for piece in pieces if isinstance(piece["content"], str))
    assert "The tools said" in text
    messages = [part.data[0] for part in parts if part.event == "messages/complete"]
    assert len(messages[0]["tool_calls"]) == 2
    assert messages[0]["usage_metadata"]["total_tokens"] == 18


def test_a_graph_streams_its_models_words(client: Any) -> None:
    parts = list(
        client.runs.stream(None, "graph", input=question("hi"), stream_mode="messages-tuple")
    )
    pieces = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert "".join(pieces).startswith("Hello there, my friend.")


def picture() -> dict[str, Any]:
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "picture"}, image]}]}


def test_reasoning_and_a_picture_in_runs(client: Any) -> None:
    parts = list(
        client.runs.stream(None, "agent", input=question("reason"), stream_mode="messages")
    )
    message = next(part.data[0] for part in parts if part.event == "messages/complete")
    thoughts = [block["reasoning"] for block in message["content"] if block["type"] == "reasoning"]
    assert thoughts == ["First I think. Then I know."]
    state = client.runs.wait(None, "agent", input=picture())
    assert state["messages"][-1]["content"] == "I see image:image/png."


def test_an_agent_asks_and_is_answered(client: Any) -> None:
    id = client.threads.create()["thread_id"]
    first = list(client.runs.stream(id, "agent", input=question("delete"), stream_mode="updates"))
    interrupt = first[-1].data["__interrupt__"][0]
    assert len(interrupt["value"]["action_requests"]) == 2
    assert client.threads.get(id)["status"] == "interrupted"
    answer = {"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]}
    state = client.runs.wait(id, "agent", command={"resume": answer})
    assert state["messages"][-1]["content"] == "The tools said no, /tmp/a is gone."


def test_errors_reach_the_client(client: Any) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        client.runs.wait(None, "nobody", input=question("hi"))
    # This client does not raise in a stream: it hands on the event.
    parts = list(client.runs.stream(None, "agent", input=question("break")))
    assert parts[-1].event == "error"
    assert "ModelError" in parts[-1].data["message"]
    assert SECRET not in str(parts)
    with pytest.raises(Exception, match="too many requests"):
        client.runs.wait(None, "agent", input=question("rate limit"))
    id = client.threads.create(thread_id=str(uuid4()))["thread_id"]
    with pytest.raises(ConflictError):
        client.threads.create(thread_id=id)


def test_a_run_is_cancelled_and_joined(server: ServeProcess, client: Any) -> None:
    id = client.threads.create()["thread_id"]
    run = client.runs.create(id, "agent", input=question("slow graph-cancel"))
    server.wait_for_mark("begin-graph-cancel")
    client.runs.cancel(id, run["run_id"], wait=True)
    server.wait_for_mark("cut-graph-cancel")
    assert client.runs.get(id, run["run_id"])["status"] == "error"
    second = client.runs.create(id, "agent", input=question("hi"))
    parts = list(client.runs.join_stream(id, second["run_id"], stream_mode="values"))
    assert parts[-1].data["messages"][-1]["content"] == "Hello there, my friend."
    state = client.runs.join(id, second["run_id"])
    assert state["messages"][-1]["content"] == "Hello there, my friend."


def test_state_is_changed(client: Any) -> None:
    id = client.threads.create()["thread_id"]
    client.runs.wait(id, "agent", input=question("hi"))
    client.threads.update_state(id, question("by the way"))
    assert client.threads.get_state(id)["values"]["messages"][-1]["content"] == "by the way"


def test_assistants_are_the_apps(client: Any) -> None:
    names = {assistant["assistant_id"] for assistant in client.assistants.search()}
    assert {"agent", "graph", "chat", "chain"} <= names
    assert client.assistants.get("agent")["graph_id"] == "agent"
    assert {node["id"] for node in client.assistants.get_graph("agent")["nodes"]} >= {"model"}


# -- the thread protocol


def in_loop(body: Callable[[Any], Awaitable[Any]], server: ServeProcess) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(30):
            async with get_client(url=server.url, api_key=None) as client:
                return await body(client)

    return asyncio.run(main())


def test_a_thread_streams_messages_tools_and_output(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("parallel tools"))
            messages = [message async for message in thread.messages]
            texts = [await message.text for message in messages]
            output = await thread.output
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("parallel tools"))
            calls = [call async for call in thread.tool_calls]
            tools = [(call.input, await call.output) for call in calls]
        return texts, tools, output

    texts, tools, output = in_loop(body, server)
    assert texts == ["Looking. ", "The tools said Oslo is sunny, Rome is sunny."]
    assert [tool_input for tool_input, _ in tools] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert [tool_output for _, tool_output in tools] == ["Oslo is sunny", "Rome is sunny"]
    assert output["messages"][-1]["content"].startswith("The tools said")


def test_a_thread_is_answered_by_input_respond(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("delete"))
            async for _ in thread.values:
                pass
            while not thread.interrupted:
                await asyncio.sleep(0.02)
            interrupt = thread.interrupts[0]
            answer = {"decisions": [{"type": "approve"}, {"type": "approve"}]}
            await thread.run.respond(answer)
            return interrupt, await thread.output

    interrupt, output = in_loop(body, server)
    assert len(interrupt["value"]["action_requests"]) == 2
    assert output["messages"][-1]["content"] == "The tools said /tmp/a is gone, /tmp/b is gone."


def test_reasoning_a_picture_and_usage_in_a_thread(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("reason"))
            messages = [message async for message in thread.messages]
            reasoning = await messages[0].reasoning
            usage = (await messages[0]).usage_metadata
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=picture())
            output = await thread.output
        return reasoning, usage, output

    reasoning, usage, output = in_loop(body, server)
    assert reasoning == "First I think. Then I know."
    assert usage["total_tokens"] == 18
    assert output["messages"][-1]["content"] == "I see image:image/png."


def test_a_limited_run_of_a_thread_raises(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("rate limit"))
            return await thread.output

    with pytest.raises(RuntimeError, match="too many requests"):
        in_loop(body, server)


def test_a_threads_run_is_stopped_by_a_command(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("slow thread-stop"))
            await asyncio.to_thread(server.wait_for_mark, "begin-thread-stop")
            path = f"{server.url}/threads/{thread.thread_id}/commands"
            command = {"id": 9, "method": "run.cancel", "params": {}}
            async with httpx.AsyncClient() as session:
                (await session.post(path, json=command)).raise_for_status()
            return await thread.output

    with pytest.raises(RuntimeError, match="stopped"):
        in_loop(body, server)
    server.wait_for_mark("cut-thread-stop")


def test_a_broken_run_raises(server: ServeProcess) -> None:
    async def body(client: Any) -> Any:
        async with client.threads.stream(assistant_id="agent") as thread:
            await thread.run.start(input=question("break"))
            return await thread.output

    with pytest.raises(RuntimeError, match="ModelError"):
        in_loop(body, server)


def test_a_thread_is_followed_from_a_number_on(server: ServeProcess) -> None:
    import json

    id = str(uuid4())
    start_response = httpx.post(
        f"{server.url}/threads/{id}/commands",
        json={
            "id": 1,
            "method": "run.start",
            "params": {"assistant_id": "agent", "input": question("hi")},
        },
    ).json()
    assert start_response["meta"]["applied_through_seq"] == 0

    def read(since: int) -> list[Any]:
        body = {"channels": ["lifecycle", "messages", "values"], "since": since}
        events: list[Any] = []
        url = f"{server.url}/threads/{id}/stream/events"
        with httpx.stream("POST", url, json=body, timeout=20) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    events.append(json.loads(line[5:]))
                    data = events[-1]["params"]["data"]
                    if events[-1]["method"] == "lifecycle" and data["event"] == "completed":
                        break
        return events

    events = read(0)
    numbers = [item["seq"] for item in events]
    assert numbers == sorted(set(numbers))
    assert len({item["event_id"] for item in events}) == len(events)
    assert [item["seq"] for item in read(numbers[3])] == numbers[4:]


def test_S50_join_stream_without_modes_gives_all_of_them(client: Any) -> None:
    id = client.threads.create()["thread_id"]
    run = client.runs.create(id, "graph", input=question("hi"))
    client.runs.join(id, run["run_id"])

    parts = list(client.runs.join_stream(id, run["run_id"]))

    names = {part.event for part in parts}
    assert {"metadata", "values", "updates", "messages/partial", "messages", "events"} <= names
    assert [part.data["messages"][-1]["content"] for part in parts if part.event == "values"][
        -1
    ] == "Signed."


def test_S50_a_client_that_leaves_a_joined_stream_cancels_if_it_says_so(
    server: ServeProcess, client: Any
) -> None:
    id = client.threads.create()["thread_id"]
    run = client.runs.create(id, "agent", input=question("slow join-leave"))
    server.wait_for_mark("begin-join-leave")
    stream = client.runs.join_stream(id, run["run_id"], cancel_on_disconnect=True)
    next(stream)
    stream.close()
    server.wait_for_mark("cut-join-leave")


def test_S50_items_of_the_store_are_written_found_and_deleted(client: Any) -> None:
    store, place = client.store, ["users", uuid4().hex]
    store.put_item(place, "a", {"likes": "pears", "age": 3})
    store.put_item(place, "b", {"likes": "plums", "age": 5}, index=False, ttl=5)

    item = store.get_item(place, "a")
    assert (item["namespace"], item["key"], item["value"]) == (
        place,
        "a",
        {"likes": "pears", "age": 3},
    )
    assert item["created_at"] <= item["updated_at"]
    found = store.search_items(place, filter={"age": {"$gt": 3}})["items"]
    assert [(item["key"], item["value"]["likes"]) for item in found] == [("b", "plums")]
    assert len(store.search_items(place, limit=1)["items"]) == 1
    assert place in store.list_namespaces(prefix=["users"])["namespaces"]
    assert store.list_namespaces(prefix=["users"], max_depth=1)["namespaces"] == [["users"]]
    store.delete_item(place, "a")
    assert store.get_item(place, "a") is None


@pytest.mark.parametrize("label", ["", "a.b", "\x00", "a\x1fb", 7, None, ["a"]])
def test_S50_a_label_that_no_namespace_may_have_is_refused_wherever_it_is_sent(
    server: ServeProcess, label: Any
) -> None:
    place = {"namespace": [label], "key": "k"}
    requests = [
        ("PUT", "/store/items", {**place, "value": {}}),
        ("DELETE", "/store/items", place),
        ("POST", "/store/items/search", {"namespace_prefix": [label]}),
        ("POST", "/store/namespaces", {"prefix": [label]}),
        ("POST", "/store/namespaces", {"suffix": [label]}),
    ]
    for method, path, body in requests:
        answer = httpx.request(method, server.url + path, json=body)
        assert (answer.status_code, "control characters" in answer.text) == (400, True), path


def test_S50_each_key_has_namespaces_of_its_own(keyed: KeyedServer) -> None:
    place = ["notes", uuid4().hex]
    with (
        get_sync_client(url=keyed.url, api_key=keyed.first) as first,
        get_sync_client(url=keyed.url, api_key=keyed.second) as second,
    ):
        first.store.put_item(place, "a", {"text": "mine"})

        assert first.store.get_item(place, "a")["namespace"] == place
        assert second.store.get_item(place, "a") is None
        assert second.store.search_items(["notes"])["items"] == []
        assert second.store.list_namespaces()["namespaces"] == []
        assert place in first.store.list_namespaces(prefix=["notes"], max_depth=2)["namespaces"]
        second.store.delete_item(place, "a")
        assert first.store.get_item(place, "a")["value"] == {"text": "mine"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/store/items", {"namespace": ["a.b"], "key": "k", "value": {}}),
        ("PUT", "/store/items", {"namespace": [], "key": "k", "value": {}}),
        ("PUT", "/store/items", {"namespace": [""], "key": "k", "value": {}}),
        ("PUT", "/store/items", {"namespace": ["a"] * 33, "key": "k", "value": {}}),
        ("PUT", "/store/items", {"namespace": ["a"], "key": "k", "value": 5}),
        ("PUT", "/store/items", {"namespace": ["a"], "value": {}}),
        ("PUT", "/store/items", {"namespace": ["a"], "key": "k", "value": {}, "ttl": "long"}),
        ("PUT", "/store/items", {"namespace": ["langgraph"], "key": "k", "value": {}}),
        ("DELETE", "/store/items", {"namespace": "a", "key": "k"}),
        ("POST", "/store/items/search", {"namespace_prefix": ["a"], "limit": 10**6}),
        ("POST", "/store/namespaces", {"max_depth": 0}),
        ("POST", "/store/namespaces", {"suffix": [1]}),
    ],
)
def test_S50_requests_to_the_store_that_do_not_fit_are_errors(
    server: ServeProcess, method: str, path: str, body: Any
) -> None:
    answer = httpx.request(method, f"{server.url}{path}", json=body)
    assert answer.status_code == 400, answer.text


def test_S50_without_a_store_the_endpoints_say_so(tmp_path: Path) -> None:
    app = create_app({"up": RunnableLambda(str)}, log=str(tmp_path / "runs.db"))
    body = {"namespace": ["a"], "key": "k", "value": {}}
    answer = post_in_process(app, "/store/items", body, "PUT")
    assert (answer.status_code, "create_app" in answer.text) == (404, True)
    stored = create_app(
        {"up": RunnableLambda(str)}, log=str(tmp_path / "2.db"), store=InMemoryStore()
    )
    assert post_in_process(stored, "/store/items", body, "PUT").status_code == 204
