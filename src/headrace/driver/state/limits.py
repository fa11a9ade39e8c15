"""Limits on the size of a snapshot, which travels in the report of a statement.

A variable can hold a value of any size. A node accepts reports of 16 MiB, so a part that is too
large is listed as unsaved instead.
"""

from __future__ import annotations

import json

from headrace.model.snapshot import Snapshot, SnapshotEntry
from headrace.model.text import MAX_SUMMARY, cut_text

PART_LIMIT = 4 * 1024 * 1024
"""Largest number of bytes of one setting, variable, function or view in JSON."""
TOTAL_LIMIT = 8 * 1024 * 1024
"""Largest number of bytes of all these parts in JSON."""

_KINDS = {
    "variables": "variable",
    "functions": "function",
    "views": "view",
    "global_views": "view",
}
"""Lists of entries in a snapshot, with the word for one entry."""


def limit_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without the parts that are too large, which it lists as unsaved."""
    budget = _Budget()
    conf = {
        key: value
        for key, value in snapshot.conf.items()
        if budget.accepts(f"setting {key}", [key, value])
    }
    entries: dict[str, list[SnapshotEntry]] = {
        field: [
            entry
            for entry in getattr(snapshot, field)
            if budget.accepts(f"{kind} {entry.name}", [entry.name, entry.body, entry.default])
        ]
        for field, kind in _KINDS.items()
    }
    if not budget.refused:
        return snapshot
    unsaved = snapshot.unsaved + budget.refused
    return snapshot.model_copy(update={"conf": conf, **entries, "unsaved": unsaved})


class _Budget:
    """The bytes that the parts of a snapshot may still take."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """Descriptions of the parts that were not accepted."""
        self._remaining = TOTAL_LIMIT

    def accepts(self, what: str, texts: list[str | None]) -> bool:
        """Return whether a part is accepted, and describe it if it is not."""
        size = len(json.dumps(texts))
        if size <= min(PART_LIMIT, self._remaining):
            self._remaining -= size
            return True
        reason = (
            f"it is larger than {PART_LIMIT >> 20} MiB"
            if size > PART_LIMIT
            else f"the state of the session is larger than {TOTAL_LIMIT >> 20} MiB"
        )
        self.refused.append(f"{cut_text(what, MAX_SUMMARY)}: {reason}")
        return False
