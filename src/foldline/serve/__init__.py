"""`foldline serve`: any model, chain or agent behind HTTP, on the wires that clients already speak.

`create_app` makes the ASGI app; `RemoteRunnable` calls one. Needs the extra `serve` (Starlette and uvicorn).
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.serve.app import ServeApp as ServeApp, create_app as create_app
    from foldline.serve.apps import ServedApp as ServedApp
    from foldline.serve.client import RemoteRunnable as RemoteRunnable
    from foldline.serve.errors import PublicError as PublicError
    from foldline.serve.settings import ServeSettings as ServeSettings
