"""The ways to sign in to a node, and the roles that groups give to their members."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from itertools import chain
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from headrace.config.profiles import Section
from headrace.text.durations import Duration

LOCAL_SOURCE = "os"
"""Source of the user who runs the node."""
LDAP_SOURCE = "ldap"
"""Source of the users of a directory."""
HEADER_SOURCE = "header"
"""Source of the users whom a proxy names."""

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"
]
"""Signatures with a public key (RFC 7518, RFC 9864)."""


class Role(StrEnum):
    """Roles of a caller. Who has several roles may do what any of them allows."""

    ADMIN = "admin"  # everything, also with the objects of others
    OPERATOR = "operator"  # nodes, lists and logs of all users; no rows and no SQL of others
    AUDITOR = "auditor"  # reads everything, changes nothing
    USER = "user"  # objects of its own and of its groups


def has_tls(url: str) -> bool:
    """Return whether a URL has TLS, or leads to this host."""
    parts = urlsplit(url)
    is_local = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    return bool(parts.hostname) and parts.scheme in ({"https", "http"} if is_local else {"https"})


class RoleSettings(Section):
    """Groups whose members have a role. A group is written as `source:name`."""

    admin: list[str] = Field(default=[])
    """Groups of administrators."""
    operator: list[str] = Field(default=[])
    """Groups of operators."""
    auditor: list[str] = Field(default=[])
    """Groups of auditors."""
    user: list[str] | None = None
    """Groups of users; default: everyone who can sign in."""

    @field_validator("admin", "operator", "auditor", "user")
    @classmethod
    def _check_groups(cls, groups: list[str] | None) -> list[str] | None:
        """Raise ValueError for a group without its source: two sources may have equal names."""
        for group in groups or []:
            source, _, name = group.partition(":")
            if not source or not name:
                raise ValueError(f"{group!r} is not a group; write source:name, e.g. corp:etl")
        return groups


class OidcSettings(Section):
    """One issuer of OpenID Connect."""

    issuer: str
    """URL of the issuer, exactly as its tokens name it."""
    audience: list[str] = Field(min_length=1)
    """Audiences of which a token must name one."""
    algorithms: list[Algorithm] = Field(default=["RS256", "PS256", "ES256", "Ed25519"])
    """Signatures that are accepted. Shared secrets never are."""
    authorized_parties: list[str] = Field(default=[])
    """Clients whose tokens are accepted (`azp`); default: those of every client."""
    jwks_url: str | None = None
    """URL of the keys; default: as the discovery document of the issuer says."""
    ca: Path | None = None
    """File with the certificates of the authorities that are trusted; default: the system's."""
    name_claim: str = "preferred_username"
    """Claim with the name of the user, for people."""
    groups_claim: str = "groups"
    """Claim with the groups of the user."""
    max_groups: int = Field(default=1000, ge=0)
    """Largest number of groups of a token. A token with more is refused."""
    leeway: Duration = timedelta(seconds=60)
    """Largest difference between the clocks of the issuer and the node."""
    client_id: str | None = None
    """Client of `headrace login`, which signs in by the device flow (RFC 8628)."""
    web_client_id: str | None = None
    """Client of the pages, at which browsers sign in by the authorization code flow with PKCE. It
    needs `web.public_address`. Default: the pages offer no sign-in at this issuer."""
    web_client_secret: str | None = None
    """Reference `${secret:NAME}` to the secret of that client; default: the client is public."""
    scopes: list[str] = Field(default=["openid", "profile", "groups", "offline_access"])
    """Scopes for which `headrace login` asks. The pages ask for the same ones, without
    `offline_access`."""
    login_parameters: dict[str, str] = Field(default={})
    """Further parameters with which `headrace login` asks, for example `audience`."""

    @model_validator(mode="after")
    def _check_web_client(self) -> Self:
        """Raise ValueError for a secret without its client."""
        if self.web_client_secret is not None and self.web_client_id is None:
            raise ValueError("web_client_secret needs web_client_id")
        return self

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        """Raise ValueError for a URL without TLS, except on this host."""
        if url is None:
            return None
        if not has_tls(url):
            raise ValueError(f"{url!r} is not the URL of an issuer; it begins with https://")
        return url


class LdapSettings(Section):
    """A directory. Its users sign in with user name and password."""

    url: str
    """`ldaps://host`, or `ldap://host` with `start_tls`. A port may follow."""
    start_tls: bool = False
    """Whether to begin TLS (StartTLS) before anything else is sent."""
    ca: Path | None = None
    """File with the certificates of the authorities that are trusted; default: the system's."""
    bind_dn: str | None = None
    """Entry as which the node searches; default: anonymously."""
    bind_password_file: Path | None = None
    """File with the password of that entry. Other users must not be able to read it."""
    user_base: str
    """Entry below which the users are."""
    user_filter: str = "(uid={name})"
    """Filter that finds one user by the name that was given."""
    subject_attribute: str = "entryUUID"
    """Attribute that identifies a user and never changes; in Active Directory: `objectGUID`."""
    name_attribute: str = "uid"
    """Attribute with the name of the user; in Active Directory: `sAMAccountName`."""
    group_base: str | None = None
    """Entry below which the groups are; default: users have no groups."""
    group_filter: str = "(member={dn})"
    """Filter that finds the groups of a member by its `{dn}`, or by the `{name}` of a user. Groups
    in groups are found by `{dn}` only."""
    group_name_attribute: str = "cn"
    """Attribute with the name of a group. It must be unique below `group_base`."""
    max_groups: int = Field(default=1000, ge=0)
    """Largest number of groups of a user. A user with more cannot sign in."""
    max_group_depth: int = Field(default=10, ge=1)
    """Levels of groups in groups that are followed."""
    timeout: Duration = timedelta(seconds=5)
    """Time after which a directory that does not answer is given up; at most 1m."""
    cache: Duration = timedelta(seconds=60)
    """Time for which a success counts. For so long, an old password and old groups are valid."""
    max_connections: int = Field(default=4, ge=1, le=64)
    """Largest number of sign-ins at once on each node."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise ValueError for what would send a password in clear, or bind without one."""
        parts = urlsplit(self.url)
        if not parts.hostname or (parts.scheme, self.start_tls) not in {
            ("ldaps", False),
            ("ldap", True),
        }:
            raise ValueError("url is ldaps://host, or ldap://host with start_tls = true")
        if (self.bind_dn is None) != (self.bind_password_file is None):
            raise ValueError("bind_dn needs bind_password_file, and the reverse")
        if "{name}" not in self.user_filter:
            raise ValueError("user_filter contains {name}, for example (uid={name})")
        if "{dn}" not in self.group_filter and "{name}" not in self.group_filter:
            raise ValueError("group_filter contains {dn} or {name}, for example (member={dn})")
        if not timedelta() < self.timeout <= timedelta(minutes=1):
            raise ValueError("timeout is above 0s and at most 1m")
        return self


class HeaderSettings(Section):
    """A proxy that signs in users, and sends their names in a header of each request."""

    addresses: list[IPv4Network | IPv6Network] = Field(min_length=1)
    """Addresses and networks (CIDR) of the proxies, as the node sees their connections."""
    secret_file: Path
    """File with the secret that the proxies send. Other users must not be able to read it."""
    secret_header: str = "X-Headrace-Proxy-Secret"  # noqa: S105 - the name of a header
    """Header with the secret."""
    user_header: str = "X-Forwarded-User"
    """Header with the name of the user."""
    groups_header: str | None = None
    """Header with the groups of the user, separated by commas; default: users have no groups."""
    max_groups: int = Field(default=1000, ge=0)
    """Largest number of groups of a user. A request with more is refused."""

    @field_validator("addresses")
    @classmethod
    def _check_addresses(
        cls, networks: list[IPv4Network | IPv6Network]
    ) -> list[IPv4Network | IPv6Network]:
        """Raise ValueError for a network that contains every address."""
        if any(network.prefixlen == 0 for network in networks):
            raise ValueError("a network of all addresses would let everyone name a user")
        return networks

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Raise ValueError for names of headers that are unusual, or the same."""
        names = [self.secret_header, self.user_header, self.groups_header or "X-No-Groups"]
        for name in names:
            if re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", name) is None:
                raise ValueError(f"{name!r} is no name of a header; use letters, digits and -")
        lower = {name.lower() for name in names}
        if len(lower) < len(names) or "authorization" in lower:
            raise ValueError("the headers are three different ones, and none is Authorization")
        return self


class SystemUserSettings(Section):
    """Users of the system as whom drivers run in profiles with `run_as = "owner"`."""

    users: dict[str, dict[str, str]] = Field(default={})
    """By name of the source and subject, for example `{ corp = { 3f1c = "ada" } }`. The subject
    never changes, as a name may."""
    groups: dict[str, dict[str, str]] = Field(default={})
    """By name of the source and group, for example `{ corp = { etl = "svc_etl" } }`. The drivers of
    other groups do not start."""
    name_source: str | None = None
    """Source whose names of users are those of the system, for users that `users` does not list.
    Choose one in which users cannot change their names. Default: the only source, if there is only
    one."""
    smallest_uid: int = Field(default=1000, ge=1)
    """Smallest uid as which a driver may run on the host of the node."""

    @property
    def mapped(self) -> frozenset[str]:
        """Users of the system that an entry gives to an owner. The name of no other one counts."""
        tables = [*self.users.values(), *self.groups.values()]
        return frozenset(chain.from_iterable(table.values() for table in tables))

    @field_validator("users", "groups")
    @classmethod
    def _check_names(cls, mapping: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """Raise ValueError for a name that no user of a system can have, and for root."""
        for name in chain.from_iterable(each.values() for each in mapping.values()):
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9._-]{0,31}", name) is None or name == "root":
                raise ValueError(f"{name!r} cannot be a user of the system as whom drivers run")
        return mapping


class AuthSettings(Section):
    """How callers prove who they are."""

    methods: list[Literal["token", "oidc", "ldap", "header"]] = Field(default=["token"])
    """Ways to sign in, in the order in which a node tries them."""
    roles: RoleSettings = RoleSettings()
    """Roles that groups give to their members."""
    oidc: dict[str, OidcSettings] = Field(default={})
    """Issuers of OpenID Connect by name. Groups of an issuer are `name:group` in `auth.roles`."""
    ldap: LdapSettings | None = None
    """The directory of the method `ldap`. Its groups are `ldap:group` in `auth.roles`."""
    header: HeaderSettings | None = None
    """The proxy of the method `header`. Its groups are `header:group` in `auth.roles`."""
    system_users: SystemUserSettings = SystemUserSettings()

    @field_validator("oidc")
    @classmethod
    def _check_issuers(cls, issuers: dict[str, OidcSettings]) -> dict[str, OidcSettings]:
        """Raise ValueError for a name that another source has, and for an issuer with two names."""
        for name in issuers:
            is_name = re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) is not None
            if not is_name or name in {LOCAL_SOURCE, LDAP_SOURCE, HEADER_SOURCE}:
                raise ValueError(f"{name!r} cannot be the name of an issuer; use a-z, 0-9 and -")
        urls = [each.issuer for each in issuers.values()]
        if len(set(urls)) < len(urls):
            raise ValueError("two issuers have one URL")
        return issuers

    @model_validator(mode="after")
    def _check_methods(self) -> Self:
        """Raise ValueError for a method without its settings, or the reverse."""
        if ("oidc" in self.methods) != bool(self.oidc):
            raise ValueError("auth.methods names oidc if, and only if, auth.oidc has an issuer")
        for method, section in (("ldap", self.ldap), ("header", self.header)):
            if (method in self.methods) != (section is not None):
                raise ValueError(
                    f"auth.methods names {method} if, and only if, auth.{method} is set"
                )
        return self

    def roles_of(self, source: str, groups: frozenset[str]) -> frozenset[Role]:
        """Return the roles of a user with these groups of a source."""
        of_source = {f"{source}:{group}" for group in groups}
        roles = {role for role in Role if not of_source.isdisjoint(self._groups_with(role) or ())}
        if self.roles.user is None:
            roles.add(Role.USER)
        return frozenset(roles)

    @property
    def sources(self) -> list[str]:
        """Names of the sources of users, apart from the user who runs the node."""
        methods = {LDAP_SOURCE: self.ldap, HEADER_SOURCE: self.header}
        return [*self.oidc, *(name for name, each in methods.items() if each is not None)]

    def name_of_source(self, source: str) -> str:
        """Return the name of a source of users in the settings: that of an issuer, or itself."""
        return next((name for name, each in self.oidc.items() if each.issuer == source), source)

    def _groups_with(self, role: Role) -> list[str] | None:
        groups: list[str] | None = getattr(self.roles, role)
        return groups
