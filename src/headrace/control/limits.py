"""Limits on what owners use: checks in the transaction that uses something, and the present use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from headrace.config.limits import Bound, LimitedOwner, LimitName
from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.policy import Action, Caller, OwnedBy, may, resolve_owner
from headrace.errors import (
    HeadraceError,
    NotPermitted,
    QueueFull,
    ReachedLimit,
    ResultsFull,
    TimeoutTooLong,
    TooManyConnections,
    TooManySessions,
    TooManyStreams,
    TooManySubmits,
    UserNotFound,
)
from headrace.model.identity import GROUP_PREFIX, User
from headrace.store.database import Tx
from headrace.store.identity import users
from headrace.store.notifications import session_topic
from headrace.store.statements import limits
from headrace.store.statements.limits import Counted, Excess, Limit, Share
from headrace.text.durations import format_duration
from headrace.text.readable import describe_count, describe_duration

_SHOWN = 100
"""Largest number of characters of an owner in a message."""


def describe_owner(
    tx: Tx, settings: Settings, owner: str, caller: Caller | None = None
) -> LimitedOwner:
    """Return an owner with its names in quotas. Read the store only if quotas exist.

    Args:
        caller: The caller, whose name and groups need not be read.
    """
    if not settings.limits.has_quotas:
        return LimitedOwner(id=owner)
    if caller is not None and caller.owner == owner and caller.account is not None:
        groups = frozenset(each.removeprefix(GROUP_PREFIX) for each in caller.groups)
        return LimitedOwner(id=owner, names=(owner, caller.account), groups=groups)
    return _describe_owners(tx, settings, [owner])[owner]


def _describe_owners(
    tx: Tx, settings: Settings, owners: Collection[str]
) -> dict[str, LimitedOwner]:
    if not settings.limits.has_quotas:
        return {owner: LimitedOwner(id=owner) for owner in owners}
    found = users.get_all(tx, [each for each in owners if not each.startswith(GROUP_PREFIX)])
    return {owner: _to_limited(settings, owner, found.get(owner)) for owner in owners}


def _to_limited(settings: Settings, owner: str, user: User | None) -> LimitedOwner:
    if owner.startswith(GROUP_PREFIX):
        return LimitedOwner(id=owner, groups=frozenset({owner.removeprefix(GROUP_PREFIX)}))
    if user is None:
        return LimitedOwner(id=owner, names=(owner,))
    source = settings.auth.name_of_source(user.source)
    return LimitedOwner(
        id=owner,
        names=(owner, f"{source}:{user.name}"),
        groups=frozenset(f"{source}:{group}" for group in user.groups),
    )


# All checks come before the transaction locks a session, in the order of this module: transactions
# that count against several limits must lock them in one order.


def take_submit(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Count a submit. Raise TooManySubmits if the owner may submit no more at this time."""
    own = settings.limits.find(LimitName.SUBMITS, owner)
    if own.value is None:
        return
    seconds = limits.take_submit(tx, owner.id, own.value)
    if not seconds:
        return
    assert own.setting is not None
    raise TooManySubmits(
        f"{_name(owner.id)} has submitted {describe_count(own.value, 'statement')} within a minute,"
        f" and no more are allowed (setting {own.setting}).",
        hint=f"Submit again in {describe_duration(seconds)}, or ask an administrator to change"
        f" {own.setting}.",
    ).with_limit(
        ReachedLimit(
            name=LimitName.SUBMITS,
            owner=owner.id,
            value=own.value,
            used=own.value,
            setting=own.setting,
        ),
        retry_seconds=seconds,
    )


def check_sessions(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Raise TooManySessions if the owner may not open another session.

    Sessions that continue accepted work, such as those of jobs, count but are not refused.
    """
    own = settings.limits.find(LimitName.SESSIONS, owner)
    limit = Limit(counted=Counted.SESSIONS, total=settings.limits.sessions, per_user=own.value)
    excess = limits.find_excess(tx, limit, owner.id)
    if excess is not None:
        raise _build_error(
            TooManySessions,
            LimitName.SESSIONS,
            excess,
            owner,
            own,
            used="live session",
            hint="Close a session, or submit to a session that exists",
        )


def check_waiting(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Raise QueueFull if no other statement of the owner may wait."""
    own = settings.limits.find(LimitName.WAITING, owner)
    limit = Limit(
        counted=Counted.WAITING, total=settings.limits.waiting_statements, per_user=own.value
    )
    excess = limits.find_excess(tx, limit, owner.id)
    if excess is not None:
        raise _build_error(
            QueueFull,
            LimitName.WAITING,
            excess,
            owner,
            own,
            used="waiting statement",
            hint="Submit the statement again when some of them have ended",
        )


def check_streams(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Raise TooManyStreams if the owner may not start another streaming query.

    Queries that a job starts count but are not refused.
    """
    own = settings.limits.find(LimitName.STREAMS, owner)
    limit = Limit(counted=Counted.STREAMS, per_user=own.value)
    excess = limits.find_excess(tx, limit, owner.id)
    if excess is not None:
        raise _build_error(
            TooManyStreams,
            LimitName.STREAMS,
            excess,
            owner,
            own,
            used="live streaming query",
            plural="live streaming queries",
            hint="Stop a stream",
        )


def check_connections(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Raise TooManyConnections if the owner may not open another connection."""
    own = settings.limits.find(LimitName.CONNECTIONS, owner)
    limit = Limit(counted=Counted.CONNECTIONS, per_user=own.value)
    excess = limits.find_excess(tx, limit, owner.id)
    if excess is not None:
        raise _build_error(
            TooManyConnections,
            LimitName.CONNECTIONS,
            excess,
            owner,
            own,
            used="open connection",
            hint="Close a connection",
        )


def lock_streams(tx: Tx, settings: Settings) -> None:
    """Lock the limit of `check_streams`, for a transaction that checks it after other locks."""
    if settings.limits.is_set(LimitName.STREAMS):
        limits.lock(tx, Counted.STREAMS)


def check_stored_bytes(tx: Tx, settings: Settings, owner: LimitedOwner) -> None:
    """Raise ResultsFull if the stored results of the owner fill what it may use.

    The size of a result is known only when it is stored: the last result may exceed the limit.
    """
    own = settings.limits.find(LimitName.STORED_BYTES, owner)
    if own.value is None:
        return
    used = limits.sum_stored_bytes(tx, owner.id)
    if used < own.value:
        return
    assert own.setting is not None
    seconds = limits.seconds_until_stored(tx, owner.id, excess=used - own.value + 1)
    expire = "" if seconds is None else f" Enough of them expire in {describe_duration(seconds)}."
    raise ResultsFull(
        f"{_name(owner.id)} has {used:,} bytes of stored results, and may store"
        f" {own.value:,} (setting {own.setting}).{expire}",
        hint=f"Wait, or ask an administrator to change {own.setting}.",
    ).with_limit(
        ReachedLimit(
            name=LimitName.STORED_BYTES,
            owner=owner.id,
            value=own.value,
            used=used,
            setting=own.setting,
        ),
        retry_seconds=seconds,
    )


def choose_timeout(settings: Settings, owner: LimitedOwner, seconds: float | None) -> float | None:
    """Return the timeout of a statement in seconds, with its default. None: no timeout.

    Raise TimeoutTooLong if the timeout exceeds the limit of the owner.
    """
    if seconds is None:
        default: timedelta | None = settings.limits.find_default_timeout(owner).value
        return None if default is None else default.total_seconds()
    largest = settings.limits.find("max_timeout", owner)
    if largest.value is None or seconds <= largest.value.total_seconds():
        return seconds
    assert largest.setting is not None
    allowed = format_duration(largest.value)
    raise TimeoutTooLong(
        f"timeout: {format_duration(timedelta(seconds=seconds))} is more than"
        f" {_name(owner.id)} may ask for. At most {allowed} is allowed"
        f" (setting {largest.setting}).",
        hint=f"Ask an administrator to change {largest.setting}.",
    ).with_limit(
        ReachedLimit(
            name="max_timeout",
            owner=owner.id,
            value=allowed,
            used=None,
            setting=largest.setting,
        )
    )


def _build_error(
    kind: type[HeadraceError],
    name: LimitName,
    excess: Excess,
    owner: LimitedOwner,
    own: Bound,
    *,
    used: str,
    plural: str | None = None,
    hint: str,
) -> HeadraceError:
    """Build the error for a limit on live rows.

    Args:
        used: What is counted, in the singular.
        hint: What the caller can do, without a full stop.
    """
    setting = own.setting if excess.is_per_user and own.setting else f"limits.{name}"
    subject = _name(owner.id) if excess.is_per_user else "All users together"
    verb = "has" if excess.is_per_user else "have"
    message = (
        f"{subject} {verb} {describe_count(excess.used, used, plural)}, and no more than"
        f" {excess.number:,} are allowed (setting {setting})."
    )
    return kind(message, hint=f"{hint}, or ask an administrator to change {setting}.").with_limit(
        ReachedLimit(
            name=name,
            owner=owner.id if excess.is_per_user else None,
            value=excess.number,
            used=excess.used,
            setting=setting,
        )
    )


def _name(owner: str) -> str:
    if owner.startswith(GROUP_PREFIX):
        return f"Group {owner.removeprefix(GROUP_PREFIX)[:_SHOWN]}"
    return f"User {owner[:_SHOWN]}"


def running_limit(settings: Settings) -> Limit:
    """Return the limit on statements in flight."""
    chosen = settings.limits
    is_set = chosen.running_statements is not None or chosen.is_set(LimitName.RUNNING)
    if not is_set:
        return Limit(counted=Counted.RUNNING)

    def find_shares(tx: Tx, owners: Collection[str]) -> Mapping[str, Share]:
        described = _describe_owners(tx, settings, owners)
        shares = {}
        for owner, limited in described.items():
            own = chosen.find(LimitName.RUNNING, limited)
            weight = chosen.find("weight", limited).value
            shares[owner] = Share(own.value, weight, own.setting)
        return shares

    return Limit(counted=Counted.RUNNING, total=chosen.running_statements, find_shares=find_shares)


def find_weights(tx: Tx, settings: Settings, owners: Collection[str]) -> dict[str, int]:
    """Return the weights of owners, without those that have the usual one."""
    if not settings.limits.has_weights:
        return {}
    described = _describe_owners(tx, settings, owners)
    weights = {owner: settings.limits.find("weight", each) for owner, each in described.items()}
    return {owner: bound.value for owner, bound in weights.items() if bound.setting is not None}


class FreePlaces:
    """Wakes the drivers that may claim a statement when the limit on statements has free places.

    The end of a statement wakes them at once. This periodic task covers all other ways in which a
    place becomes free, such as the loss of a driver.
    """

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._limit = running_limit(context.settings)

    def run(self) -> None:
        """Wake the drivers of the sessions that come next."""
        if not self._limit.is_set:
            return
        with self._database.read() as tx:
            chosen = limits.choose_next(tx, self._limit)
        self._database.notifications.publish(map(session_topic, chosen))


class QuotaLine(NamedTuple):
    """A limit of an owner, and the present use."""

    name: str
    value: int | str | None
    """A number, or a duration such as `1h`; None: no limit."""
    used: int | None
    """None: nothing is counted."""
    setting: str | None
    """Key that sets the limit; None: a default that no key sets."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of an owner."""

    owner: str
    limits: list[QuotaLine]


class Quotas:
    """The limits of owners, shown by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def show(self, caller: Caller, owner: str | None = None) -> Quota:
        """Return the limits of an owner with their settings, and what it uses.

        Args:
            owner: The caller, or a group of the caller as in `resolve_owner`; for callers who may
                read the objects of others, the id of any user, or `group:source:name`.

        Raises:
            UserNotFound: The caller may not read the use of this owner, or there is no such user.
        """
        chosen = self._choose(caller, owner)
        with self._database.read() as tx:
            if not self._exists(tx, caller, chosen):
                raise _missing(chosen)
            limited = describe_owner(tx, self._settings, chosen)
            found = {name: self._settings.limits.find(name, limited) for name in LimitName}
            per_minute = found[LimitName.SUBMITS].value
            used = limits.measure(tx, chosen, per_minute=per_minute)
        lines = [
            QuotaLine(name, bound.value, used[name], bound.setting) for name, bound in found.items()
        ]
        timeouts = {
            "default_timeout": self._settings.limits.find_default_timeout(limited),
            "max_timeout": self._settings.limits.find("max_timeout", limited),
        }
        lines += [
            QuotaLine(name, bound.value and format_duration(bound.value), None, bound.setting)
            for name, bound in timeouts.items()
        ]
        weight = self._settings.limits.find("weight", limited)
        return Quota(chosen, [*lines, QuotaLine("weight", weight.value, None, weight.setting)])

    @staticmethod
    def _choose(caller: Caller, owner: str | None) -> str:
        try:
            return resolve_owner(caller, owner)
        except NotPermitted:
            assert owner is not None
            if not may(caller, Action.READ, OwnedBy(owner)):
                raise _missing(owner) from None
            return owner

    @staticmethod
    def _exists(tx: Tx, caller: Caller, owner: str) -> bool:
        if owner == caller.owner or owner in caller.groups:
            return True
        if owner.startswith(GROUP_PREFIX):
            # The store knows groups by their members only.
            return owner.count(":") > 1
        return users.get(tx, owner) is not None


def _missing(owner: str) -> UserNotFound:
    return UserNotFound(f"There is no user or group {owner[:_SHOWN]!r} of which you may know.")
