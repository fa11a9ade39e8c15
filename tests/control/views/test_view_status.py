"""Reads of materialized views by callers with different rights."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import event
from tests.support.in_process_node import InProcessNode
from tests.support.views import ViewWriter

from headrace.config.auth import Role
from headrace.control.policy import HIDDEN_TEXT, Caller
from headrace.errors import MaterializedViewNotFound

OTHER = Caller("bob")
OPERATOR = Caller("olga", roles=frozenset({Role.OPERATOR}))
AUDITOR = Caller("arno", roles=frozenset({Role.AUDITOR}))


def test_an_operator_sees_a_view_without_its_sql_and_another_user_not_at_all(
    node: InProcessNode,
) -> None:
    view = ViewWriter(node).make()
    views, view_id = node.node.views, str(view.describe()["id"])
    path = ["default", view.name]
    owner = node.node.authenticator.local_caller

    def texts(caller: Caller) -> list[str]:
        listed = views.list_views(caller, limit=1000, all_owners=True)
        found = [*listed, *views.find_views(caller, path), views.get_view(caller, view_id)]
        return [each.view.text for each in found if each.view.id == view_id]

    assert texts(owner) == texts(AUDITOR) == 3 * [view.create]
    assert texts(OPERATOR) == 3 * [HIDDEN_TEXT]
    assert views.list_views(OTHER, limit=1000, all_owners=True) == []
    assert views.find_views(OTHER, path) == []
    with pytest.raises(MaterializedViewNotFound):
        views.get_view(OTHER, view_id)


def test_a_list_has_the_views_of_its_caller_by_name(node: InProcessNode) -> None:
    names = sorted(ViewWriter(node).make().name for _number in range(3))
    owner = node.node.authenticator.local_caller
    listed = [each.view.name for each in node.node.views.list_views(owner, limit=1000)]
    assert [name for name in listed if name in names] == names
    assert len(node.node.views.list_views(owner, limit=2)) == 2
    assert node.node.views.list_views(OPERATOR, limit=1000) == []


def test_a_list_takes_the_same_number_of_reads_for_one_view_and_for_many(
    node: InProcessNode,
) -> None:
    owner, engine = node.node.authenticator.local_caller, node.database._readers
    for _number in range(3):
        ViewWriter(node).make()
    queries: list[str] = []

    reader = threading.get_ident()

    def collect(_connection: Any, _cursor: Any, sql: str, *_rest: Any) -> None:
        # Tasks of the node read the store in other threads.
        if threading.get_ident() == reader:
            queries.append(sql)

    event.listen(engine, "before_cursor_execute", collect)
    try:
        counts = []
        for limit in (1, 3):
            queries.clear()
            assert len(node.node.views.list_views(owner, limit=limit)) == limit
            counts.append(len(queries))
    finally:
        event.remove(engine, "before_cursor_execute", collect)
    assert counts[0] == counts[1]
