"""TLS of the server: the certificate of the node, which is loaded again when its files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from headrace.client.tls import ClientTls, describe_tls_error, load_pair, read_authorities
from headrace.config.sections import TlsSettings
from headrace.errors import InvalidSetting

_LOG = logging.getLogger("headrace.tls")
CHECK_SECONDS = 1.0
"""Time between two checks whether the files have changed."""
_Version = tuple[int, int, int] | None


class ServerTls:
    """The certificate of a node, its key, and the CAs of its clients.

    A certificate is used only if drivers and commands will accept it. Otherwise the last
    certificate stays in use, and `problem` says why.
    """

    def __init__(self, settings: TlsSettings, address: str) -> None:
        """Load the files.

        Args:
            address: URL at which drivers, commands and other nodes reach the node.

        Raises InvalidSetting if the certificate cannot be used.
        """
        self._settings = settings
        self._host = urlsplit(address).hostname or ""
        self.problem: str | None = None
        """Why the files that are there now are not in use; None if they are."""
        self._seen = self._loaded = self._read_versions()
        self.context = self._current = self._load()
        """Context of the server. Its handshakes use the files that were loaded last."""
        # OpenSSL calls it for every handshake, also for one without a name.
        self.context.sni_callback = self._choose

    def check(self) -> None:
        """Load the files again if they have changed since they were loaded.

        They must be the same as in the last check: a program that replaces them may not be ready.
        A certificate that is not valid yet is tried again.
        """
        versions = self._read_versions()
        is_complete, self._seen = versions == self._seen, versions
        if not is_complete or (versions == self._loaded and self.problem is None):
            return
        self._loaded = versions
        try:
            self._current = self._load()
        except InvalidSetting as error:
            if self.problem != error.message:
                _LOG.error("the last certificate stays in use: %s", error.message)
            self.problem = error.message
        else:
            self.problem = None
            _LOG.info("the certificate in %s is in use", self._settings.cert)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        connection.context = self._current

    def _read_versions(self) -> list[_Version]:
        settings = self._settings
        files = (settings.cert, settings.key, settings.client_ca, settings.ca)
        return [_read_version(file) for file in files if file is not None]

    def _load(self) -> ssl.SSLContext:
        """Return a context with the files as they are. Raises InvalidSetting."""
        settings = self._settings
        assert settings.cert is not None
        assert settings.key is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_pair(context, {"tls.cert": settings.cert, "tls.key": settings.key})
        if settings.client_ca is not None:
            authorities = read_authorities("tls.client_ca", settings.client_ca)
            context.load_verify_locations(cadata=authorities)
            # Drivers have no certificate: `Authentication` checks who needs one.
            context.verify_mode = ssl.CERT_OPTIONAL
        # A resumed connection would keep a client certificate whose CA is no longer trusted.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        self._check_acceptance(context)
        return context

    def _check_acceptance(self, server: ssl.SSLContext) -> None:
        """Raise InvalidSetting unless a client of the node would accept the certificate."""
        client = ClientTls(self._settings.ca).make_context()
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = [
            client.wrap_bio(to_client, to_server, server_hostname=self._host),
            server.wrap_bio(to_server, to_client, server_side=True),
        ]
        try:
            # The client needs two calls, and a third one if the two do not share their first key.
            for side in sides * 3:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        except ssl.SSLError as error:
            raise InvalidSetting(
                f"tls.cert: clients of https://{self._host} would not accept the certificate in"
                f" {self._settings.cert}: {describe_tls_error(error)}.",
                hint="name a host of the certificate in http.advertise, and the file of its CA in"
                " tls.ca unless the CA is one of the system's",
            ) from error


def _read_version(file: Path) -> _Version:
    """Return what changes with the content or the permissions of a file; None without a file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns
