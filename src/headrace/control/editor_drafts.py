"""The service for drafts of editors. A user reads and changes only drafts of its own.

A draft belongs to the person, also if the person acts for a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headrace.control.context import NodeContext
from headrace.control.policy import Caller, require_creator
from headrace.errors import BodyTooLarge, DraftNotFound, InvalidRequest
from headrace.model.draft import MAX_DRAFT, MAX_TITLE, EditorDraft
from headrace.model.ids import new_id
from headrace.store import editor_drafts
from headrace.text.readable import describe_bytes


@dataclass(frozen=True, slots=True)
class SavedDraft:
    """Where a text is kept after a save."""

    id: str
    revision: int
    is_new: bool
    """Whether the text has become a new draft."""


class EditorDrafts:
    """Drafts of all users, served by one node. No role lets a caller read those of others."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._most = context.settings.web.drafts_per_user

    def open_draft(self, caller: Caller, draft_id: str) -> EditorDraft:
        """Return a draft of the caller. Raise DraftNotFound."""
        with self._database.read() as tx:
            draft = editor_drafts.find(tx, caller.actor, draft_id)
        if draft is None:
            raise DraftNotFound(f"You have no draft {draft_id[:100]!r}.")
        return draft

    def list_drafts(self, caller: Caller) -> list[EditorDraft]:
        """Return the drafts of the caller without their texts, the last saved first."""
        with self._database.read() as tx:
            return editor_drafts.list_of(tx, caller.actor, self._most)

    def save_draft(
        self,
        caller: Caller,
        draft_id: str,
        revision: int,
        *,
        title: str,
        text: str,
        connection_id: str | None,
    ) -> SavedDraft:
        """Save a text as the next revision of a draft.

        If the draft is deleted, or another tab has saved another text since `revision`, both texts
        stay: this one becomes a draft of its own. A repeated save changes nothing.

        Args:
            draft_id: The draft, or the id that the caller has chosen for a new one.
            revision: The revision that is replaced; 0: the draft is new.

        Raises:
            NotPermitted: The caller may not create objects.
            BodyTooLarge: The text is longer than a draft may be.
            InvalidRequest: The text has a character that the store cannot keep.
        """
        require_creator(caller, "drafts")
        _check_text(text)
        title = title[:MAX_TITLE]
        with self._database.write("draft.save") as tx:
            insert = partial(
                editor_drafts.insert_draft, tx, title=title, text=text, connection_id=connection_id
            )
            old = editor_drafts.find(tx, caller.actor, draft_id)
            if old is not None and old.revision == revision:
                saved = editor_drafts.replace(
                    tx, old, title=title, text=text, connection_id=connection_id
                )
                if saved is not None:
                    return SavedDraft(old.id, saved, is_new=False)
            elif old is not None and old.text == text:
                return SavedDraft(old.id, old.revision, is_new=False)
            is_first = old is None and revision == 0
            # A stranger may have the id.
            if not is_first or not insert(draft_id, caller.actor):
                draft_id = new_id("dr")
                insert(draft_id, caller.actor)
            editor_drafts.delete_beyond(tx, caller.actor, self._most)
        return SavedDraft(draft_id, 1, is_new=True)

    def delete_draft(self, caller: Caller, draft_id: str) -> None:
        """Delete a draft of the caller, if there is one."""
        require_creator(caller, "drafts")
        with self._database.write("draft.delete") as tx:
            editor_drafts.delete_draft(tx, caller.actor, draft_id)


def _check_text(text: str) -> None:
    size = len(text.encode())
    if size > MAX_DRAFT:
        raise BodyTooLarge(
            f"The text has {describe_bytes(size)}, and a draft at most"
            f" {describe_bytes(MAX_DRAFT)}: it is not saved."
        )
    if "\0" in text:
        raise InvalidRequest("The text has the character NUL: it is not saved.")
