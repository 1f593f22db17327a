"""LangGraph's REST API: the routes of assistants, threads, runs and the store, and the errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.serve._json_object import JsonObject
from foldline.serve._wire_server import Server, WireCall
from foldline.serve._wires import (
    langgraph_assistants as assistants,
    langgraph_runs as runs,
    langgraph_store as store,
    langgraph_threads as threads,
)
from foldline.serve.errors import ServeError

__all__ = ["WIRE", "routes"]


class LangGraphErrors:
    """The errors of LangGraph's server."""

    name = "langgraph"
    cancels = False

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        return {
            "detail": error.message,
            "error": error.code or error.kind,
            "message": error.message,
            **error.ids,
        }


WIRE: Final = LangGraphErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""

    def route(path: str, handler: Callable[[WireCall], Awaitable[Response]], method: str) -> Route:
        return Route(path, server.endpoint(WIRE, handler), methods=[method])

    thread, run = "/threads/{thread_id}", "/threads/{thread_id}/runs/{run_id}"
    return [
        route("/info", assistants.info, "GET"),
        route("/assistants/search", assistants.search_assistants, "POST"),
        route("/assistants/{assistant_id}", assistants.show_assistant, "GET"),
        route("/assistants/{assistant_id}/graph", assistants.show_graph, "GET"),
        route("/assistants/{assistant_id}/schemas", assistants.show_schemas, "GET"),
        route("/threads", threads.create_thread, "POST"),
        route("/threads/search", threads.search_threads, "POST"),
        route(thread, threads.show_thread, "GET"),
        route(thread, threads.change_thread, "PATCH"),
        route(thread, threads.delete_thread, "DELETE"),
        route(f"{thread}/state", threads.show_state, "GET"),
        route(f"{thread}/state", threads.update_state, "POST"),
        route(f"{thread}/state/{{checkpoint_id}}", threads.show_state, "GET"),
        route(f"{thread}/history", threads.show_history, "POST"),
        route(f"{thread}/history", threads.show_history, "GET"),
        route(f"{thread}/runs", runs.start_run, "POST"),
        route(f"{thread}/runs", runs.list_runs, "GET"),
        route(f"{thread}/runs/stream", runs.stream_run, "POST"),
        route(f"{thread}/runs/wait", runs.wait_run, "POST"),
        route(run, runs.show_run, "GET"),
        route(run, runs.delete_run, "DELETE"),
        route(f"{run}/cancel", runs.cancel_run, "POST"),
        route(f"{run}/join", runs.join_run, "GET"),
        route(f"{run}/stream", runs.follow_run, "GET"),
        route("/runs/stream", runs.stream_run, "POST"),
        route("/runs/wait", runs.wait_run, "POST"),
        route("/store/items", store.put_item, "PUT"),
        route("/store/items", store.show_item, "GET"),
        route("/store/items", store.delete_item, "DELETE"),
        route("/store/items/search", store.search_items, "POST"),
        route("/store/namespaces", store.list_namespaces, "POST"),
    ]
