"""Webhooks of owners."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, delete, insert, select
from sqlalchemy.exc import IntegrityError

from headrace.errors import WebhookNameExists
from headrace.model.delivery import Webhook
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import WEBHOOKS
from headrace.store.records import record_to_columns
from headrace.store.tables import webhooks as table

_SELECT = select(table)


def insert_webhook(tx: Tx, webhook: Webhook) -> None:
    """Insert a webhook of an owner. Raise WebhookNameExists."""
    row = record_to_columns(webhook, without={"owners", "created_at"})
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(insert(table).values(created_at=clock()), row)
    except IntegrityError as error:
        raise WebhookNameExists(
            f"There is a webhook named {webhook.name!r} already.",
            hint="Choose another name, or delete that webhook first.",
        ) from error
    tx.wake(WEBHOOKS)


def get(tx: Tx, webhook_id: str) -> Webhook | None:
    """Return a webhook, or None."""
    found = _fetch(tx, _SELECT.where(table.c.id == webhook_id))
    return found[0] if found else None


def list_named(tx: Tx, owners: Collection[str], name: str) -> list[Webhook]:
    """Return the webhooks of these owners with this name."""
    return _fetch(tx, _SELECT.where(table.c.owner.in_(owners), table.c.name == name))


def list_of_owner(tx: Tx, owner: str) -> list[Webhook]:
    """Return the webhooks of an owner."""
    return _fetch(tx, _SELECT.where(table.c.owner == owner))


def has_any(tx: Tx) -> bool:
    """Return whether an owner has a webhook."""
    return tx.execute(select(table.c.id).limit(1)).first() is not None


def page(
    tx: Tx, *, owners: Collection[str] | None, before: str | None, limit: int
) -> list[Webhook]:
    """Return at most `limit` webhooks with ids below `before`, the newest first.

    Args:
        owners: Owners of the webhooks; None: all.
    """
    query = _SELECT.order_by(table.c.id.desc()).limit(limit)
    if owners is not None:
        query = query.where(table.c.owner.in_(owners))
    if before is not None:
        query = query.where(table.c.id < before)
    return _fetch(tx, query)


def delete_webhook(tx: Tx, webhook_id: str) -> bool:
    """Delete a webhook. Return False if there is none."""
    deletion = delete(table).where(table.c.id == webhook_id).returning(table.c.id)
    return tx.execute(deletion).one_or_none() is not None


def _fetch(tx: Tx, query: Select[Any]) -> list[Webhook]:
    return [Webhook(**row) for row in tx.execute(query).mappings()]
