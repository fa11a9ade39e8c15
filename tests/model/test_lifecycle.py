"""Properties that hold for every lifecycle."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.lifecycle import (
    CATALOG_INTENT,
    LIFECYCLES,
    MATERIALIZED_VIEW,
    OPERATION,
    STATEMENT,
    Lifecycle,
    StatementState,
)

REPEATING = [MATERIALIZED_VIEW, CATALOG_INTENT, OPERATION]
"""Lifecycles with a state that can follow itself."""
every_lifecycle = pytest.mark.parametrize(
    "lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.name
)


@every_lifecycle
def test_allows_agrees_with_the_transitions(lifecycle: Lifecycle[Any]) -> None:
    states: type[StrEnum] = type(lifecycle.initial)
    assert set(lifecycle.transitions) == set(states)
    for source in states:
        for target in states:
            allowed = lifecycle.allows(source, target)
            assert allowed is (target in lifecycle.transitions[source])
            if allowed:
                assert source is not target or lifecycle in REPEATING
                assert source in lifecycle.live


@every_lifecycle
def test_states_are_live_or_terminal(lifecycle: Lifecycle[Any]) -> None:
    assert lifecycle.live | lifecycle.terminal == set(lifecycle.transitions)
    assert lifecycle.live.isdisjoint(lifecycle.terminal)
    assert lifecycle.terminal
    assert lifecycle.initial in lifecycle.live
    assert not any(lifecycle.transitions[state] for state in lifecycle.terminal)


@every_lifecycle
def test_every_state_is_reachable_and_can_reach_a_terminal_state(lifecycle: Lifecycle[Any]) -> None:
    assert _reachable(lifecycle, lifecycle.initial) == set(lifecycle.transitions)
    for state in lifecycle.live:
        assert _reachable(lifecycle, state) & lifecycle.terminal


@every_lifecycle
@given(data=st.data())
def test_no_sequence_of_transitions_leaves_a_terminal_state(
    lifecycle: Lifecycle[Any], data: st.DataObject
) -> None:
    state, ended = lifecycle.initial, None
    for target in data.draw(st.lists(st.sampled_from(sorted(lifecycle.transitions)), max_size=30)):
        if lifecycle.allows(state, target):
            state = target
        if state in lifecycle.terminal:
            ended = ended or state
            assert state is ended


def test_a_cancelling_statement_can_only_end() -> None:
    """Every outcome remains possible; running again does not."""
    assert {*STATEMENT.transitions[StatementState.CANCELLING]} == STATEMENT.terminal


def _reachable(lifecycle: Lifecycle[Any], start: StrEnum) -> set[StrEnum]:
    reachable, frontier = {start}, [start]
    while frontier:
        following = lifecycle.transitions[frontier.pop()].keys() - reachable
        reachable |= following
        frontier += following
    return reachable
