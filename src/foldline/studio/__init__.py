"""The studio: a web page over traces, a playground, threads and datasets (extra `studio`).

`foldline studio` opens it. `create_app(...)` is an ASGI app, served alone or mounted into another one.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.studio.app import create_app as create_app
    from foldline.studio.settings import StudioSettings as StudioSettings
