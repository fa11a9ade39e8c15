"""Users who have signed in. A row is never deleted, so that its id never gets another meaning."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, RowMapping, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from headrace.model.identity import User
from headrace.model.lifecycle import EntityKind
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import users as table

_SEEN_SECONDS = 60.0
"""Age from which the time of the last sign-in is written again."""
_SEEN_LONG_AGO = table.c.seen_at < clock(-_SEEN_SECONDS)
_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_MAX_LENGTH = 64
_MAX_TRIES = 1000
_RESERVED = ("", ".", "..", "anonymous", "group")


def find(tx: Tx, source: str, subject: str) -> User | None:
    """Return the user with a subject of a source, or None if there is none."""
    return _find(tx, table.c.source == source, table.c.subject == subject)


def is_seen_due(tx: Tx, user_id: str) -> bool:
    """Return whether the last recorded sign-in of a user was long ago."""
    query = select(table.c.id).where(table.c.id == user_id, _SEEN_LONG_AGO)
    return tx.execute(query).first() is not None


def get(tx: Tx, user_id: str) -> User | None:
    """Return a user, or None if there is no such user."""
    return _find(tx, table.c.id == user_id)


def get_all(tx: Tx, user_ids: Collection[str]) -> dict[str, User]:
    """Return the users with these ids, by id, without those that do not exist."""
    if not user_ids:
        return {}
    rows = tx.execute(select(table).where(table.c.id.in_(user_ids))).mappings()
    return {row["id"]: _to_user(row) for row in rows}


def find_named(tx: Tx, name: str) -> list[User]:
    """Return the users with this id or name, at most two."""
    query = select(table).where((table.c.id == name) | (table.c.name == name))
    rows = tx.execute(query.order_by(table.c.id).limit(2)).mappings()
    return [_to_user(row) for row in rows]


def page(tx: Tx, *, after: str | None, limit: int) -> list[User]:
    """Return at most `limit` users with ids above `after`, by id."""
    query = select(table).order_by(table.c.id).limit(limit)
    if after is not None:
        query = query.where(table.c.id > after)
    return [_to_user(row) for row in tx.execute(query).mappings()]


def sign_in(
    tx: Tx,
    source: str,
    subject: str,
    *,
    name: str,
    groups: Collection[str],
    issued_at: float | None = None,
) -> User:
    """Update and return the user with a subject of a source; insert it at its first sign-in.

    Args:
        issued_at: When the source has issued name and groups. They replace those of the store
            unless these are newer: an old token must not bring a group back.
    """
    present = find(tx, source, subject)
    if present is None:
        _insert(tx, source, subject, name, groups, issued_at)
    elif present.name != name or present.groups != frozenset(groups):
        values = {"name": name, "groups": sorted(groups), "issued_at": issued_at}
        change = update(table).where(table.c.id == present.id)
        if issued_at is not None:
            change = change.where(or_(table.c.issued_at.is_(None), table.c.issued_at <= issued_at))
        tx.execute(change.values(values | {"seen_at": clock()}))
    else:
        seen = update(table).where(table.c.id == present.id, _SEEN_LONG_AGO)
        tx.execute(seen.values(seen_at=clock()))
        return present
    user = find(tx, source, subject)
    assert user is not None
    return user


def set_disabled(tx: Tx, user_id: str, *, is_disabled: bool, actor: str) -> bool:
    """Disable a user or enable it again. Return False if nothing changes."""
    has_changed = table.c.disabled_at.is_(None) if is_disabled else table.c.disabled_at.is_not(None)
    change = update(table).where(table.c.id == user_id, has_changed)
    if not tx.execute(change.values(disabled_at=clock() if is_disabled else None)).rowcount:
        return False
    source, target = ("enabled", "disabled") if is_disabled else ("disabled", "enabled")
    events.append(tx, EntityKind.USER, user_id, source, target, actor=actor)
    return True


def _insert(
    tx: Tx,
    source: str,
    subject: str,
    name: str,
    groups: Collection[str],
    issued_at: float | None,
) -> None:
    """Insert a user with a new id, unless another transaction inserts the same user first."""
    row = {
        "source": source,
        "subject": subject,
        "name": name,
        "groups": sorted(groups),
        "issued_at": issued_at,
    }
    new = insert(table).values(created_at=clock(), seen_at=clock())
    for user_id in propose_ids(name):
        if tx.execute(select(table.c.id).where(table.c.id == user_id)).first() is not None:
            continue
        try:
            # After an error, PostgreSQL continues a transaction from a savepoint only.
            with tx.connection.begin_nested():
                tx.execute(new, row | {"id": user_id})
        except IntegrityError:
            if find(tx, source, subject) is not None:
                return
            continue
        detail = {"source": source, "name": name}
        events.append(tx, EntityKind.USER, user_id, None, "enabled", actor=user_id, detail=detail)
        return
    raise ValueError(f"there are more than {_MAX_TRIES} users with names like {name!r}")


def propose_ids(name: str) -> Iterator[str]:
    """Yield ids for a user with this name, the best id first.

    An id is in lower case and can be part of a path, of a metric and of a name of the system.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    stem = _UNSAFE.sub("_", plain).strip("._-")[:_MAX_LENGTH]
    if stem in _RESERVED:
        stem = "user"
    yield stem
    yield from (f"{stem}-{number}" for number in range(2, _MAX_TRIES))


def _find(tx: Tx, *conditions: ColumnElement[bool]) -> User | None:
    row = tx.execute(select(table).where(*conditions)).mappings().one_or_none()
    return None if row is None else _to_user(row)


def _to_user(row: RowMapping) -> User:
    columns = {name: value for name, value in row.items() if name != "issued_at"}
    return User(**columns | {"groups": frozenset(columns["groups"])})
