"""One property over every transition of every lifecycle."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.lifecycle import NODE, SESSION, STATEMENT, Lifecycle, StatementState

LIFECYCLES: list[Lifecycle[Any]] = [STATEMENT, SESSION, NODE]
_EACH = pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.name)


@_EACH
def test_every_transition_is_told_alike_from_both_ends(lifecycle: Lifecycle[Any]) -> None:
    states: type[StrEnum] = type(lifecycle.initial)
    assert set(lifecycle.transitions) == set(states)
    for source in states:
        for target in states:
            allowed = lifecycle.allows(source, target)
            assert allowed is (target in lifecycle.transitions[source])
            assert allowed is (source in lifecycle.sources(target))
            if allowed:
                assert source is not target
                assert source in lifecycle.live


@_EACH
def test_states_are_live_or_terminal(lifecycle: Lifecycle[Any]) -> None:
    assert lifecycle.live | lifecycle.terminal == set(lifecycle.transitions)
    assert lifecycle.live.isdisjoint(lifecycle.terminal)
    assert lifecycle.terminal
    assert lifecycle.initial in lifecycle.live
    assert not any(lifecycle.transitions[state] for state in lifecycle.terminal)


@_EACH
def test_every_state_is_reached_and_every_life_can_end(lifecycle: Lifecycle[Any]) -> None:
    assert _reached(lifecycle, lifecycle.initial) == set(lifecycle.transitions)
    for state in lifecycle.live:
        assert _reached(lifecycle, state) & lifecycle.terminal


@_EACH
@given(data=st.data())
def test_no_walk_leaves_a_terminal_state(lifecycle: Lifecycle[Any], data: st.DataObject) -> None:
    state, ended = lifecycle.initial, None
    for target in data.draw(st.lists(st.sampled_from(sorted(lifecycle.transitions)), max_size=30)):
        if lifecycle.allows(state, target):
            state = target
        if state in lifecycle.terminal:
            ended = ended or state
            assert state is ended


def test_from_cancelling_the_truth_wins() -> None:
    """A statement may still end as it really did, but never goes back to work."""
    assert STATEMENT.transitions[StatementState.CANCELLING] == STATEMENT.terminal


def _reached(lifecycle: Lifecycle[Any], start: StrEnum) -> set[StrEnum]:
    reached, frontier = {start}, [start]
    while frontier:
        following = lifecycle.transitions[frontier.pop()] - reached
        reached |= following
        frontier += following
    return reached
