"""TLS of the server's own process: version 1.2 or newer; certificates are read again on SIGHUP."""

from __future__ import annotations

import inspect
import logging
import signal
import ssl
from collections.abc import Callable
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.serve.settings import ProcessSettings

__all__ = ["tls_options"]

logger = logging.getLogger("foldline.serve")

NEEDS: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def tls_options(settings: ProcessSettings) -> dict[str, Any]:
    """Return the options of uvicorn for TLS; raise `UsageError` if the files cannot be used."""
    if settings.tls_cert is None:
        return {}
    from uvicorn import Config  # noqa: PLC0415  of an extra

    if "ssl_context_factory" not in inspect.signature(Config.__init__).parameters:
        raise UsageError("TLS needs a newer uvicorn: pip install --upgrade uvicorn")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
        if settings.tls_ca is not None:
            context.load_verify_locations(settings.tls_ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"tls_cert, tls_key or tls_ca cannot be used: {error.strerror or error}"
        ) from error
    return {
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
        "ssl_ca_certs": settings.tls_ca,
        "ssl_cert_reqs": NEEDS[settings.tls_client_cert],
        "ssl_context_factory": make_context,
    }


def make_context(
    config: Any,  # noqa: ANN401  uvicorn's, of an extra
    make_default: Callable[[], ssl.SSLContext],
) -> ssl.SSLContext:
    """Return the context of a worker; new connections have the certificate of the last SIGHUP."""
    context = make_default()
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def read_again(*_: object) -> None:
        try:
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile)
        except (OSError, ssl.SSLError) as error:
            logger.error("the new certificate is not used: %s", error)
        else:
            logger.info("the certificate was read again")

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, read_again)
    return context
