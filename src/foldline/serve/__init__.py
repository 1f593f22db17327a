"""`foldline serve`: any model, chain or agent behind HTTP, on the wires that clients already speak.

`create_app` makes the ASGI app; `RemoteRunnable` calls one. Needs the extra `serve` (Starlette and uvicorn).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline.serve.app import ServeApp, create_app
    from foldline.serve.apps import ServedApp
    from foldline.serve.client import RemoteRunnable
    from foldline.serve.errors import PublicError
    from foldline.serve.settings import ServeSettings

__all__ = ["PublicError", "RemoteRunnable", "ServeApp", "ServeSettings", "ServedApp", "create_app"]

__getattr__ = lazy_exports(
    __name__,
    {
        ".app": "ServeApp create_app",
        ".apps": "ServedApp",
        ".client": "RemoteRunnable",
        ".errors": "PublicError",
        ".settings": "ServeSettings",
    },
)
