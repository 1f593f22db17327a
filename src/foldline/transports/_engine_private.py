"""What foldline uses of httpcore2 that has no public name: every use stands here, and nowhere else.

The engine offers HTTP/2 and a stream over a socket, and no way to give the first other rules (`_http2.py` says which
are missing), or the second a socket that is connected already. A version of it without one of these names fails in
this file: at its import, or when the first connection speaks HTTP/2.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

import httpcore2
from httpcore2._backends.sync import SyncStream  # the only stream over an existing socket

if TYPE_CHECKING:
    from foldline.transports._http2 import Http2State

__all__ = ["EngineHttp2", "SyncStream"]


class EngineHttp2:
    """The engine's HTTP/2 connection inside one of its connections; blocking, or with methods that are awaited."""

    __slots__ = ("_connection",)

    def __init__(
        self, connection: httpcore2.ConnectionInterface | httpcore2.AsyncConnectionInterface
    ) -> None:
        self._connection: Any = connection._connection  # type: ignore[union-attr]

    def set_state(self, state: Http2State) -> None:
        """Replace the state of the protocol, before anything is sent."""
        self._connection._h2_state = state

    @property
    def has_data(self) -> bool:
        """Whether something has arrived, or the connection has ended."""
        return bool(self._connection._network_stream.get_extra_info("is_readable"))

    @property
    def calls(self) -> Set[int]:
        """The numbers of the calls whose answers are read."""
        numbers: Set[int] = self._connection._events.keys()
        return numbers

    def receive(self, request: httpcore2.Request) -> Any:  # noqa: ANN401  None, or what is awaited
        """Receive what has arrived."""
        return self._connection._receive_events(request)

    def send(self, request: httpcore2.Request) -> Any:  # noqa: ANN401  None, or what is awaited
        """Send what the state has to send."""
        return self._connection._write_outgoing_data(request)
