"""Contract of the drafts of editors."""

from __future__ import annotations

from sqlalchemy import update
from tests.support.store import OWNER

from headrace.model.draft import EditorDraft
from headrace.store import editor_drafts
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import editor_drafts as table

IDS = [f"dr_{number:032x}" for number in range(5)]


def insert(store: Database, draft_id: str, *, owner: str = OWNER, age: float = 0) -> None:
    with store.write("test.draft") as tx:
        editor_drafts.insert_draft(
            tx, draft_id, owner, title="t", text="SELECT 1", connection_id=None
        )
        change = update(table).where(table.c.id == draft_id)
        tx.execute(change.values(updated_at=clock(-age)))


def find(store: Database, draft_id: str, owner: str = OWNER) -> EditorDraft:
    with store.read() as tx:
        draft = editor_drafts.find(tx, owner, draft_id)
    assert draft is not None
    return draft


def list_ids(store: Database, owner: str = OWNER) -> list[str]:
    with store.read() as tx:
        return [each.id for each in editor_drafts.list_of(tx, owner, 100)]


def test_a_revision_is_replaced_once(store: Database) -> None:
    insert(store, IDS[0])
    old = find(store, IDS[0])
    values = {"title": "new", "text": "SELECT 'é' \n", "connection_id": None}
    with store.write("test.draft") as tx:
        assert editor_drafts.replace(tx, old, **values) == 2
        assert editor_drafts.replace(tx, old, **(values | {"text": "SELECT 3"})) is None
    new = find(store, IDS[0])
    assert (new.revision, new.text, new.title) == (2, values["text"], "new")


def test_a_draft_is_found_and_deleted_by_its_owner_only(store: Database) -> None:
    insert(store, IDS[0])
    with store.write("test.draft") as tx:
        assert editor_drafts.find(tx, "bob", IDS[0]) is None
        assert not editor_drafts.delete_draft(tx, "bob", IDS[0])
        assert editor_drafts.delete_draft(tx, OWNER, IDS[0])
        assert not editor_drafts.delete_draft(tx, OWNER, IDS[0])


def test_the_list_has_no_texts_and_the_drafts_beyond_a_number_are_deleted(store: Database) -> None:
    for number, draft_id in enumerate(IDS):
        insert(store, draft_id, age=100.0 * number)
    insert(store, "dr_of_bob", owner="bob", age=10_000)
    assert list_ids(store) == IDS
    with store.read() as tx:
        assert {each.text for each in editor_drafts.list_of(tx, OWNER, 2)} == {""}
        assert len(editor_drafts.list_of(tx, OWNER, 2)) == 2
    with store.write("test.beyond") as tx:
        editor_drafts.delete_beyond(tx, OWNER, 3)
    assert list_ids(store) == IDS[:3]
    assert list_ids(store, "bob") == ["dr_of_bob"]


def test_unused_drafts_are_deleted_the_oldest_first(store: Database) -> None:
    for number, draft_id in enumerate(IDS):
        insert(store, draft_id, age=1000.0 * number)
    with store.write("test.unused") as tx:
        assert editor_drafts.delete_unused(tx, 1500, 2) == {"drafts": 2}
    assert list_ids(store) == IDS[:3]
    with store.write("test.unused") as tx:
        assert editor_drafts.delete_unused(tx, 1500, 2) == {"drafts": 1}
        assert editor_drafts.delete_unused(tx, 1500, 2) == {"drafts": 0}
