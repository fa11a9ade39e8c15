"""What users can do to a query in which state: over HTTP, and as a statement."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.node_client import Json
from tests.support.running_query import ERROR, RunningQuery

from headrace.model.lifecycle import StreamAction, StreamState

Prepare = Callable[[InProcessNode, RunningQuery], object]
ACTIONS = list(StreamAction)


def _request(action: str, *, confirmed: bool = False) -> Prepare:
    def prepare(node: InProcessNode, query: RunningQuery) -> None:
        node.act_on_stream(query.id, action)
        if confirmed:
            query.report(StreamState.STOPPED)

    return prepare


def _report(state: StreamState, **facts: object) -> Prepare:
    return lambda _node, query: query.report(state, **facts)


_BACKOFF = {"failures": 1, "delay_seconds": 60.0, "retry_seconds": 60.0}
# For each state, what each action does: the state after it, or None for a conflict.
CASES: dict[str, tuple[Prepare, dict[str, str | None], str]] = {
    "running": (
        _report(StreamState.RUNNING),
        {"stop": "stopping", "pause": "stopping", "restart": "stopping"},
        "PAUSE STREAM",
    ),
    "backing off": (
        _report(StreamState.BACKING_OFF, **_BACKOFF),
        {"stop": "stopping", "pause": "stopping", "restart": "stopping", "retry": "starting"},
        "RETRY STREAM",
    ),
    "stopping": (
        _request("stop"),
        {"stop": "stopping", "restart": "stopping"},
        "Wait until SHOW STREAM",
    ),
    "pausing": (
        _request("pause"),
        {"stop": "stopping", "pause": "stopping", "resume": "stopping", "restart": "stopping"},
        "Wait until SHOW STREAM",
    ),
    "restarting": (
        _request("restart"),
        {"stop": "stopping", "restart": "stopping"},
        "Wait until SHOW STREAM",
    ),
    "paused": (
        _request("pause", confirmed=True),
        {"stop": "stopped", "resume": "starting", "restart": "starting"},
        "RESUME STREAM",
    ),
    "stopped": (_request("stop", confirmed=True), {"restart": "starting"}, "RESTART STREAM"),
    "failed": (_report(StreamState.FAILED, error=ERROR), {"restart": "starting"}, "RESTART STREAM"),
    "closing": (
        lambda node, query: node.http.delete(f"/api/v1/sessions/{query.session}"),
        {"stop": "stopping"},
        "Wait until SHOW STREAM",
    ),
}


def show(query: RunningQuery) -> Json:
    """Return a query without its reason, which counts the seconds to the next start."""
    return {key: value for key, value in query.node.stream(query.id).items() if key != "reason"}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", CASES)
def test_an_action_acts_or_is_a_conflict_that_says_which_action_would_act(
    node: InProcessNode, state: str, action: StreamAction
) -> None:
    prepare, outcomes, hint = CASES[state]
    query = RunningQuery(node)
    prepare(node, query)
    before = (show(query), query.transitions())
    response = node.http.post(f"/api/v1/streams/{query.id}/{action}")
    body = response.json()

    wanted = outcomes.get(action)
    if wanted is not None:
        assert (response.status_code, body["state"]) == (202, wanted)
        return
    assert (response.status_code, body["code"]) == (409, "stream_state_conflict")
    assert f"it is {before[0]['state']}" in body["detail"]
    assert hint in body["hint"]
    assert (show(query), query.transitions()) == before
    statement = node.run(f"{action} STREAM {query.name}")
    assert (statement["state"], statement["error"]["code"]) == ("failed", "stream_state_conflict")
    assert statement["error"]["message"] == f"{body['detail']} {body['hint']}"


@pytest.mark.parametrize("action", ["stop", "pause", "restart"])
def test_an_action_that_is_in_force_changes_nothing(node: InProcessNode, action: str) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.id, action)
    before = (node.stream(query.id), query.transitions())
    assert node.act_on_stream(query.id, action)["state"] == "stopping"

    assert (node.stream(query.id), query.transitions()) == before
