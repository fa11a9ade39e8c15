"""What users can do to a streaming query, and in which state.

An action acts, or it is *in force*: the same action was requested before and its effect is not
complete. Both are successes. Otherwise the action is a conflict. docs/guides/streams.md has the
same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from headrace.model.lifecycle import STREAM, StreamAction, StreamState
from headrace.model.stream_query import EndReason, StreamQuery, Wanted, describe_end


class Answer(StrEnum):
    """What an action does in a state."""

    ACTS = "acts"
    IN_FORCE = "in force"
    CONFLICT = "conflict"


_ACTING_STATES: Mapping[StreamAction, frozenset[StreamState]] = {
    StreamAction.STOP: STREAM.started | {StreamState.PAUSED},
    StreamAction.PAUSE: STREAM.started,
    StreamAction.RESUME: frozenset({StreamState.PAUSED}),
    StreamAction.RESTART: STREAM.started | {StreamState.PAUSED} | STREAM.terminal,
    StreamAction.RETRY: frozenset({StreamState.BACKING_OFF}),
}
"""States other than `stopping` in which an action acts."""
_ACTING_WISHES: Mapping[StreamAction, frozenset[Wanted]] = {
    StreamAction.STOP: frozenset({Wanted.RUNNING, Wanted.PAUSED, Wanted.RESTARTED}),
    StreamAction.PAUSE: frozenset({Wanted.RUNNING}),
    StreamAction.RESUME: frozenset({Wanted.PAUSED}),
    StreamAction.RESTART: frozenset({Wanted.RUNNING, Wanted.PAUSED, Wanted.STOPPED}),
    StreamAction.RETRY: frozenset(),
}
"""For a query that is `stopping`: what it was to become, if an action acts."""
_EFFECTS: Mapping[StreamAction, Wanted | None] = {
    StreamAction.STOP: Wanted.STOPPED,
    StreamAction.PAUSE: Wanted.PAUSED,
    StreamAction.RESUME: Wanted.RUNNING,
    StreamAction.RESTART: Wanted.RESTARTED,
    StreamAction.RETRY: None,
}
_USER_REASONS = {None, EndReason.STOPPED, EndReason.RESTARTED}
_PARTICIPLES = {
    StreamAction.STOP: "stopped",
    StreamAction.PAUSE: "paused",
    StreamAction.RESUME: "resumed",
    StreamAction.RESTART: "restarted",
    StreamAction.RETRY: "retried",
}


def answer_action(query: StreamQuery, action: StreamAction) -> Answer:
    """Return what an action does to a query."""
    if query.state is not StreamState.STOPPING:
        return Answer.ACTS if query.state in _ACTING_STATES[action] else Answer.CONFLICT
    if query.wanted is _EFFECTS[action]:
        return Answer.IN_FORCE
    # The end of a session, a job or a view cannot be taken back.
    is_taken_back = query.wanted in _ACTING_WISHES[action] and query.end_reason in _USER_REASONS
    return Answer.ACTS if is_taken_back else Answer.CONFLICT


def describe_conflict(query: StreamQuery, action: StreamAction) -> str:
    """Return why an action cannot act on a query."""
    state = str(query.state)
    if query.end_reason is not None and query.state in {StreamState.STOPPED, StreamState.STOPPING}:
        state = f"{state} ({describe_end(query.end_reason)['reason']})"
    elif query.state is StreamState.STOPPING:
        state = f"{state}, to be {query.wanted}"
    return f"The query {query.qualified_name} cannot be {_PARTICIPLES[action]}: it is {state}."


def suggest_action(query: StreamQuery) -> str:
    """Return which action acts on a query in its state."""
    name = f"`{query.name}`"
    if query.state in STREAM.terminal:
        return f"RESTART STREAM {name} begins its next attempt, from its checkpoint if it has one."
    if query.state is StreamState.PAUSED:
        return f"RESUME STREAM {name} continues it, STOP STREAM {name} ends it."
    if query.state is StreamState.BACKING_OFF:
        return f"RETRY STREAM {name} starts it now, STOP STREAM {name} ends it."
    if query.state is StreamState.STOPPING:
        return f"Wait until SHOW STREAM {name} shows that it is not stopping any more."
    return f"PAUSE STREAM {name} stops it until it is resumed, STOP STREAM {name} ends it."
