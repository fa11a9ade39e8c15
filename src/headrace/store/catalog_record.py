"""The record of the store's one catalog, which all nodes share, and what depends on its tables."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import delete, exists, insert, inspect, select

from headrace.model.lifecycle import SESSION
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.nodes import page_live
from headrace.store.tables import (
    jobs,
    materialized_views,
    sessions,
    statements,
    store_catalog,
    stream_queries,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRecord:
    """What identifies a catalog."""

    kind: str
    """`managed`, `external` or `memory`."""
    keys: dict[str, str]
    """What identifies it, by name: the id of a managed metastore, or the addresses that a profile
    names. Two catalogs are different if they have another kind, or if a key differs."""
    place: dict[str, Any] | None
    """Where a managed metastore runs: its folder, machine and namespaces."""
    description: str
    """The catalog in a sentence of a message."""
    node_id: str = ""
    """Node that has recorded it."""

    @property
    def id(self) -> str:
        """Short name, for the setting `catalog.replaces`."""
        text = json.dumps(self.keys, sort_keys=True)
        return f"{self.kind}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def is_same_as(self, other: CatalogRecord) -> bool:
        """Return whether both records can describe one catalog."""
        common = self.keys.keys() & other.keys.keys()
        return self.kind == other.kind and all(self.keys[key] == other.keys[key] for key in common)

    def merged_into(self, recorded: CatalogRecord) -> CatalogRecord:
        """Return this record with the keys that only the recorded one has."""
        return replace(self, keys={**recorded.keys, **self.keys})


_ONLY_ID = 1
_MAX_LISTED = 10


def get(tx: Tx) -> CatalogRecord | None:
    """Return the catalog of the store, or None if no node has recorded one yet."""
    table = store_catalog.c
    query = select(table.kind, table["keys"], table.place, table.description, table.node_id)
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else CatalogRecord(**row)


def has_table(tx: Tx) -> bool:
    """Return whether a node of this version has created or migrated the store."""
    return inspect(tx.connection).has_table(store_catalog.name)


def put(tx: Tx, catalog: CatalogRecord) -> None:
    """Record the catalog of the store, in the place of an earlier record."""
    tx.execute(delete(store_catalog))
    row = {
        "id": _ONLY_ID,
        "kind": catalog.kind,
        "keys": catalog.keys,
        "place": catalog.place,
        "description": catalog.description,
        "node_id": catalog.node_id,
    }
    tx.execute(insert(store_catalog).values(recorded_at=clock(), **row))


def find_dependents(tx: Tx) -> list[str]:
    """Return what in the store depends on the tables of its catalog, in words."""
    kinds = {
        "statements that may have created tables": select(statements.c.id).where(
            statements.c.is_query.is_(False)
        ),
        "streaming queries": select(stream_queries.c.id),
        "materialized views": select(materialized_views.c.id),
        "jobs": select(jobs.c.id),
    }
    return [name for name, query in kinds.items() if tx.execute(select(exists(query))).scalar_one()]


def find_users(tx: Tx, node_id: str) -> list[str]:
    """Return the other live nodes, and the sessions whose drivers have a valid lease."""
    live = select(sessions.c.id).where(
        sessions.c.state.in_(sorted(SESSION.leased)), sessions.c.lease_until > clock()
    )
    others = [f"node {node.id}" for node in page_live(tx) if node.id != node_id]
    drivers = tx.execute(live.order_by(sessions.c.id).limit(_MAX_LISTED)).scalars().all()
    return [*others, *(f"the driver of session {session_id}" for session_id in drivers)]
