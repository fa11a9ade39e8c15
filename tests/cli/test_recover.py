from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode


@pytest.fixture
def orphaned(node: ScriptedNode, headrace: RunHeadrace) -> list[dict[str, Any]]:
    """Two orphaned transactions of a closed session."""
    headrace("session", "new", "--conf", "spark.a=1")
    (session,) = node.sessions
    node.transactions = {
        id_: {
            "id": id_,
            "target": f"t_{state}",
            "state": state,
            "statement_id": "st_1",
            "session_id": session,
            "orphaned": True,
            "last_error": error,
        }
        for id_, state, error in (("tx_1", "committing", "no access"), ("tx_2", "begun", None))
    }
    node.sinks = [
        {
            "query_id": "sq_1",
            "name": "adhoc.q",
            "session_id": session,
            "state": "pending",
            "last_error": None,
        }
    ]
    return list(node.transactions.values())


def test_dry_run_lists_what_lost_drivers_have_left_with_the_action(
    node: ScriptedNode, headrace: RunHeadrace, orphaned: list[dict[str, Any]]
) -> None:
    node.transactions["tx_3"] = {**orphaned[0], "id": "tx_3", "orphaned": False}
    completed = headrace("recover", "--dry-run")
    assert completed.returncode == 0
    assert completed.stdout == (
        "id,target,state,action,statement_id,last_error\n"
        "tx_1,t_committing,committing,publish,st_1,no access\n"
        "tx_2,t_begun,begun,remove,st_1,\n"
        "sq_1,adhoc.q,pending,remove,,\n"
    )
    assert len(node.sessions) == 1


def test_recover_starts_one_driver_with_the_configuration_of_the_transactions(
    node: ScriptedNode, headrace: RunHeadrace, orphaned: list[dict[str, Any]]
) -> None:
    completed = headrace("recover", "--format", "json")
    assert completed.returncode == 0
    actions = [(item["state"], item["action"]) for item in json.loads(completed.stdout)]
    assert actions == [("committed", "published"), ("aborted", "removed"), ("done", "removed")]
    _, call = node.calls("POST", "/api/v1/sessions")
    assert call.body == {"like": orphaned[0]["session_id"], "parallelism": 2}
    assert [session["state"] for session in node.sessions.values()] == ["running", "closing"]


def test_recover_starts_no_driver_if_lost_drivers_have_left_nothing(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    completed = headrace("recover")
    assert (completed.returncode, completed.stdout) == (0, "")
    assert not node.sessions


def test_recover_waits_until_the_driver_of_a_transaction_counts_as_lost(
    node: ScriptedNode,
    headrace: RunHeadrace,
    orphaned: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that has just started gives the drivers of its predecessor time to come back."""
    monkeypatch.setattr("headrace.cli.recover._POLL_SECONDS", 0.01)
    lost = node.transactions["tx_1"]
    lost["orphaned"] = False
    looks = []

    def show(_request: object, id_: str) -> tuple[int, dict[str, Any]]:
        looks.append(id_)
        lost["orphaned"] = len(looks) > 3
        return 200, node.transactions[id_]

    monkeypatch.setattr(node, "_get_transaction", show)
    completed = headrace("recover", "--dry-run")
    assert completed.returncode == 0
    assert [line.split(",")[0] for line in completed.stdout.splitlines()] == [
        "id",
        "tx_1",
        "tx_2",
        "sq_1",
    ]


def test_recover_names_the_driver_that_works_on_a_transaction(
    node: ScriptedNode,
    headrace: RunHeadrace,
    orphaned: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.cli.recover._POLL_SECONDS", 0.01)
    live = {**orphaned[0], "orphaned": False}
    node.transactions = {"tx_1": live}

    def show(_request: object, _id: str) -> tuple[int, dict[str, Any]]:
        node.sessions[live["session_id"]]["last_update_time"] = "2026-11-21T10:00:05.000000Z"
        return 200, live

    monkeypatch.setattr(node, "_get_transaction", show)
    completed = headrace("recover", "--dry-run")
    assert "tx_1 of t_committing is in progress in the driver of session" in completed.stderr
    assert "process 4711" in completed.stderr
