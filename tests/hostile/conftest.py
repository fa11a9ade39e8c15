"""The node that is attacked, and what no attack may change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile.target import Target

MEMORY = 400 * 1024 * 1024
"""Largest growth of the node's memory during one attack, in bytes."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target(tmp_path_factory.mktemp("hostile"))
    yield target
    target.close()


@pytest.fixture(autouse=True)
def _nothing_else_changes(target: Target) -> Iterator[None]:
    """Compare what the node must not touch before and after each attack."""
    others, bait, memory = target.read_others(), target.read_bait(), target.memory
    yield
    assert target.process.poll() is None
    assert target.http.get("/ready").status_code == 200
    assert target.serves_requests()
    assert target.read_others() == others
    assert target.read_bait() == bait
    assert target.read_accesses() == ""
    assert target.memory - memory < MEMORY
