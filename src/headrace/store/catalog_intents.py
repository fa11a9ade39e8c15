"""Changes of catalogs that drivers must still make, for example the removal of old tables.

A driver claims an intent for a limited time, carries it out, and reports the outcome. The intents
of an owner are carried out by drivers of this owner only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, case, exists, insert, or_, select, update

from headrace.model.ids import new_id
from headrace.model.lifecycle import CATALOG_INTENT, IntentState
from headrace.model.materialized_view import CatalogIntent, IntentAction, MaterializedView
from headrace.model.messages import SinkIntent
from headrace.model.session import DriverLease
from headrace.model.stream_query import PendingSink, StreamQuery
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.streams import stream_queries as queries
from headrace.store.tables import catalog_intents as table
from headrace.store.tables import (
    sessions,
    stream_queries,
)
from headrace.store.transitions import Transitions

SINKS = "sinks"
"""Identity that stands for the sinks of queries, which are in no catalog."""
_TRANSITIONS = Transitions(CATALOG_INTENT, table)
_CLAIM_SECONDS = 60.0
_RETRY_SECONDS = 60.0
_MAX_LISTED = 1000
MAX_ATTEMPTS = 10
"""Number of failed attempts after which an intent has failed."""
_LIVE = table.c.ended_at.is_(None)
_IS_DUE = (
    _LIVE,
    table.c.due_at <= clock(),
    or_(table.c.claim_until.is_(None), table.c.claim_until < clock()),
    # The query would write to the view again.
    ~exists().where(stream_queries.c.id == table.c.query_id, stream_queries.c.ended_at.is_(None)),
)


def insert_intent(
    tx: Tx,
    view: MaterializedView,
    action: IntentAction,
    *,
    actor: str,
    generation: int | None = None,
    query_id: str | None = None,
    seconds: float = 0.0,
) -> None:
    """Insert an intent for a view.

    Args:
        query_id: Query that must have ended before.
        seconds: Time after which the intent is due.
    """
    intent_id = new_id("ci")
    row = {
        "id": intent_id,
        "owner": view.owner,
        "identity": view.identity,
        "action": action,
        "view_id": view.id,
        "path": view.rows.path,
        "generation": generation,
        "query_id": query_id,
        "state": IntentState.PENDING,
    }
    tx.execute(insert(table).values(created_at=clock(), due_at=clock(seconds)), row)
    detail = {"action": action, "view": view.id, "generation": generation}
    events.append_creation(tx, CATALOG_INTENT, intent_id, actor=actor, detail=detail)


def insert_sink_intent(tx: Tx, query: StreamQuery, *, actor: str) -> None:
    """Insert an intent to remove what lost drivers have staged in the sink of an ended query."""
    intent_id = new_id("ci")
    row = {
        "id": intent_id,
        "owner": query.owner,
        "identity": SINKS,
        "action": IntentAction.DROP_STAGING,
        "view_id": query.id,
        "path": [],
        "query_id": query.id,
        "state": IntentState.PENDING,
    }
    tx.execute(insert(table).values(created_at=clock(), due_at=clock()), row)
    detail = {"action": IntentAction.DROP_STAGING, "query": query.qualified_name}
    events.append_creation(tx, CATALOG_INTENT, intent_id, actor=actor, detail=detail)


def list_sinks(tx: Tx, owners: Collection[str] | None) -> list[PendingSink]:
    """Return the ended queries of these owners whose sinks no driver has cleared yet, oldest first.

    A query whose last intent has failed is among them.
    """
    later = table.alias("later")
    query = (
        select(
            table.c.query_id,
            stream_queries.c.scope,
            stream_queries.c.name,
            stream_queries.c.session_id,
            table.c.state,
            table.c.attempts,
            table.c.last_error,
        )
        .join(stream_queries, stream_queries.c.id == table.c.query_id)
        .where(
            *_of_owners(owners),
            table.c.action == IntentAction.DROP_STAGING,
            table.c.state != IntentState.DONE,
            ~exists().where(later.c.query_id == table.c.query_id, later.c.id > table.c.id),
        )
        .order_by(table.c.id)
        .limit(_MAX_LISTED)
    )
    return [PendingSink(**row) for row in tx.execute(query).mappings()]


def retry_sinks_now(tx: Tx, owners: Collection[str], *, actor: str) -> None:
    """Let drivers clear the sinks of these owners' ended queries now, also after the last try."""
    for sink in list_sinks(tx, owners):
        if sink.state is IntentState.FAILED:
            query = queries.get(tx, sink.query_id)
            assert query is not None
            insert_sink_intent(tx, query, actor=actor)
    own = (*_of_owners(owners), table.c.action == IntentAction.DROP_STAGING, _LIVE)
    tx.execute(update(table).where(*own).values(due_at=clock()))


def _of_owners(owners: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if owners is None else [table.c.owner.in_(owners)]


def has_due(tx: Tx, session_id: str) -> bool:
    """Return whether an intent of the session's owner can be claimed, in any catalog."""
    return bool(find_due(tx, [session_id]))


def find_due(tx: Tx, session_ids: Sequence[str]) -> set[str]:
    """Return the sessions for whose owners `has_due` is true."""
    is_due = exists().where(table.c.owner == sessions.c.owner, *_IS_DUE)
    query = select(sessions.c.id).where(sessions.c.id.in_(session_ids), is_due)
    return set(tx.execute(query).scalars())


def claim(
    tx: Tx, lease: DriverLease, identities: Sequence[str], *, limit: int
) -> list[CatalogIntent]:
    """Claim at most `limit` intents of these catalogs for a driver, and return them.

    The transaction has checked that the driver owns its session.
    """
    return [
        CatalogIntent(
            id=row["id"],
            action=row["action"],
            identity=row["identity"],
            view=row["view_id"],
            path=row["path"],
            generation=row["generation"],
            attempt=row["attempts"] + 1,
        )
        for row in _claim(tx, lease, identities, limit=limit)
    ]


def claim_sinks(tx: Tx, lease: DriverLease, *, limit: int) -> list[SinkIntent]:
    """Claim at most `limit` intents for sinks of ended queries, like `claim`."""
    rows = _claim(tx, lease, [SINKS], limit=limit)
    specs = select(stream_queries.c.id, stream_queries.c.spec).where(
        stream_queries.c.id.in_([row["query_id"] for row in rows])
    )
    spec_of = {row.id: row.spec for row in tx.execute(specs)}
    return [
        SinkIntent(
            id=row["id"],
            query_id=row["query_id"],
            spec=spec_of[row["query_id"]],
            attempt=row["attempts"] + 1,
        )
        for row in rows
    ]


def _claim(
    tx: Tx, lease: DriverLease, identities: Sequence[str], *, limit: int
) -> list[RowMapping]:
    """Claim intents, and return their rows as they were before."""
    query = (
        select(table)
        .join_from(table, sessions, sessions.c.owner == table.c.owner)
        .where(sessions.c.id == lease.session_id, table.c.identity.in_(identities), *_IS_DUE)
        .order_by(table.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True, of=table)
    )
    claimed: list[RowMapping] = []
    for row in tx.execute(query).mappings().all():
        values = {
            "session_id": lease.session_id,
            "epoch": lease.epoch,
            "attempts": row["attempts"] + 1,
            "claim_until": clock(_CLAIM_SECONDS),
        }
        source, target = row["state"], IntentState.CLAIMED
        _TRANSITIONS.apply(
            tx, row["id"], source, target, actor=lease.actor, values=values, is_locked=True
        )
        claimed.append(row)
    return claimed


def finish(tx: Tx, lease: DriverLease, intent_ids: Collection[str]) -> None:
    """End the intents that a driver has carried out. Ids that it has not claimed are ignored."""
    values = {"state": IntentState.DONE, "claim_until": None}
    change = update(table).where(table.c.id.in_(intent_ids), *_is_claimed_by(lease))
    change = change.values(values).values(ended_at=clock()).returning(table.c.id)
    for intent_id in tx.execute(change).scalars().all():
        _append_end(tx, intent_id, IntentState.DONE, lease, None)


def postpone(
    tx: Tx, lease: DriverLease, intent_id: str, error: str, *, attempt: int | None
) -> None:
    """Let an intent wait for its next attempt, or end it as failed after the last one.

    Args:
        attempt: Number of the claim that has failed: the driver may have claimed the intent again.
            None: the last one.
    """
    is_claim = () if attempt is None else (table.c.attempts == attempt,)
    is_last = table.c.attempts >= MAX_ATTEMPTS
    change = (
        update(table)
        .where(table.c.id == intent_id, *_is_claimed_by(lease), *is_claim)
        .values(
            state=case((is_last, IntentState.FAILED), else_=IntentState.PENDING),
            ended_at=case((is_last, clock()), else_=None),
            due_at=clock(_RETRY_SECONDS),
            claim_until=None,
            last_error=error,
        )
        .returning(table.c.state)
    )
    state = tx.execute(change).scalar_one_or_none()
    if state is not None:
        _append_end(tx, intent_id, IntentState(state), lease, error)


def _is_claimed_by(lease: DriverLease) -> tuple[Any, ...]:
    return (
        table.c.state == IntentState.CLAIMED,
        table.c.session_id == lease.session_id,
        table.c.epoch == lease.epoch,
    )


def _append_end(
    tx: Tx, intent_id: str, target: IntentState, lease: DriverLease, error: str | None
) -> None:
    detail = None if error is None else {"error": error}
    source = IntentState.CLAIMED
    events.append(
        tx, CATALOG_INTENT.entity, intent_id, source, target, actor=lease.actor, detail=detail
    )
