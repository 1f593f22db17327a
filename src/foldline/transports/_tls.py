"""The TLS context of a transport with Python's `ssl`: created once, shared by all connections."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

from foldline.exceptions import UsageError
from foldline.transports._proxy_environment import certificate_paths
from foldline.transports.base import HttpOptions

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Paths of the system's certificates, if OpenSSL was built with another path."""


class Tls:
    """The TLS context of one transport: created on first use, outside the event loop."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self.lock = threading.Lock()
        self._ssl_context: ssl.SSLContext | None = None

    def get(self) -> ssl.SSLContext:
        """Return the context."""
        if self._ssl_context is None:
            with self.lock:
                if self._ssl_context is None:
                    self._ssl_context = tls_context(self._options)
        return self._ssl_context

    async def aget(self) -> ssl.SSLContext:
        """Return the context; certificates are read in a thread, to not block the loop."""
        context = self._ssl_context
        return context if context is not None else await asyncio.to_thread(self.get)

    def after_fork(self) -> None:
        """Replace a lock that another thread of the parent may have held."""
        self.lock = threading.Lock()


def tls_context(options: HttpOptions) -> ssl.SSLContext:
    """Return a context that trusts the system's certificates and those of the options."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2", "http/1.1"] if options.http2 else ["http/1.1"])
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    file, folder = certificate_paths() if options.trust_env else (None, None)
    _load_system(context, file, folder)
    _load_configured(context, options)
    return context


def _load_system(context: ssl.SSLContext, file: str | None, folder: str | None) -> None:
    """Load the system's certificates; a file or folder replaces the system's file or folder, as in OpenSSL."""
    # `load_default_certs` would always use SSL_CERT_FILE; these two paths are those compiled in.
    paths = ssl.get_default_verify_paths()
    files = (
        [file]
        if file
        else [path for path in (paths.openssl_cafile, *BUNDLES) if Path(path).is_file()]
    )
    if folder is None and Path(paths.openssl_capath).is_dir():
        folder = paths.openssl_capath
    if files:
        try:
            context.load_verify_locations(files[0], folder)
        except ssl.SSLError as error:
            raise UsageError(f"{files[0]!r} (SSL_CERT_FILE) holds no PEM certificate") from error
    else:
        context.load_default_certs()  # on Windows they are in a store, not in a file


def _load_configured(context: ssl.SSLContext, options: HttpOptions) -> None:
    try:
        if (pem := options.ca_pem()) is not None:
            context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise UsageError("HttpOptions(ca=...) holds no PEM certificate") from error
    if options.client_certificate is not None:
        try:
            context.load_cert_chain(options.client_certificate)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"HttpOptions(client_certificate=...): {error}") from error
