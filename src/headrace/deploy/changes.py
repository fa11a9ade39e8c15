"""Temporary."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """Difference of two manifests."""

    changed: list[str]
    diff: str


def compare_manifests(
    old_text: str | None, new_text: str, old: dict[str, Any] | None, new: dict[str, Any]
) -> Comparison:
    """Return the difference."""
    if old is None or old_text is None:
        return Comparison([], "")
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    diff = "\n".join(
        difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), lineterm="")
    )
    return Comparison(changed, diff)
