"""Credentials as front ends receive them, and identities as the sources of users describe them.

A front end reads credentials from its protocol, and the authenticator checks them. The text and the
`repr` of credentials have no secret.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

_TOKEN_USER = "token"  # noqa: S105 - the name of a user
"""User name with which a client of user and password sends a token as its password."""
TOKEN_PREFIX = "hr_"  # noqa: S105 - the begin of every token
"""Begin of the tokens that nodes create."""
_JWT = re.compile(r"[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}")
WRONG_PASSWORD = "The name or the password is wrong."  # noqa: S105 - a message
"""Message for every refusal of a user and password, whatever the reason is."""
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that no name has, or that cannot be seen in a name."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token of a node, of a program, or of an issuer."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrowserToken:
    """The token of a browser's sign-in, from its cookie. It is valid for pages only."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Password:
    """The name and the password of a user of a directory."""

    name: str
    password: str = field(repr=False)
    address: str
    """Address of the caller, as the node sees it."""


@dataclass(frozen=True, slots=True)
class ProxyUser:
    """A user whom a proxy names."""

    name: str
    groups: str | None
    """Groups, separated by commas; None: the proxy has sent none."""
    secret: str | None = field(repr=False)
    address: str
    """Address of the proxy, as the node sees it."""


Credentials = BearerToken | BrowserToken | Password | ProxyUser


def from_password(name: str, password: str, address: str) -> BearerToken | Password:
    """Return the credentials of a protocol with user and password: HTTP Basic, SASL PLAIN.

    The user `token` sends a token as the password.
    """
    return BearerToken(password) if name == _TOKEN_USER else Password(name, password, address)


def from_any_password(
    name: str, password: str, address: str, *, has_directory: bool
) -> BearerToken | Password:
    """Return the credentials of a protocol whose clients always send a user and a password.

    Whatever the user, the password may be a token: that of the node is one of them if the node has
    no directory.
    """
    is_token = password.startswith(TOKEN_PREFIX) or _JWT.fullmatch(password) is not None
    if is_token or not has_directory:
        return BearerToken(password)
    return from_password(name, password, address)


class Identity(NamedTuple):
    """A user who has signed in, as the source describes the user."""

    source: str
    subject: str
    name: str
    groups: frozenset[str]
    issued_at: float | None = None
    """Unix time of the claims, in seconds; None: unknown."""


def is_printable(text: str) -> bool:
    """Return whether a text has no control characters, and none that cannot be seen."""
    return all(unicodedata.category(character) not in _UNPRINTABLE for character in text)
