"""Limits on what owners use, and the quotas of users and groups that take their place.

All nodes of a store need the same values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from headrace.config.profiles import Section
from headrace.text.durations import Duration

_USER = re.compile(r"[a-z0-9._-]{1,80}|[a-z0-9-]+:.+")
_GROUP = re.compile(r"[a-z0-9-]+:.+")
_WEIGHT = 1
"""Weight of an owner without a quota that sets one."""


class LimitName(StrEnum):
    """What is counted for each owner, by the key of a quota."""

    SESSIONS = "sessions"
    WAITING = "waiting_statements"
    RUNNING = "running_statements"
    STREAMS = "streams"
    CONNECTIONS = "connections"
    STORED_BYTES = "stored_bytes"
    SUBMITS = "submits_per_minute"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedOwner:
    """An owner of objects, with the names that quotas can use for it."""

    id: str
    names: tuple[str, ...] = ()
    """Keys of `limits.users`: the id of a user, and `source:name`."""
    groups: frozenset[str] = frozenset()
    """Keys of `limits.groups`: the groups of a user; a group that is the owner itself."""


class Bound(NamedTuple):
    """The limit that the settings give to one owner."""

    value: Any
    """None: no limit."""
    setting: str | None
    """Key that sets the limit; None: a default that no key sets."""


class QuotaSettings(Section):
    """Limits of one user, or of a group and each of its members, in place of those of each user.

    A key that is not set changes nothing. The limits of a user come first, then the largest of the
    limits of its groups.
    """

    sessions: int | None = Field(default=None, ge=1)
    """As `limits.sessions_per_user`."""
    waiting_statements: int | None = Field(default=None, ge=1)
    """As `limits.waiting_statements_per_user`."""
    running_statements: int | None = Field(default=None, ge=1)
    """As `limits.running_statements_per_user`."""
    streams: int | None = Field(default=None, ge=1)
    """As `limits.streams_per_user`."""
    connections: int | None = Field(default=None, ge=1)
    """As `limits.connections_per_user`."""
    stored_bytes: int | None = Field(default=None, ge=1)
    """As `limits.stored_bytes_per_user`."""
    submits_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """As `limits.submits_per_minute_per_user`."""
    default_timeout: Duration | None = None
    """As `limits.default_timeout`."""
    max_timeout: Duration | None = None
    """As `limits.max_timeout`."""
    weight: int | None = Field(default=None, ge=1, le=1000)
    """Share of statements and driver starts while these are scarce, beside the weights of other
    owners; 1 where no quota sets it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_timeouts(self.default_timeout, self.max_timeout)
        return self


class LimitSettings(Section):
    """Limits of the whole store; null: no limit. All nodes of a store need the same values."""

    sessions: int | None = Field(default=1000, ge=1)
    """Largest number of live sessions. Another one is refused with `too_many_sessions`. The driver
    of a session is a JVM of 1 GB or more."""
    sessions_per_user: int | None = Field(default=100, ge=1)
    """Largest number of live sessions of one user or group."""
    waiting_statements: int | None = Field(default=None, ge=1)
    """Largest number of waiting statements. Another submit is refused with `queue_full`."""
    waiting_statements_per_user: int | None = Field(default=None, ge=1)
    """Largest number of waiting statements of one user or group."""
    running_statements: int | None = Field(default=None, ge=1)
    """Largest number of statements in flight. Further ones wait, and owners take turns by their
    weights."""
    running_statements_per_user: int | None = Field(default=None, ge=1)
    """Largest number of statements in flight of one user or group."""
    streams_per_user: int | None = Field(default=None, ge=1)
    """Largest number of live streaming queries of one user or group. Another one is refused with
    `too_many_streams`, unless a job starts it."""
    connections_per_user: int | None = Field(default=2000, ge=1)
    """Largest number of open connections of one user or group. Another one is refused with
    `too_many_connections`. A connection without a running statement has no driver of its own."""
    stored_bytes_per_user: int | None = Field(default=None, ge=1)
    """Bytes of stored results of one user or group from which on its submits are refused with
    `results_full`. Inline results and those in the memory of drivers do not count."""
    submits_per_minute_per_user: int | None = Field(default=None, ge=1, le=1_000_000)
    """Statements that one user or group may submit in a minute, also all at once after a pause.
    Another submit is refused with `too_many_submits`."""
    default_timeout: Duration | None = None
    """`timeout` of a statement that does not name one; at most `max_timeout`."""
    max_timeout: Duration | None = None
    """Largest `timeout` of a statement. A larger one is refused with `timeout_too_long`."""
    users: dict[str, QuotaSettings] = Field(default={})
    """Quotas of users, by `source:name` or by the id of the user."""
    groups: dict[str, QuotaSettings] = Field(default={})
    """Quotas of groups, by `source:name`."""

    @field_validator("users", "groups")
    @classmethod
    def _check_names(cls, quotas: dict[str, QuotaSettings], info: Any) -> dict[str, QuotaSettings]:
        """Raise ValueError for a name that no user or group can have."""
        is_users = info.field_name == "users"
        for name in quotas:
            if (_USER if is_users else _GROUP).fullmatch(name) is None:
                raise ValueError(
                    f"{name!r} is not the id of a user; write that, or source:name, e.g. corp:ada"
                    if is_users
                    else f"{name!r} is not a group; write source:name, e.g. corp:etl"
                )
        return quotas

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_timeouts(self.default_timeout, self.max_timeout)
        return self

    def check_sources(self, sources: Collection[str], *, local: str) -> None:
        """Raise ValueError for a quota whose source of users does not exist.

        Args:
            sources: Names of the sources with groups.
            local: Name of the source of the user who runs the node, which has no groups.
        """
        for section, quotas in (("users", self.users), ("groups", self.groups)):
            known = {*sources, local} if section == "users" else {*sources}
            for name in quotas:
                source, colon, _ = name.partition(":")
                if colon and source not in known:
                    raise ValueError(
                        f"the setting {_key(section, name)} names the source {source!r}, which"
                        f" auth does not have. Sources: {', '.join(sorted(known)) or 'none'}"
                    )

    @property
    def has_quotas(self) -> bool:
        """Whether some owners have limits of their own."""
        return bool(self.users or self.groups)

    @property
    def has_weights(self) -> bool:
        """Whether the weights of owners differ."""
        return self._some_quota_sets("weight")

    def is_set(self, name: LimitName) -> bool:
        """Return whether some owner may have this limit."""
        return self._default(name).value is not None or self._some_quota_sets(name)

    def find(self, name: str, owner: LimitedOwner) -> Bound:
        """Return the limit of an owner: one of `LimitName`, or another key of a quota."""
        for own in owner.names:
            value = _read(self.users, own, name)
            if value is not None:
                return Bound(value, f"{_key('users', own)}.{name}")
        of_groups = {group: _read(self.groups, group, name) for group in sorted(owner.groups)}
        values = {group: value for group, value in of_groups.items() if value is not None}
        if values:
            largest = max(values, key=values.__getitem__)
            return Bound(values[largest], f"{_key('groups', largest)}.{name}")
        return self._default(name)

    def find_default_timeout(self, owner: LimitedOwner) -> Bound:
        """Return the timeout of a statement that names none."""
        default, largest = self.find("default_timeout", owner), self.find("max_timeout", owner)
        if default.value is None or (largest.value is not None and largest.value < default.value):
            return largest
        return default

    def _some_quota_sets(self, name: str) -> bool:
        quotas = [*self.users.values(), *self.groups.values()]
        return any(getattr(quota, name) is not None for quota in quotas)

    def _default(self, name: str) -> Bound:
        if name == "weight":
            return Bound(_WEIGHT, None)
        key = f"{name}_per_user" if name in set(LimitName) else name
        value = getattr(self, key)
        return Bound(value, None if value is None else f"limits.{key}")


def _read(quotas: Mapping[str, QuotaSettings], owner: str, name: str) -> Any:
    quota = quotas.get(owner)
    return None if quota is None else getattr(quota, name)


def _key(section: str, name: str) -> str:
    """Return the key of a quota as TOML writes it."""
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None
    return f"limits.{section}.{name}" if is_bare else f'limits.{section}."{name}"'


def _check_timeouts(default: timedelta | None, largest: timedelta | None) -> None:
    for name, value in (("default_timeout", default), ("max_timeout", largest)):
        if value is not None and not value:
            raise ValueError(f"{name} must be longer than 0s")
    if default is not None and largest is not None and default > largest:
        raise ValueError("default_timeout is larger than max_timeout")
