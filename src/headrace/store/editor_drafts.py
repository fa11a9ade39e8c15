"""Drafts of editors. Each belongs to one user, and a save names the revision that it replaces."""

from __future__ import annotations

from sqlalchemy import delete, literal, select, update

from headrace.model.draft import EditorDraft
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import editor_drafts as table
from headrace.store.upserts import build_for_dialects

_SELECT = select(*(column for column in table.c if column.name != "created_at"))
_SUMMARY = select(
    *(column for column in table.c if column.name not in {"created_at", "text"}),
    literal("").label("text"),
)


_INSERT = build_for_dialects(
    table,
    lambda new: (
        new.values(created_at=clock(), updated_at=clock(), revision=1)
        .on_conflict_do_nothing()
        .returning(table.c.id)
    ),
)


def insert_draft(
    tx: Tx, draft_id: str, owner: str, *, title: str, text: str, connection_id: str | None
) -> bool:
    """Insert a draft with the revision 1. Return False if a draft with this id exists."""
    row: dict[str, str | None] = {"id": draft_id, "owner": owner, "title": title, "text": text}
    row["connection_id"] = connection_id
    return tx.execute(_INSERT[tx.dialect], row).one_or_none() is not None


def replace(
    tx: Tx, old: EditorDraft, *, title: str, text: str, connection_id: str | None
) -> int | None:
    """Replace a revision of a draft. Return the new one; None if the draft has another one."""
    change = (
        update(table)
        .where(table.c.id == old.id, table.c.revision == old.revision)
        .values(
            title=title,
            text=text,
            connection_id=connection_id,
            revision=old.revision + 1,
            updated_at=clock(),
        )
    )
    revision: int | None = tx.execute(change.returning(table.c.revision)).scalar_one_or_none()
    return revision


def find(tx: Tx, owner: str, draft_id: str) -> EditorDraft | None:
    """Return a draft of a user, or None if the user has no such draft."""
    query = _SELECT.where(table.c.id == draft_id, table.c.owner == owner)
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else EditorDraft(**row)


def list_of(tx: Tx, owner: str, limit: int) -> list[EditorDraft]:
    """Return drafts of a user without their texts, the last saved first."""
    query = _SUMMARY.where(table.c.owner == owner)
    query = query.order_by(table.c.updated_at.desc(), table.c.id.desc()).limit(limit)
    return [EditorDraft(**row) for row in tx.execute(query).mappings()]


def delete_draft(tx: Tx, owner: str, draft_id: str) -> bool:
    """Delete a draft of a user. Return False if the user has no such draft."""
    deletion = delete(table).where(table.c.id == draft_id, table.c.owner == owner)
    return tx.execute(deletion.returning(table.c.id)).one_or_none() is not None


def delete_beyond(tx: Tx, owner: str, most: int) -> None:
    """Delete the drafts of a user that were not saved for the longest, down to a number."""
    query = select(table.c.id).where(table.c.owner == owner)
    query = query.order_by(table.c.updated_at.desc(), table.c.id.desc()).offset(most).limit(1000)
    ids = list(tx.execute(query).scalars())
    if ids:
        tx.execute(delete(table).where(table.c.id.in_(ids)))


def delete_unused(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` drafts that were not saved for `seconds`."""
    query = select(table.c.id).where(table.c.updated_at < clock(-seconds))
    query = query.order_by(table.c.updated_at).with_for_update(skip_locked=True)
    ids = list(tx.execute(query.limit(limit)).scalars())
    if ids:
        tx.execute(delete(table).where(table.c.id.in_(ids)))
    return {"drafts": len(ids)}
