"""`headrace history purge`: counts, the question, and what stays."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update
from tests.cli.conftest import RunHeadrace
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.store import new_session, new_statement
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState
from headrace.store.clock import clock
from headrace.store.tables import statements


@pytest.fixture
def real_node(start_node: StartNode) -> InProcessNode:
    return start_node(history={"retention": None})


@pytest.fixture
def old(real_node: InProcessNode) -> str:
    """Id of a statement that ended 8 days ago, beside a newer and a live one of its session."""
    session = new_session(real_node.database, owner=LOCAL_OWNER)
    old = new_statement(real_node.database, session, StatementState.FAILED, owner=LOCAL_OWNER)
    with real_node.database.write("test") as tx:
        tx.execute(update(statements).values(ended_at=clock(-8 * 24 * 3600.0)))
    new_statement(real_node.database, session, StatementState.FAILED, owner=LOCAL_OWNER)
    new_statement(real_node.database, session, owner=LOCAL_OWNER)
    return old


def exists(node: InProcessNode, statement: str) -> bool:
    return node.http.get(f"/api/v1/statements/{statement}").status_code == 200


def test_purge_deletes_what_the_dry_run_has_counted(
    real_node: InProcessNode, old: str, headrace: RunHeadrace
) -> None:
    purge = ("history", "purge", "--older-than", "7d", "--format", "json")
    expected = {"statements": 1, "results": 0, "sessions": 0, "streams": 0, "jobs": 0}
    expected["deployments"] = 0
    counted = headrace(*purge, "--dry-run", HEADRACE_SERVER=real_node.address)
    assert json.loads(counted.stdout) == expected
    assert exists(real_node, old)
    deleted = headrace(*purge, "--yes", HEADRACE_SERVER=real_node.address)
    assert json.loads(deleted.stdout) == expected
    assert not exists(real_node, old)
    assert len(real_node.http.get("/api/v1/statements").json()["items"]) == 2


@pytest.mark.parametrize("answer", ["y", "n"])
def test_purge_asks_on_a_terminal(
    real_node: InProcessNode, old: str, environment: dict[str, str], answer: str
) -> None:
    terminal = PseudoTerminal({**environment, "HEADRACE_SERVER": real_node.address})
    command = terminal.start("history", "purge", "--older-than", "7d")
    wait_until(lambda: "for ever? [y/N]" in terminal.text, what="the question")
    assert "Ended more than 7d ago: statements 1," in terminal.text
    terminal.type(f"{answer}\n")
    assert command.wait(timeout=120) == 0
    terminal.close()
    assert exists(real_node, old) == (answer == "n")
    assert ("Nothing was deleted." in terminal.text) == (answer == "n")


def test_purge_without_a_terminal_needs_yes(
    real_node: InProcessNode, old: str, headrace: RunHeadrace
) -> None:
    refused = headrace("history", "purge", "--older-than", "7d", HEADRACE_SERVER=real_node.address)
    assert refused.returncode == 2
    assert "Add --yes" in refused.stderr
    assert exists(real_node, old)


@pytest.mark.parametrize(
    ("age", "message"),
    [
        ("0s", "Write an age above 0"),
        ("-1d", "is not a duration"),
        ("30", "Add a unit"),
        ("soon", "is not a duration"),
    ],
)
def test_purge_refuses_an_age_that_is_none(
    real_node: InProcessNode, headrace: RunHeadrace, age: str, message: str
) -> None:
    refused = headrace("history", "purge", "--older-than", age, "--yes")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr
    body = {"older_than": age}
    assert real_node.http.post("/api/v1/history/purge", json=body).status_code in {400, 422}
