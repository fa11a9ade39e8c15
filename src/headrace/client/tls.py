"""The files of TLS: certificates, private keys and CAs in PEM, and what clients do with them."""

from __future__ import annotations

import re
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from headrace.errors import InvalidSetting

_ROOT = 0
_CERTIFICATE = re.compile(
    r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\r\n\t ]+-----END CERTIFICATE-----"
)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files with which a client verifies nodes and identifies itself."""

    ca: Path | None = None
    """CAs of the nodes; None: those of the system."""
    cert: Path | None = None
    """Certificate for nodes that require one."""
    key: Path | None = None

    def make_context(self) -> ssl.SSLContext:
        """Return a context that verifies chains and host names. Raises InvalidSetting."""
        authorities = None if self.ca is None else read_authorities("tls.ca", self.ca)
        context = ssl.create_default_context(cadata=authorities)
        if self.cert is not None and self.key is not None:
            load_pair(context, {"tls.client_cert": self.cert, "tls.client_key": self.key})
        return context


SYSTEM_TRUST = ClientTls()
"""Verify with the CAs of the system, without a certificate of one's own."""


def read_authorities(setting: str, file: Path) -> str:
    """Return the certificates in a file, without other text. Raises InvalidSetting."""
    text = "\n".join(_CERTIFICATE.findall(_read(setting, file)))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSetting(f"{setting}: {file} has no valid certificates in PEM.") from error
    return text


def load_pair(context: ssl.SSLContext, files: dict[str, Path]) -> None:
    """Give a context a certificate and its key.

    Args:
        files: The two files by the names of their settings, the certificate first.

    Raises InvalidSetting if a file cannot be read, if other users can read the key, or if the two
    do not belong together.
    """
    for setting, file in files.items():
        _read(setting, file)
    (_, cert), (key_setting, key) = files.items()
    _refuse_open_key(key_setting, key)

    def refuse_password() -> NoReturn:
        # Without this function, OpenSSL would ask on the terminal.
        raise InvalidSetting(
            f"{key_setting}: the key in {key} has a password.",
            hint="write a key without a password to a file that only its user can read",
        )

    try:
        context.load_cert_chain(cert, key, password=refuse_password)
    except OSError as error:  # ssl.SSLError is one
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise InvalidSetting(
                f"{key_setting}: the key in {key} does not belong to the certificate in {cert}."
            ) from error
        raise InvalidSetting(
            f"{' and '.join(files)}: {cert} and {key} are not a certificate and its key in PEM."
        ) from error


def describe_tls_error(error: ssl.SSLError) -> str:
    """Return the reason why a handshake has failed, as the part of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    return (error.reason or str(error)).replace("_", " ").lower()


def _refuse_open_key(setting: str, key: Path) -> None:
    """Raise InvalidSetting if users besides root and the user of this process can read a key."""
    status = key.stat()
    private = stat.S_IRWXU
    if status.st_uid == _ROOT:
        # As for PostgreSQL: packages give keys to root and a group of servers (Debian: ssl-cert).
        private |= stat.S_IRGRP
    if stat.S_IMODE(status.st_mode) & ~private:
        raise InvalidSetting(
            f"{setting}: other users can read or change the key in {key}.",
            hint=f"chmod 600 {key}; a key of root may have mode 640",
        )


def _read(setting: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidSetting(f"{setting}: {file} cannot be read: {error.strerror}.") from error
