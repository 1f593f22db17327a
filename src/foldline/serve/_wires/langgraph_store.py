"""LangGraph's store: values by namespace and key, which the served apps share. Each key has its own namespaces."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from foldline._items.base import BaseStore, Item, SearchItem, label_problem
from foldline.exceptions import UsageError
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wire_server import JsonResponse, WireCall
from foldline.serve.errors import ServeError

__all__ = ["delete_item", "list_namespaces", "put_item", "search_items", "show_item"]

MOST_LABELS: Final = 32
MOST_ITEMS: Final = 1_000
LONGEST_TTL: Final = 60 * 24 * 366 * 100
"""Minutes."""
Namespace = tuple[str, ...]


def _store(call: WireCall) -> BaseStore:
    store = call.server.store
    if store is None:
        raise ServeError("not_found", "this server has no store: create_app(…, store=…)")
    return store


def _own(call: WireCall, labels: list[Any], field: Body, name: str) -> Namespace:
    """Return the namespace of a caller in the store."""
    _check_labels(labels, field, name)
    return (call.caller.owner, *labels) if call.caller.owner else tuple(labels)


def _check_labels(labels: list[Any], field: Body, name: str) -> None:
    if len(labels) > MOST_LABELS or any(label_problem(label) is not None for label in labels):
        raise field.refuse(
            name,
            f"must be at most {MOST_LABELS} texts without periods and control characters, none of them empty",
        )


def _theirs(call: WireCall, namespace: Namespace) -> list[str]:
    """Return a namespace of the store as the caller knows it."""
    return list(namespace[1:] if call.caller.owner else namespace)


def _item_json(call: WireCall, item: Item) -> JsonObject:
    data: JsonObject = {**item.dict(), "namespace": _theirs(call, item.namespace)}
    if isinstance(item, SearchItem):
        data["score"] = item.score
    return data


def _place(call: WireCall, body: Body) -> tuple[Namespace, str]:
    labels = body.items("namespace", most=MOST_LABELS, least=1)
    key = body.name("key")
    if key is None:
        raise body.refuse("key", "is needed")
    return _own(call, labels, body, "namespace"), key


async def put_item(call: WireCall) -> Response:
    """Store a value."""
    store, body = _store(call), await call.body()
    namespace, key = _place(call, body)
    if not isinstance(body.get("value"), dict):
        raise body.refuse("value", "must be a JSON object")
    index: Any = body.get("index")
    if index is not None and index is not False:
        index = body.items("index", most=100)
        if not all(isinstance(path, str) for path in index):
            raise body.refuse("index", "must be false or a list of paths")
    ttl = body.number("ttl", 0, LONGEST_TTL)
    try:
        await store.aput(
            namespace, key, body.mapping("value"), index, ttl=... if ttl is None else ttl
        )
    except UsageError as error:
        raise body.refuse("value", f"cannot be stored: {str(error)[:200]}") from error
    return Response(status_code=204)


async def show_item(call: WireCall) -> Response:
    """Show a value; null if there is none."""
    query = call.request.query_params
    labels = [label for label in query.get("namespace", "").split(".") if label]
    refresh = query.get("refresh_ttl")
    body = Body({"namespace": labels, "key": query.get("key")})
    namespace, key = _place(call, body)
    item = await _store(call).aget(
        namespace, key, refresh_ttl=None if refresh is None else refresh.lower() == "true"
    )
    return JsonResponse(None if item is None else _item_json(call, item))


async def delete_item(call: WireCall) -> Response:
    """Delete a value."""
    store = _store(call)
    namespace, key = _place(call, await call.body())
    await store.adelete(namespace, key)
    return Response(status_code=204)


async def search_items(call: WireCall) -> Response:
    """Find values under a namespace, by their fields or by similarity."""
    store, body = _store(call), await call.body(may_be_empty=True)
    prefix = _own(call, body.items("namespace_prefix", most=MOST_LABELS), body, "namespace_prefix")
    limit = body.integer("limit", 0, MOST_ITEMS)
    try:
        items = await store.asearch(
            prefix,
            query=body.maybe_text("query"),
            filter=body.mapping("filter") or None,
            limit=10 if limit is None else limit,
            offset=body.integer("offset", 0, 10**9) or 0,
            refresh_ttl=None if body.get("refresh_ttl") is None else body.flag("refresh_ttl"),
        )
    except UsageError as error:
        raise body.refuse("filter", f"cannot be used: {str(error)[:200]}") from error
    return JsonResponse({"items": [_item_json(call, item) for item in items]})


async def list_namespaces(call: WireCall) -> Response:
    """List the namespaces that have values."""
    store, body = _store(call), await call.body(may_be_empty=True)
    prefix = _own(call, body.items("prefix", most=MOST_LABELS), body, "prefix")
    suffix = body.items("suffix", most=MOST_LABELS)
    _check_labels(suffix, body, "suffix")
    depth = body.integer("max_depth", 1, MOST_LABELS)
    limit = body.integer("limit", 0, MOST_ITEMS)
    namespaces = await store.alist_namespaces(
        prefix=prefix or None,
        suffix=tuple(suffix) or None,
        max_depth=None if depth is None else depth + bool(call.caller.owner),
        limit=100 if limit is None else limit,
        offset=body.integer("offset", 0, 10**9) or 0,
    )
    return JsonResponse({"namespaces": [_theirs(call, namespace) for namespace in namespaces]})
