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
        }
        for id_, state in (("tx_1", "committing"), ("tx_2", "begun"))
    }
    return list(node.transactions.values())


def test_dry_run_lists_orphaned_transactions_with_the_action(
    node: ScriptedNode, headrace: RunHeadrace, orphaned: list[dict[str, Any]]
) -> None:
    node.transactions["tx_3"] = {**orphaned[0], "id": "tx_3", "orphaned": False}
    completed = headrace("recover", "--dry-run")
    assert completed.returncode == 0
    assert completed.stdout == (
        "id,target,state,action,statement_id\n"
        "tx_1,t_committing,committing,publish,st_1\n"
        "tx_2,t_begun,begun,remove,st_1\n"
    )
    assert len(node.sessions) == 1


def test_recover_starts_one_driver_with_the_configuration_of_the_transactions(
    node: ScriptedNode, headrace: RunHeadrace, orphaned: list[dict[str, Any]]
) -> None:
    completed = headrace("recover", "--format", "json")
    assert completed.returncode == 0
    actions = [(item["state"], item["action"]) for item in json.loads(completed.stdout)]
    assert actions == [("committed", "published"), ("aborted", "removed")]
    _, call = node.calls("POST", "/api/v1/sessions")
    assert call.body == {"profile": "default", "conf": {"spark.a": "1"}, "parallelism": 2}
    assert [session["state"] for session in node.sessions.values()] == ["running", "closing"]


def test_recover_without_orphaned_transactions_starts_no_driver(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    completed = headrace("recover")
    assert (completed.returncode, completed.stdout) == (0, "")
    assert not node.sessions
