"""Limits on the size of a snapshot, which travels in the report of a statement.

A variable can hold a value of any size. A node accepts reports of 16 MiB, so a part that is too
large is listed as unsaved instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from headrace.model.session import MAX_PARTS, Snapshot, SnapshotEntry
from headrace.model.text import MAX_SUMMARY, cut_text, limit_descriptions

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
_RESOURCES = {"jars": "jar", "files": "file", "archives": "archive"}
"""Lists of resources in a snapshot, with the word for one resource."""

T = TypeVar("T")


def limit_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without the parts that are too large, which it lists as unsaved.

    Args:
        snapshot: A snapshot of any size, which `model_construct` has made.
    """
    budget = _Budget()
    conf = dict(budget.limit("setting", snapshot.conf.items(), lambda item: item))
    entries: dict[str, list[SnapshotEntry]] = {
        field: budget.limit(kind, getattr(snapshot, field), _texts_of)
        for field, kind in _KINDS.items()
    }
    resources: dict[str, list[str]] = {
        field: budget.limit(kind, getattr(snapshot, field), lambda uri: [uri])
        for field, kind in _RESOURCES.items()
    }
    return Snapshot(
        catalog=snapshot.catalog,
        namespace=snapshot.namespace,
        conf=conf,
        **entries,
        **resources,
        unsaved=limit_descriptions(snapshot.unsaved + budget.refused),
    )


def _texts_of(entry: SnapshotEntry) -> Sequence[str | None]:
    view = None if entry.view is None else entry.view.model_dump_json()
    return entry.name, entry.body, entry.default, view


class _Budget:
    """The bytes that the parts of a snapshot may still take."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """Descriptions of the parts that were not accepted."""
        self._remaining = TOTAL_LIMIT

    def limit(
        self, kind: str, parts: Iterable[T], texts_of: Callable[[T], Sequence[str | None]]
    ) -> list[T]:
        """Return the parts that are accepted.

        Args:
            kind: What each part is.
            texts_of: Returns the texts of a part, the name first.
        """
        kept = list[T]()
        for part in parts:
            texts = texts_of(part)
            what = f"{kind} {texts[0]}"
            if len(kept) == MAX_PARTS:
                self._refuse(what, f"a snapshot holds at most {MAX_PARTS:,} parts of a kind")
            elif self._accepts(what, texts):
                kept.append(part)
        return kept

    def _accepts(self, what: str, texts: Sequence[str | None]) -> bool:
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
        self._refuse(what, reason)
        return False

    def _refuse(self, what: str, reason: str) -> None:
        self.refused.append(f"{cut_text(what, MAX_SUMMARY)}: {reason}")
