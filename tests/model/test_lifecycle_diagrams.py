"""The diagrams of docs/explanation/lifecycles.md have the transitions of model/lifecycle.py."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from headrace.model import lifecycle
from headrace.model.lifecycle import Lifecycle

FILE = Path(__file__).parents[2] / "docs" / "explanation" / "lifecycles.md"
PAGE = FILE.read_text()
LIFECYCLES: list[Lifecycle[Any]] = [
    value for value in vars(lifecycle).values() if isinstance(value, Lifecycle)
]


def diagram(name: str) -> str:
    """Return the mermaid block below the heading of a lifecycle."""
    match = re.search(
        rf"^## {name}\n```mermaid\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE | re.IGNORECASE
    )
    assert match is not None, f"{FILE.name} has no diagram of the lifecycle {name!r}"
    return match[1]


@pytest.mark.parametrize("cycle", LIFECYCLES, ids=lambda cycle: cycle.name)
def test_the_diagram_has_exactly_the_transitions_of_the_lifecycle(
    cycle: Lifecycle[StrEnum],
) -> None:
    drawn = set(re.findall(r"^\s*(\w+) --> (\w+): \S", diagram(cycle.name), re.MULTILINE))

    assert drawn == {
        (source.value, target.value)
        for source, following in cycle.transitions.items()
        for target in following
    }


@pytest.mark.parametrize("cycle", LIFECYCLES, ids=lambda cycle: cycle.name)
def test_the_diagram_starts_with_the_initial_state(cycle: Lifecycle[StrEnum]) -> None:
    starts = re.findall(r"^\s*\[\*\] --> (\w+): \S", diagram(cycle.name), re.MULTILINE)

    assert starts == [cycle.initial.value]
