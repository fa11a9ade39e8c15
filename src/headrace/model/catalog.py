"""The catalog of a store, which all its nodes share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any


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
