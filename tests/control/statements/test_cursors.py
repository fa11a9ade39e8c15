"""Positions in results belong to the client of the owner, whatever others may read."""

from __future__ import annotations

import pytest
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode

from headrace.config.auth import Role
from headrace.control.policy import Caller
from headrace.errors import NotPermitted, StatementNotFound
from headrace.model.connection import Cursor

FIRST, SECOND = Cursor(0, 10, 1), Cursor(10, 20, 2)


@pytest.mark.parametrize("role", [Role.ADMIN, Role.AUDITOR])
def test_a_reader_of_all_results_moves_no_position_of_a_client(
    node: InProcessNode, role: Role
) -> None:
    statement = node.node.statements.get(LOCAL_CALLER, node.submit()["id"])
    cursors, reader = node.node.cursors, Caller("eve", roles=frozenset({role}))
    assert cursors.save(LOCAL_CALLER, statement, FIRST, previous=None)
    assert cursors.find(reader, statement) == FIRST
    with pytest.raises(NotPermitted, match="belongs to another owner") as caught:
        cursors.save(reader, statement, SECOND, previous=FIRST)
    # The hint names a call that exists: its answer says that there is no result yet.
    assert caught.value.hint is not None
    path = caught.value.hint.rstrip(".").rpartition(" ")[2]
    assert node.http.get(path).json()["code"] == "result_not_ready"
    assert cursors.find(LOCAL_CALLER, statement) == FIRST


def test_another_user_finds_no_position(node: InProcessNode) -> None:
    statement = node.node.statements.get(LOCAL_CALLER, node.submit()["id"])
    with pytest.raises(StatementNotFound):
        node.node.cursors.save(Caller("eve"), statement, FIRST, previous=None)
