"""Users whom an authenticating proxy names in a header. Only listed addresses may name users."""

from __future__ import annotations

import secrets
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address

from headrace.config.auth import HEADER_SOURCE, HeaderSettings
from headrace.control.identity.credentials import Identity, ProxyUser, is_printable
from headrace.errors import InvalidSetting, Unauthorized
from headrace.files.private_files import read_secret

_MIN_SECRET = 32
_MAX_NAME = 200


class HeaderMethod:
    """Checks the names that proxies send."""

    def __init__(self, settings: HeaderSettings) -> None:
        """Read the secret. Raise InvalidSetting if it is missing, short, or open to others."""
        self._settings = settings
        self._secret = read_secret(settings.secret_file).encode()
        if len(self._secret) < _MIN_SECRET:
            raise InvalidSetting(
                f"The secret in {settings.secret_file} has less than {_MIN_SECRET} characters.",
                hint=f"openssl rand -hex 32 > {settings.secret_file}",
            )

    def identify(self, user: ProxyUser) -> Identity:
        """Return the user whom a proxy names.

        The name in lower case identifies the user: proxies do not agree on the case.

        Raises:
            Unauthorized: The address is not that of a proxy, the secret is wrong, or the name or a
                group is not allowed.
        """
        if not self._is_proxy(user.address):
            raise Unauthorized(f"No proxy of this node has the address {user.address}.")
        # A text of a header can have characters that UTF-8 does not have.
        sent = (user.secret or "").encode("utf-8", "surrogatepass")
        if not secrets.compare_digest(sent, self._secret):
            raise Unauthorized(
                f"The proxy did not send the secret in {self._settings.secret_header}."
            )
        _check_name(user.name, self._settings.user_header)
        groups = frozenset(filter(None, (each.strip() for each in (user.groups or "").split(","))))
        if len(groups) > self._settings.max_groups:
            raise Unauthorized(
                f"The proxy names {len(groups)} groups, and a node accepts"
                f" {self._settings.max_groups}."
            )
        for group in groups:
            _check_name(group, self._settings.groups_header or "")
        name = user.name.lower()
        return Identity(HEADER_SOURCE, name, name, groups)

    def _is_proxy(self, text: str) -> bool:
        try:
            address: IPv4Address | IPv6Address = ip_address(text)
        except ValueError:  # a socket of the system has no address
            return False
        # A socket of both versions shows an address of version 4 as one of version 6.
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._settings.addresses)


def _check_name(name: str, header: str) -> None:
    """Raise Unauthorized for a name that could be taken for another one, or for two."""
    is_allowed = (
        0 < len(name) <= _MAX_NAME
        and is_printable(name)
        and name == unicodedata.normalize("NFKC", name).strip()
        # Servers join two headers of one name by a comma.
        and "," not in name
    )
    if not is_allowed:
        raise Unauthorized(
            f"{header} has a name that is empty, longer than {_MAX_NAME} characters, or has"
            " characters that can be taken for others."
        )
