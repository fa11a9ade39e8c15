"""Tokens with which programs act for their owner. The store has the hash of the secret only."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import RowMapping, insert, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import TokenNameExists
from headrace.model.identity import ApiToken, Scope
from headrace.model.ids import new_id
from headrace.model.lifecycle import TOKEN, TokenState
from headrace.store import events
from headrace.store.clock import clock, seconds_between
from headrace.store.database import Tx
from headrace.store.tables import tokens as table
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(TOKEN, table)
_USED_SECONDS = 60.0
"""Age from which the time of the last use is written again."""
_SELECT = select(*(column for column in table.c if column.name != "secret_hash"))
_LIVE = table.c.ended_at.is_(None)
_USE_IS_DUE = table.c.last_used_at.is_(None) | (table.c.last_used_at < clock(-_USED_SECONDS))


class UsableToken(NamedTuple):
    """A token that is neither revoked nor expired, and the hash of its secret."""

    token: ApiToken
    secret_hash: str
    is_use_due: bool
    """Whether its last recorded use was long ago."""


def insert_token(
    tx: Tx,
    secret_hash: str,
    *,
    owner: str,
    name: str,
    scope: Scope,
    seconds: float,
    created_by: str,
    until: datetime | None = None,
) -> ApiToken:
    """Insert a token that expires after some seconds, or earlier at `until`.

    Raise TokenNameExists.
    """
    row = {
        "id": new_id("tk"),
        "secret_hash": secret_hash,
        "owner": owner,
        "name": name,
        "scope": scope,
        "state": TOKEN.initial,
        "created_by": created_by,
    }
    new = insert(table).values(created_at=clock(), expires_at=clock(seconds))
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(new, row)
    except IntegrityError as error:
        raise TokenNameExists(
            f"There is a token named {name!r} already.",
            hint="Choose another name, or revoke that token first.",
        ) from error
    if until is not None:
        is_later = (table.c.id == row["id"]) & (table.c.expires_at > until)
        tx.execute(update(table).where(is_later).values(expires_at=until))
    detail = {"name": name, "scope": scope}
    events.append_creation(tx, TOKEN, row["id"], actor=created_by, detail=detail)
    token = get(tx, row["id"])
    assert token is not None
    return token


def get(tx: Tx, token_id: str) -> ApiToken | None:
    """Return a token, or None if there is no such token."""
    row = tx.execute(_SELECT.where(table.c.id == token_id)).mappings().one_or_none()
    return None if row is None else _to_token(row)


def find_usable(tx: Tx, token_id: str, *, locks: bool = False) -> UsableToken | None:
    """Return a token that is neither revoked nor expired, or None.

    Args:
        locks: Whether the token cannot be revoked until the end of the transaction.
    """
    query = select(table, _USE_IS_DUE.label("is_use_due")).where(
        table.c.id == token_id, _LIVE, table.c.expires_at > clock()
    )
    row = tx.execute(query.with_for_update() if locks else query).mappings().one_or_none()
    if row is None:
        return None
    columns = dict(row)
    secret_hash, is_use_due = columns.pop("secret_hash"), bool(columns.pop("is_use_due"))
    return UsableToken(ApiToken(**columns), secret_hash, is_use_due)


def list_expiring(tx: Tx, seconds: float, limit: int) -> list[ApiToken]:
    """Return at most `limit` live tokens that expire within `seconds`, the first to expire first.

    Tokens that were valid for less than twice this time are left out.
    """
    query = _SELECT.where(
        _LIVE,
        table.c.expires_at > clock(),
        table.c.expires_at < clock(seconds),
        seconds_between(table.c.created_at, table.c.expires_at) >= 2 * seconds,
    )
    rows = tx.execute(query.order_by(table.c.expires_at).limit(limit)).mappings()
    return [_to_token(row) for row in rows]


def list_named(tx: Tx, owners: Collection[str], name: str) -> list[ApiToken]:
    """Return the tokens of these owners with this name that are not revoked."""
    query = _SELECT.where(table.c.owner.in_(owners), table.c.name == name, _LIVE)
    return [_to_token(row) for row in tx.execute(query).mappings()]


def list_with_prefix(tx: Tx, owner: str, prefix: str) -> list[ApiToken]:
    """Return the tokens of an owner that are not revoked and whose names begin with a prefix."""
    is_named = table.c.name.startswith(prefix, autoescape=True)
    query = _SELECT.where(table.c.owner == owner, is_named, _LIVE)
    return [_to_token(row) for row in tx.execute(query).mappings()]


def record_use(tx: Tx, token_id: str) -> None:
    """Record that a token was used, at most once a minute."""
    use = update(table).where(table.c.id == token_id, _USE_IS_DUE)
    tx.execute(use.values(last_used_at=clock()))


def extend(tx: Tx, token_id: str, seconds: float, *, prefix: str) -> None:
    """Let a token expire some seconds from now, if its name begins with a prefix."""
    is_signed_in = table.c.name.startswith(prefix, autoescape=True)
    change = update(table).where(table.c.id == token_id, _LIVE, is_signed_in)
    tx.execute(change.values(expires_at=clock(seconds)))


def page(
    tx: Tx, *, owners: Collection[str] | None, before: str | None, limit: int
) -> list[ApiToken]:
    """Return at most `limit` tokens with ids below `before`, newest first.

    Args:
        owners: Owners of the tokens; None: all.
    """
    query = _SELECT.order_by(table.c.id.desc()).limit(limit)
    if owners is not None:
        query = query.where(table.c.owner.in_(owners))
    if before is not None:
        query = query.where(table.c.id < before)
    return [_to_token(row) for row in tx.execute(query).mappings()]


def revoke(tx: Tx, token_id: str, *, actor: str) -> bool:
    """Revoke a token. Return False if it is revoked already."""
    return _TRANSITIONS.apply(tx, token_id, TokenState.LIVE, TokenState.REVOKED, actor=actor)


def _to_token(row: RowMapping) -> ApiToken:
    return ApiToken(**row)
