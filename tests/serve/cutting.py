"""A proxy that cuts its first connections after some bytes of the answer."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class CuttingProxy:
    """Listens on a port of its own; passes bytes on; cuts."""

    def __init__(self, target: int, *, after: int, cuts: int) -> None:
        self._target, self._after, self._left = target, after, cuts
        self.cut = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._target))
        threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
        count = 0
        with client, server:
            while data := _receive(server):
                client.sendall(data)
                count += len(data)
                if self._left and count > self._after:
                    self._left -= 1
                    self.cut += 1
                    client.shutdown(socket.SHUT_RDWR)  # another thread still waits on it
                    server.shutdown(socket.SHUT_RDWR)
                    return

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := _receive(client):
                server.sendall(data)
        except OSError:
            pass


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except OSError:
        return b""
