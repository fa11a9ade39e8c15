"""A process that checks one password at a directory, by python-ldap.

libldap waits in C, and its deadlines do not hold: with a server that hangs, its TLS handshake never
ends, and with OPT_NETWORK_TIMEOUT it uses a whole processor (seen with OpenLDAP 2.5.13 and GnuTLS).
A process can be ended: this process ends itself at its deadline, so that it does not outlive a node
that was killed.

The process reads a question from standard input and writes the answer to standard output, both as
JSON. No argument and no variable of its environment has a password.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import ssl
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ldap
from ldap.filter import escape_filter_chars

_Entry = tuple[str, dict[str, list[bytes]]]
_MEMBERS_PER_SEARCH = 50
_AWAY = (
    ldap.SERVER_DOWN,
    ldap.CONNECT_ERROR,
    ldap.TIMEOUT,
    ldap.BUSY,
    ldap.UNAVAILABLE,
    ldap.LOCAL_ERROR,
    ldap.PROTOCOL_ERROR,
)
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Files with the certificates of Debian and of Red Hat."""


class _Refused(Exception):
    """The name or the password is wrong, or the directory does not describe the user properly."""


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    signal.setitimer(signal.ITIMER_REAL, question["settings"]["seconds"])
    # Otherwise files of the user and of the working directory, and variables, configure libldap.
    os.environ["LDAPNOINIT"] = "1"
    json.dump(_answer(**question), sys.stdout)


def _answer(settings: dict[str, Any], name: str, password: str) -> dict[str, Any]:
    try:
        return {"user": _look_up(settings, name, password)}
    except _Refused as error:
        return {"refused": str(error)}
    except ldap.LDAPError as error:
        return {"unavailable": _describe(error)}


def _look_up(settings: dict[str, Any], name: str, password: str) -> dict[str, Any]:
    connection = _connect(settings)
    _bind_reader(connection, settings)
    text = settings["user_filter"].replace("{name}", escape_filter_chars(name))
    attributes = [settings["subject_attribute"], settings["name_attribute"]]
    try:
        entries = _search(connection, settings["user_base"], text, attributes, limit=2)
    except ldap.SIZELIMIT_EXCEEDED:
        entries = []
        problem = "several entries match"
    else:
        problem = "several entries match" if entries else "no entry matches"
    if len(entries) != 1:
        # An unknown name must take as long as a known one.
        unknown = f"cn=headrace-{secrets.token_hex(8)},{settings['user_base']}"
        _is_password(connection, unknown, password)
        raise _Refused(problem)
    dn, entry = entries[0]
    if not _is_password(connection, dn, password):
        raise _Refused("the directory does not accept the password")
    _bind_reader(connection, settings)
    user_name = _value(entry, settings["name_attribute"])
    return {
        "subject": _value(entry, settings["subject_attribute"]),
        "name": user_name,
        "groups": _find_groups(connection, settings, dn, user_name),
    }


def _connect(settings: dict[str, Any]) -> Any:
    """Return a connection with TLS, whose certificate is checked before anything else is sent."""
    connection = ldap.initialize(settings["url"])
    connection.set_option(ldap.OPT_PROTOCOL_VERSION, 3)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    connection.set_option(ldap.OPT_X_TLS_CACERTFILE, settings["ca"] or _system_authorities())
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    if settings["start_tls"]:
        connection.start_tls_s()
    return connection


def _system_authorities() -> str:
    paths = ssl.get_default_verify_paths()
    for file in (paths.cafile, paths.openssl_cafile, *_BUNDLES):
        if file and Path(file).is_file():
            return file
    raise ldap.LOCAL_ERROR({"desc": "the system has no certificates: set auth.ldap.ca"})


def _bind_reader(connection: Any, settings: dict[str, Any]) -> None:
    """Bind as the entry that searches. A refusal is not the fault of the user."""
    connection.simple_bind_s(settings["bind_dn"] or "", settings["bind_password"] or "")


def _is_password(connection: Any, dn: str, password: str) -> bool:
    """Return whether an entry has this password; False for every refusal of the directory."""
    if not dn or not password:  # such a bind is anonymous, and succeeds (RFC 4513, section 5.1)
        return False
    try:
        connection.simple_bind_s(dn, password)
    except _AWAY:
        raise
    except ldap.LDAPError:
        return False
    return True


def _search(
    connection: Any, base: str, text: str, attributes: list[str], *, limit: int
) -> list[_Entry]:
    """Return the entries below a base that match a filter. Raises SIZELIMIT_EXCEEDED.

    References to other servers are no entries, and are not followed.
    """
    results = connection.search_ext_s(base, ldap.SCOPE_SUBTREE, text, attributes, sizelimit=limit)
    return [(dn, entry) for dn, entry in results if dn is not None]


def _find_groups(connection: Any, settings: dict[str, Any], dn: str, name: str) -> list[str]:
    """Return the names of the groups of a user, and of those that contain these groups."""
    if settings["group_base"] is None:
        return []
    names: dict[str, str] = {}
    members, pattern = [dn], settings["group_filter"]
    for _level in range(settings["max_group_depth"]):
        found = []
        for text in _filters(pattern, members, name):
            for group, entry in _search_groups(connection, settings, text):
                if group.casefold() not in names:
                    names[group.casefold()] = _value(entry, settings["group_name_attribute"])
                    found.append(group)
            if len(names) > settings["max_groups"]:
                raise _Refused(f"the user is in more than {settings['max_groups']} groups")
        members = found
        if not members or "{dn}" not in pattern:
            break
    return sorted(set(names.values()))


def _search_groups(connection: Any, settings: dict[str, Any], text: str) -> list[_Entry]:
    base, attributes = settings["group_base"], [settings["group_name_attribute"]]
    try:
        return _search(connection, base, text, attributes, limit=settings["max_groups"] + 1)
    except ldap.SIZELIMIT_EXCEEDED:
        # With a part of the groups, the user would have rights that change from time to time.
        raise _Refused("the directory does not list all groups of the user") from None


def _filters(pattern: str, members: Sequence[str], name: str) -> Iterator[str]:
    """Yield the filters that find the groups of these members."""
    for first in range(0, len(members), _MEMBERS_PER_SEARCH):
        parts = []
        for dn in members[first : first + _MEMBERS_PER_SEARCH]:
            values = {"{dn}": escape_filter_chars(dn), "{name}": escape_filter_chars(name)}
            parts.append(re.sub(r"\{dn\}|\{name\}", lambda match: values[match[0]], pattern))  # noqa: B023
        yield f"(|{''.join(parts)})"


def _value(entry: dict[str, list[bytes]], attribute: str) -> str:
    """Return the one value of an attribute. The case of its name does not matter."""
    for name, values in entry.items():
        if name.casefold() == attribute.casefold() and len(values) == 1:
            if name.casefold() == "objectguid" and len(values[0]) == 16:
                return str(uuid.UUID(bytes_le=values[0]))
            try:
                return values[0].decode()
            except UnicodeDecodeError:
                raise _Refused(f"{attribute} is no text") from None
    raise _Refused(f"an entry does not have exactly one {attribute}")


def _describe(error: ldap.LDAPError) -> str:
    """Return what went wrong, without names and passwords."""
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    return str(details.get("desc", type(error).__name__))


if __name__ == "__main__":
    main()
