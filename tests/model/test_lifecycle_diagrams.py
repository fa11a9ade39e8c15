"""docs/lifecycles.md draws what model/lifecycle.py holds, edge by edge."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from headrace.model import lifecycle
from headrace.model.lifecycle import Lifecycle

PAGE = (Path(__file__).parents[2] / "docs" / "lifecycles.md").read_text()
LIFECYCLES: list[Lifecycle[Any]] = [
    value for value in vars(lifecycle).values() if isinstance(value, Lifecycle)
]


def drawing(name: str) -> str:
    """The mermaid block below the heading of a lifecycle."""
    found = re.search(
        rf"^## {name}\n```mermaid\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE | re.IGNORECASE
    )
    assert found is not None, f"docs/lifecycles.md draws no {name}"
    return found[1]


@pytest.mark.parametrize("cycle", LIFECYCLES, ids=lambda cycle: cycle.name)
def test_the_drawing_has_these_edges_and_no_others(cycle: Lifecycle[StrEnum]) -> None:
    drawn = set(re.findall(r"^\s*(\w+) --> (\w+): \S", drawing(cycle.name), re.MULTILINE))

    assert drawn == {
        (source.value, target.value)
        for source, following in cycle.transitions.items()
        for target in following
    }


@pytest.mark.parametrize("cycle", LIFECYCLES, ids=lambda cycle: cycle.name)
def test_the_drawing_begins_where_the_lifecycle_does(cycle: Lifecycle[StrEnum]) -> None:
    begun = re.findall(r"^\s*\[\*\] --> (\w+): \S", drawing(cycle.name), re.MULTILINE)

    assert begun == [cycle.initial.value]
